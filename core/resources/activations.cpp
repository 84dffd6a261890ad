// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/resources/memory.h"
#include "core/resources/shard.h"

namespace piper {

namespace {

/// Statistics, scores and tables are fp32 and int32 whatever the plan's precision.
constexpr double kWide = 4.0;

double asDouble(std::int64_t v) {
    return static_cast<double>(v);
}

/// Collects tensors [rows, width] with their formula.
class Table {
public:
    explicit Table(Lifetime lifetime) : m_lifetime(lifetime) { m_entries.reserve(24); }

    void add(MemoryTerm term, std::string_view name, double rows, double width, double element,
             std::string_view shape) {
        if (rows <= 0.0 || width <= 0.0) return;
        m_entries.push_back({.term = term,
                             .name = name,
                             .bytes = Bytes(rows * width * element),
                             .lifetime = m_lifetime,
                             .shape = shape,
                             .rows = rows,
                             .width = width,
                             .element_bytes = element});
    }
    [[nodiscard]] std::vector<MemoryEntry> take() { return std::move(m_entries); }

private:
    Lifetime m_lifetime;
    std::vector<MemoryEntry> m_entries;
};

/// Our worker and torchtitan keep the returned expert rows for the gradient of the combine weights,
/// as X-MoE does; Megatron-LM applies the weights inside the experts and keeps none.
bool keepsCombineRows(const Plan& plan) {
    return plan.framework != Framework::Megatron;
}

/// The product of gate and up, input of the down projection, unless it is computed again.
bool keepsActivationProduct(const Plan& plan) {
    return !recomputes(plan, "moe_act");
}

void addAttention(Table& table, const Plan& plan) {
    const Shard s = shardOf(plan);
    const AttentionSpec& a = plan.model.attention;
    const double t = asDouble(s.tokens), local = asDouble(s.local_tokens), h = asDouble(s.hidden);
    const double e = s.element;
    constexpr MemoryTerm term = MemoryTerm::AttentionActivation;
    table.add(term, "layer input", local, h, e, "[T, H]");
    if (!recomputes(plan, "layernorm"))
        table.add(term, "normed attention input", local, h, e, "[T, H]");
    const double q = asDouble(s.heads * s.qk_dim), k = asDouble(s.kv_heads * s.qk_dim),
                 v = asDouble(s.kv_heads * s.v_dim);
    if (a.kind == AttentionKind::Mla) {
        table.add(term, "compressed query, key and value", t,
                  asDouble(2 * a.q_lora_rank + 2 * a.kv_lora_rank + a.qk_rope_head_dim), e,
                  "[T, 2 q_lora + 2 kv_lora + rope]");
        if (!recomputes(plan, "mla_up_proj"))
            table.add(term, "query, key, value", t, q + k + v, e, "[T, nh (2 qk + v)]");
    } else {
        table.add(term, "query, key, value", t, q + k + v, e, "[T, (nh + 2 nkv) hd]");
        if (a.qk_norm)
            table.add(term, "query and key before their norm", t, q + k, e, "[T, (nh + nkv) hd]");
    }
    if (!recomputes(plan, "core_attn")) {
        table.add(term, "attention output", t, asDouble(s.heads * s.v_dim), e, "[T, nh v]");
        table.add(term, "attention log-sum-exp", t, asDouble(s.heads), kWide, "[T, nh]");
    }
    table.add(term, "hidden state after attention", local, h, e, "[T, H]");
    table.add(term, "norm statistics", local, 2.0, kWide, "[T, 2]");
}

void addDenseMlp(Table& table, const Plan& plan) {
    const Shard s = shardOf(plan);
    const double t = asDouble(s.tokens);
    constexpr MemoryTerm term = MemoryTerm::ExpertIntermediate;
    if (!recomputes(plan, "layernorm"))
        table.add(term, "normed MLP input", asDouble(s.local_tokens), asDouble(s.hidden), s.element,
                  "[T, H]");
    if (recomputes(plan, "mlp")) return;
    const std::int64_t f = denseWidth(plan);
    table.add(term, "MLP pre-activation", t, asDouble(preActivationWidth(f, plan.model.dense_mlp)),
              s.element, "[T, 2F]");
    if (keepsActivationProduct(plan))
        table.add(term, "MLP activation", t, asDouble(f), s.element, "[T, F]");
}

void addExperts(Table& table, const Plan& plan, double imbalance) {
    const Shard s = shardOf(plan);
    const MoeSpec& moe = *plan.model.moe;
    const double e = s.element, h = asDouble(s.hidden);
    const double received = asDouble(s.received_rows) * imbalance;
    const std::int64_t f = expertWidth(plan), shared = sharedExpertWidth(plan);
    table.add(MemoryTerm::DispatchedRows, "received rows", received, h, e, "[R, H]");
    table.add(MemoryTerm::ExpertIntermediate, "expert pre-activation", received,
              asDouble(preActivationWidth(f, moe.mlp)), e, "[R, 2F]");
    if (keepsActivationProduct(plan))
        table.add(MemoryTerm::ExpertIntermediate, "expert activation", received, asDouble(f), e,
                  "[R, F]");
    if (shared > 0) {
        table.add(MemoryTerm::ExpertIntermediate, "shared expert pre-activation",
                  asDouble(s.tokens), asDouble(preActivationWidth(shared, moe.mlp)), e, "[T, 2Fs]");
        if (keepsActivationProduct(plan))
            table.add(MemoryTerm::ExpertIntermediate, "shared expert activation",
                      asDouble(s.tokens), asDouble(shared), e, "[T, Fs]");
    }
    if (keepsCombineRows(plan))
        table.add(MemoryTerm::CombineActivation, "returned expert rows", asDouble(s.routed_rows), h,
                  e, "[T k, H]");
}

void addMoe(Table& table, const Plan& plan, double imbalance) {
    const Shard s = shardOf(plan);
    const MoeSpec& moe = *plan.model.moe;
    const double local = asDouble(s.local_tokens);
    if (!recomputes(plan, "layernorm"))
        table.add(MemoryTerm::RouterActivation, "normed router input", local, asDouble(s.hidden),
                  s.element, "[T, H]");
    if (recomputes(plan, "moe")) return;
    table.add(MemoryTerm::RouterActivation, "router scores", local, asDouble(moe.num_experts),
              kWide, "[T, E]");
    // Expert numbers and weights of each token, and the two row maps of the permutation.
    table.add(MemoryTerm::RouterActivation, "routing tables", asDouble(s.routed_rows), 4.0, kWide,
              "[T k, 4]");
    table.add(MemoryTerm::RouterActivation, "order of received rows",
              asDouble(s.received_rows) * imbalance, 1.0, kWide, "[R]");
    addExperts(table, plan, imbalance);
}

struct LogitBytes {
    double kept, gradient;
};

/// Our worker turns fp32 logits into their gradient in place. Megatron-LM keeps bf16 logits and an
/// fp32 softmax; DeepSpeed and torchtitan fp32 logits, probabilities and a gradient.
LogitBytes logitBytes(Framework framework) {
    switch (framework) {
        case Framework::Plain:
            return {4.0, 0.0};
        case Framework::Megatron:
            return {6.0, 2.0};
        case Framework::DeepSpeed:
        case Framework::Torchtitan:
            return {8.0, 4.0};
    }
    return {4.0, 0.0};
}

}  // namespace

Bytes sumOf(const std::vector<MemoryEntry>& entries) {
    Bytes sum;
    for (const MemoryEntry& e : entries) sum += e.bytes;
    return sum;
}

std::vector<MemoryEntry> layerActivations(const Plan& plan, LayerKind kind, double imbalance) {
    Table table(Lifetime::PerMicroBatch);
    addAttention(table, plan);
    if (kind == LayerKind::Moe && plan.model.moe)
        addMoe(table, plan, imbalance);
    else
        addDenseMlp(table, plan);
    return table.take();
}

std::vector<MemoryEntry> layerCheckpoint(const Plan& plan) {
    const Shard s = shardOf(plan);
    Table table(Lifetime::PerMicroBatch);
    table.add(MemoryTerm::AttentionActivation, "layer input", asDouble(s.local_tokens),
              asDouble(s.hidden), s.element, "[T, H]");
    return table.take();
}

std::vector<MemoryEntry> embeddingActivations(const Plan& plan) {
    Table table(Lifetime::PerMicroBatch);
    table.add(MemoryTerm::EmbeddingActivation, "token numbers", asDouble(shardOf(plan).tokens), 1.0,
              kWide, "[T]");
    return table.take();
}

std::vector<MemoryEntry> headActivations(const Plan& plan) {
    const Shard s = shardOf(plan);
    const double t = asDouble(s.tokens);
    const double heads = asDouble(1 + plan.model.mtp_num_layers);
    constexpr MemoryTerm term = MemoryTerm::HeadActivation;
    Table table(Lifetime::PerMicroBatch);
    table.add(term, "hidden state before the final norm", heads * t, asDouble(s.hidden), s.element,
              "[T, H]");
    table.add(term, "final normed hidden state", heads * t, asDouble(s.hidden), s.element,
              "[T, H]");
    table.add(term, "logits", heads * t, asDouble(s.vocab), logitBytes(plan.framework).kept,
              "[T, V]");
    table.add(term, "targets and statistics", heads * t, 3.0, kWide, "[T, 3]");
    return table.take();
}

std::vector<MemoryEntry> headTransients(const Plan& plan) {
    const Shard s = shardOf(plan);
    Table table(Lifetime::PerOperation);
    table.add(MemoryTerm::GradientActivation, "backward of the head: gradient of the hidden state",
              asDouble(s.tokens), 2.0 * asDouble(s.hidden), s.element, "[T, 2H]");
    table.add(MemoryTerm::GradientActivation, "backward of the head: gradient of the logits",
              asDouble(s.tokens), asDouble(s.vocab), logitBytes(plan.framework).gradient, "[T, V]");
    return table.take();
}

namespace {

std::vector<MemoryEntry> attentionTransients(const Plan& plan) {
    const Shard s = shardOf(plan);
    const AttentionSpec& a = plan.model.attention;
    const double q = asDouble(s.heads * s.qk_dim), k = asDouble(s.kv_heads * s.qk_dim),
                 v = asDouble(s.kv_heads * s.v_dim);
    Table table(Lifetime::PerOperation);
    table.add(MemoryTerm::GradientActivation,
              "backward of attention: gradients of hidden state, norm and input",
              asDouble(s.local_tokens), 3.0 * asDouble(s.hidden), s.element, "[T, 3H]");
    table.add(MemoryTerm::GradientActivation,
              "backward of attention: gradients of query, key and value", asDouble(s.tokens),
              (a.qk_norm ? 2.0 : 1.0) * (q + k) + v, s.element, "[T, nh qk + nkv (qk + v)]");
    return table.take();
}

std::vector<MemoryEntry> mlpTransients(const Plan& plan, LayerKind kind, double imbalance) {
    const Shard s = shardOf(plan);
    const double h = asDouble(s.hidden);
    Table table(Lifetime::PerOperation);
    constexpr MemoryTerm term = MemoryTerm::GradientActivation;
    table.add(term, "backward of experts: gradients of hidden state and norm",
              asDouble(s.local_tokens), 2.0 * h, s.element, "[T, 2H]");
    if (kind == LayerKind::Dense || !plan.model.moe) {
        const std::int64_t f = denseWidth(plan);
        table.add(term, "backward of the MLP: gradients of activation and pre-activation",
                  asDouble(s.tokens), asDouble(f + preActivationWidth(f, plan.model.dense_mlp)),
                  s.element, "[T, 3F]");
        return table.take();
    }
    // Gradients of the rows out of the experts, of the pre-activation, and either of the activation
    // or of the rows in (as computed, and in the order they travel back).
    const std::int64_t f = expertWidth(plan);
    const double received = asDouble(s.received_rows) * imbalance;
    table.add(term, "backward of experts: gradient of rows out", received, h, s.element, "[R, H]");
    table.add(term, "backward of experts: gradient of the pre-activation", received,
              asDouble(preActivationWidth(f, plan.model.moe->mlp)), s.element, "[R, 2F]");
    table.add(term, "backward of experts: gradient of activation, or of rows in and on their way",
              received, std::max(asDouble(f), 2.0 * h), s.element, "[R, max(F, 2H)]");
    return table.take();
}

}  // namespace

std::vector<MemoryEntry> layerTransients(const Plan& plan, LayerKind kind, double imbalance) {
    std::vector<MemoryEntry> attention = attentionTransients(plan);
    std::vector<MemoryEntry> mlp = mlpTransients(plan, kind, imbalance);
    return sumOf(attention) > sumOf(mlp) ? attention : mlp;
}

}  // namespace piper
