// SPDX-License-Identifier: Apache-2.0
// What comes and goes: the moments at which a stage can hold most.
#include <algorithm>
#include <iterator>

#include "core/resources/memory_table.h"
#include "core/resources/shard.h"

namespace piper {
namespace {

/// Tensor parallel gathers the whole sequence of a stream for a moment.
double gatheredRows(const Plan& plan, const Shard& s) {
    return plan.layout.tp > 1 && plan.framework != Framework::Plain ? asDouble(s.tokens) : 0.0;
}

std::vector<MemoryEntry> attentionTransients(const Plan& plan) {
    const Shard s = shardOf(plan);
    const AttentionSpec& a = plan.model.attention;
    const double q = asDouble(s.heads * s.qk_dim), k = asDouble(s.kv_heads * s.qk_dim),
                 v = asDouble(s.kv_heads * s.v_dim);
    MemoryTable table(Lifetime::PerOperation);
    constexpr MemoryTerm term = MemoryTerm::GradientActivation;
    table.add(term, "backward of attention: gradients of hidden state, norm and input",
              asDouble(s.local_tokens), 3.0 * asDouble(s.hidden), s.element, "[T, 3H]");
    table.add(term, "backward of attention: gradients of query, key and value", asDouble(s.tokens),
              (a.qk_norm ? 2.0 : 1.0) * (q + k) + v, s.element, "[T, nh qk + nkv (qk + v)]");
    if (!plan.fused_attention)
        table.add(term, "backward of attention: gradient of the scores", asDouble(s.tokens),
                  asDouble(s.heads * plan.seq_len), 2.0 * s.element, "[T, nh s]");
    return table.take();
}

/// Plain frees at the end of the layer. The others free a tensor once its gradient is made: of
/// activation, pre-activation and their gradients [T, 2F + F] stay at most.
void addMlpGradients(MemoryTable& table, const Plan& plan, const Shard& s, double rows,
                     std::int64_t ffn, MlpKind kind) {
    const double pre = asDouble(preActivationWidth(ffn, kind)), f = asDouble(ffn);
    const double width = plan.framework == Framework::Plain ? f + pre : std::max(f, pre);
    table.add(MemoryTerm::GradientActivation,
              "backward of the MLP: gradients of activation and pre-activation", rows, width,
              s.element, "[T, 3F]");
}

/// Gradients of the rows out of the experts, of the pre-activation, and either of the activation
/// or of the rows in (as computed, and in the order they travel back).
void addExpertGradients(MemoryTable& table, const Plan& plan, const Shard& s, double received) {
    constexpr MemoryTerm term = MemoryTerm::GradientActivation;
    const std::int64_t f = expertWidth(plan);
    const double h = asDouble(s.hidden), pre = asDouble(preActivationWidth(f, plan.model.moe->mlp));
    if (plan.framework != Framework::Plain) {
        table.add(term, "backward of experts: gradients of rows and of the pre-activation",
                  received, std::max({2.0 * h, h + asDouble(f), pre}), s.element,
                  "[R, max(2H, H + F, 2F)]");
        return;
    }
    table.add(term, "backward of experts: gradient of rows out", received, h, s.element, "[R, H]");
    table.add(term, "backward of experts: gradient of the pre-activation", received, pre, s.element,
              "[R, 2F]");
    table.add(term, "backward of experts: gradient of activation, or of rows in and on their way",
              received, std::max(asDouble(f), 2.0 * h), s.element, "[R, max(F, 2H)]");
}

std::vector<MemoryEntry> mlpTransients(const Plan& plan, LayerKind kind, double imbalance) {
    const Shard s = shardOf(plan);
    const double h = asDouble(s.hidden);
    MemoryTable table(Lifetime::PerOperation);
    table.add(MemoryTerm::GradientActivation,
              "backward of experts: gradients of hidden state and norm", asDouble(s.local_tokens),
              2.0 * h, s.element, "[T, 2H]");
    if (kind == LayerKind::Dense || !plan.model.moe) {
        table.add(MemoryTerm::CommunicationBuffer, "gathered sequence", gatheredRows(plan, s), h,
                  s.element, "[T, H]");
        addMlpGradients(table, plan, s, asDouble(s.tokens), denseWidth(plan), plan.model.dense_mlp);
    } else {
        addExpertGradients(table, plan, s, asDouble(s.received_rows) * imbalance);
    }
    return table.take();
}

/// The layer's own tensors that are computed again for its backward pass.
void addRecomputed(std::vector<MemoryEntry>& moment, const Plan& plan, LayerKind kind,
                   double imbalance) {
    const bool full = plan.recompute.granularity == RecomputeGranularity::Full;
    std::vector<MemoryEntry> kept, all;
    if (full) {  // which leaves layerActivations whole
        all = layerActivations(plan, kind, imbalance);
    } else {
        kept = layerActivations(plan, kind, imbalance);
        Plan whole = plan;
        whole.recompute = {};
        all = layerActivations(whole, kind, imbalance);
    }
    const double layers = full && plan.recompute.method == RecomputeMethod::Uniform
                              ? asDouble(std::max<std::int64_t>(1, plan.recompute.num_layers))
                              : 1.0;
    for (MemoryEntry& e : all) {
        const bool there =
            !full && std::any_of(kept.begin(), kept.end(),
                                 [&](const MemoryEntry& k) { return k.name == e.name; });
        if (there) continue;
        e.lifetime = Lifetime::PerOperation;
        e.recomputed = true;
        e.bytes *= layers;
        e.layers = layers;
        moment.push_back(e);
    }
}

Moment layerMoment(const Plan& plan, LayerKind kind, double imbalance, bool recomputed) {
    Moment moment;
    moment.name = kind == LayerKind::Moe ? "backward of the experts" : "backward of the MLP";
    std::vector<MemoryEntry> attention = attentionTransients(plan);
    moment.entries = mlpTransients(plan, kind, imbalance);
    if (sumOf(attention) > sumOf(moment.entries)) {
        moment.name = "backward of attention";
        moment.entries = std::move(attention);
    }
    for (const MemoryEntry& e : gatheredLayer(plan, kind)) moment.entries.push_back(e);
    const bool selective = plan.recompute.granularity == RecomputeGranularity::Selective;
    if (recomputed || selective) addRecomputed(moment.entries, plan, kind, imbalance);
    return moment;
}

MemoryEntry boundaryEntry(const Plan& plan) {
    const Shard s = shardOf(plan);
    const double rows = asDouble(s.local_tokens), width = asDouble(s.hidden);
    return {.term = MemoryTerm::StageBoundary,
            .name = "hidden state or its gradient on the way",
            .bytes = Bytes(rows * width * s.element),
            .lifetime = Lifetime::PerOperation,
            .shape = "[T, H]",
            .rows = rows,
            .width = width,
            .element_bytes = s.element};
}

}  // namespace

LogitBytes logitBytes(const Plan& plan) {
    // In place: a fused cross-entropy, and our worker, turn the logits into their gradient.
    if (plan.framework == Framework::Plain) return {4.0, 0.0};
    // torchtitan's compiled loss makes no fp32 logits, but an fp32 gradient.
    const double compiled = plan.framework == Framework::Torchtitan ? 4.0 : 0.0;
    if (plan.fused_cross_entropy) return {activationElementBytes(plan.precision).value, compiled};
    // Megatron-LM: 16-bit logits beside the fp32 softmax, which becomes the gradient.
    if (plan.framework == Framework::Megatron) return {6.0, 0.0};
    // PyTorch's own: 16-bit logits, their fp32 copy, its log-softmax; then an fp32 gradient.
    return plan.precision == Precision::Fp32 ? LogitBytes{8.0, 4.0} : LogitBytes{10.0, 4.0};
}

std::vector<MemoryEntry> headTransients(const Plan& plan) {
    const Shard s = shardOf(plan);
    MemoryTable table(Lifetime::PerOperation);
    const LogitBytes logits = logitBytes(plan);
    const double t = asDouble(s.tokens), v = asDouble(s.vocab), h = asDouble(s.hidden);
    constexpr MemoryTerm term = MemoryTerm::GradientActivation;
    if (plan.framework != Framework::Megatron) {
        table.add(term, "backward of the head: gradient of the hidden state", t, 2.0 * h, s.element,
                  "[T, 2H]");
        table.add(term, "backward of the head: gradient of the logits", t, v, logits.gradient,
                  "[T, V]");
        return table.take();
    }
    // The fp32 softmax is gone when the head's GEMMs run: only what exceeds it adds to the peak.
    const double element = activationElementBytes(plan.precision).value;
    const double weight_gradient = v * h * element;
    const double freed = std::min(weight_gradient, std::max(0.0, logits.kept - element) * t * v);
    table.add(MemoryTerm::Gradients, "backward of the head: gradient of its weights", v, h,
              element * (1.0 - freed / weight_gradient), "[V, H]");
    table.add(term, "backward of the head: gradient of the hidden state", t, h, s.element,
              "[T, H]");
    table.add(MemoryTerm::CommunicationBuffer, "gathered sequence", gatheredRows(plan, s), h,
              s.element, "[T, H]");
    return table.take();
}

/// This layer's weights and the next one's, and the gradients before they are scattered (16 bits,
/// and the fp32 they are reduced in).
std::vector<MemoryEntry> gatheredLayer(const Plan& plan, LayerKind kind) {
    std::vector<MemoryEntry> out;
    if (plan.zero_stage < 3) return out;
    const DenseAndExpert layer = layerElements(plan, kind);
    const double elements = (plan.layout.dp * plan.layout.cp > 1 ? layer.dense : 0.0) +
                            (plan.layout.edp() > 1 ? layer.expert : 0.0);
    const double element = activationElementBytes(plan.precision).value;
    const auto add = [&](std::string_view name, double each) {
        if (elements <= 0.0) return;
        out.push_back({.term = MemoryTerm::CommunicationBuffer,
                       .name = name,
                       .bytes = Bytes(elements * each),
                       .lifetime = Lifetime::PerOperation,
                       .shape = "parameters",
                       .rows = elements,
                       .element_bytes = each});
    };
    if (plan.reshard_after_forward) add("gathered weights of two layers", 2.0 * element);
    if (!weightsFrozen(plan))
        add("gradients of one layer before they are scattered", element + 4.0);
    return out;
}

std::vector<MemoryEntry> embeddingTransients(const Plan& plan) {
    if (plan.framework == Framework::Plain) return {};  // adds each row to the buffer
    const Shard s = shardOf(plan);
    MemoryTable table(Lifetime::PerOperation);
    table.add(MemoryTerm::Gradients, "embedding gradient of one micro-batch", asDouble(s.vocab),
              asDouble(s.hidden), activationElementBytes(plan.precision).value, "[V, H]");
    return table.take();
}

std::vector<MemoryEntry> layerTransients(const Plan& plan, LayerKind kind, double imbalance) {
    std::vector<MemoryEntry> attention = attentionTransients(plan);
    std::vector<MemoryEntry> mlp = mlpTransients(plan, kind, imbalance);
    return sumOf(attention) > sumOf(mlp) ? attention : mlp;
}

std::vector<Moment> stageMoments(const Plan& plan, StageId stage, double imbalance,
                                 const StageLayerCount& count) {
    std::vector<Moment> moments;
    if (count.dense > 0.0) moments.push_back(layerMoment(plan, LayerKind::Dense, imbalance, false));
    if (count.moe > 0.0) moments.push_back(layerMoment(plan, LayerKind::Moe, imbalance, false));
    if (count.recomputed_dense > 0.0)
        moments.push_back(layerMoment(plan, LayerKind::Dense, imbalance, true));
    if (count.recomputed_moe > 0.0)
        moments.push_back(layerMoment(plan, LayerKind::Moe, imbalance, true));
    if (holdsHead(pipelineShape(plan), stage))
        moments.push_back({.name = "backward of the head", .entries = headTransients(plan)});
    if (holdsEmbedding(pipelineShape(plan), stage))  // its micro-batch has given back all else
        moments.push_back({.name = "backward of the embedding",
                           .entries = embeddingTransients(plan),
                           .released = 1.0});
    if (plan.layout.pp > 1)
        for (Moment& moment : moments) moment.entries.push_back(boundaryEntry(plan));
    return moments;
}

}  // namespace piper
