// SPDX-License-Identifier: Apache-2.0
#include "core/resources/work.h"

#include <algorithm>

#include "core/base/cast.h"
#include "core/resources/shard.h"

namespace piper {

namespace {

/// Appends one linear layer y[rows, out] = x W: forward, gradient of x, or gradient of W.
void addLinear(OperationWork& work, std::int64_t groups, std::int64_t rows, Projection p,
               OperationKind kind) {
    if (groups <= 0 || rows <= 0 || p.in <= 0 || p.out <= 0) return;
    switch (kind) {
        case OperationKind::InputGrad:
            work.gemms.push_back({groups, rows, p.in, p.out, 1});
            break;
        case OperationKind::WeightGrad:
            work.gemms.push_back({groups, p.in, p.out, rows, 1, true});
            break;
        default:
            work.gemms.push_back({groups, rows, p.out, p.in, 1});
            break;
    }
}

/// Rows spread over experts as evenly as whole rows allow, so that the sum of the rows is exact.
void addGroupedLinear(OperationWork& work, std::int64_t experts, std::int64_t rows, Projection p,
                      OperationKind kind) {
    const std::int64_t base = rows / experts;
    const std::int64_t more = rows % experts;
    addLinear(work, more, base + 1, p, kind);
    addLinear(work, experts - more, base, p, kind);
}

/// Memory-bound traffic in elements and its kernels.
void addTraffic(OperationWork& work, const Shard& s, double elements, double kernels) {
    work.memory_traffic += Bytes(elements * s.element);
    work.kernels += kernels;
}

OperationWork embeddingWork(const Plan& plan, OperationKind kind) {
    const Shard s = shardOf(plan);
    OperationWork work;
    // Look-up reads and writes a row per token; its gradient reads one and adds to one.
    const double rows = asDouble(s.tokens) * asDouble(s.hidden);
    if (kind == OperationKind::Forward || kind == OperationKind::Recompute)
        addTraffic(work, s, 2.0 * rows, 1.0);
    if (kind == OperationKind::WeightGrad) addTraffic(work, s, 3.0 * rows, 1.0);
    return work;
}

AttentionWork attentionCore(const Plan& plan, bool backward) {
    const Shard s = shardOf(plan);
    AttentionWork core{
        plan.micro_batch_size, s.heads, plan.seq_len, s.qk_dim, s.v_dim, backward, {}};
    const auto flops = [&](std::int64_t window) {
        return causalAttentionFlops(core.batch, core.heads, core.seq_len, core.qk_head_dim,
                                    core.v_head_dim, backward, window);
    };
    // The mean over layers with and without a window. Under context parallelism each rank owns
    // seq_len / cp queries of a balanced triangle.
    const double windowed = plan.model.windowShare();
    core.flops =
        (flops(plan.model.attention.sliding_window) * windowed + flops(0) * (1 - windowed)) /
        asDouble(plan.layout.cp);
    core.fused = plan.fused_attention;
    return core;
}

/// Dropout of the unfused scores, one pass either way: reads and writes them and a mask of a byte.
void attentionDropout(OperationWork& work, const Plan& plan) {
    if (plan.fused_attention || plan.model.dropout <= 0.0) return;
    const Shard s = shardOf(plan);
    const double scores = asDouble(s.tokens) * asDouble(s.heads) * asDouble(plan.seq_len);
    work.memory_traffic += Bytes(scores * (2.0 * s.element + 1.0));
    work.kernels += 1.0;
}

void attentionTraffic(OperationWork& work, const Plan& plan, bool backward) {
    const Shard s = shardOf(plan);
    const double rope = asDouble(s.tokens) * asDouble((s.heads + s.kv_heads) * s.qk_dim);
    const double stream = asDouble(s.local_tokens) * asDouble(s.hidden);
    // Norm (read, write), rope in place (read, write), residual sum (two reads, one write); the
    // backward pass reads the saved input of the norm besides.
    addTraffic(work, s, (backward ? 7.0 : 5.0) * stream + 2.0 * rope, 4.0);
}

OperationWork attentionRecompute(const Plan& plan) {
    OperationWork work;
    if (recomputes(plan, "core_attn")) {
        work.attention = attentionCore(plan, false);
        attentionDropout(work, plan);
    }
    if (recomputes(plan, "mla_up_proj") && plan.model.attention.kind == AttentionKind::Mla) {
        const AttentionSpec& a = plan.model.attention;
        const Shard s = shardOf(plan);
        if (a.q_lora_rank > 0)
            addLinear(work, 1, s.tokens, {a.q_lora_rank, s.heads * s.qk_dim},
                      OperationKind::Forward);
        addLinear(work, 1, s.tokens,
                  {a.kv_lora_rank, s.heads * (a.qk_nope_head_dim + a.v_head_dim)},
                  OperationKind::Forward);
    }
    if (recomputes(plan, "layernorm")) {
        const Shard s = shardOf(plan);
        addTraffic(work, s, 2.0 * asDouble(s.local_tokens) * asDouble(s.hidden), 1.0);
    }
    return work;
}

OperationWork attentionWork(const Plan& plan, OperationKind kind) {
    if (kind == OperationKind::Recompute &&
        plan.recompute.granularity == RecomputeGranularity::Selective)
        return attentionRecompute(plan);
    OperationWork work;
    for (const Projection& p : attentionProjections(plan))
        addLinear(work, 1, shardOf(plan).tokens, p, kind);
    if (kind == OperationKind::WeightGrad) return work;
    const bool backward = kind == OperationKind::InputGrad;
    work.attention = attentionCore(plan, backward);
    attentionDropout(work, plan);
    attentionTraffic(work, plan, backward);
    return work;
}

OperationWork routerWork(const Plan& plan, OperationKind kind) {
    const Shard s = shardOf(plan);
    const std::int64_t experts = plan.model.moe ? plan.model.moe->num_experts : 0;
    OperationWork work;
    if (experts == 0) return work;
    if (kind == OperationKind::Recompute &&
        plan.recompute.granularity == RecomputeGranularity::Selective && !recomputes(plan, "moe"))
        return work;
    addLinear(work, 1, s.local_tokens, {s.hidden, experts}, kind);
    if (kind == OperationKind::WeightGrad) return work;
    // Norm of the router's input, then softmax and top-k over fp32 scores.
    const double stream = asDouble(s.local_tokens) * asDouble(s.hidden);
    addTraffic(work, s, (kind == OperationKind::InputGrad ? 4.0 : 2.0) * stream, 1.0);
    work.memory_traffic += Bytes(4.0 * 3.0 * asDouble(s.local_tokens) * asDouble(experts));
    work.kernels += 3.0;
    return work;
}

/// Traffic of the activation between the two matrices of an MLP: gate and up read, product written;
/// the backward pass reads them and the product's gradient and writes both gradients.
void activationTraffic(OperationWork& work, const Shard& s, double rows, std::int64_t ffn,
                       MlpKind kind, bool backward) {
    const double pre = asDouble(preActivationWidth(ffn, kind));
    const double out = asDouble(ffn);
    addTraffic(work, s, rows * (backward ? 2.0 * pre + 2.0 * out : pre + out), 1.0);
}

/// A dense MLP or the shared experts: every token of the rank.
OperationWork denseMlpWork(const Plan& plan, std::int64_t ffn, MlpKind mlp, OperationKind kind,
                           bool with_norm) {
    const Shard s = shardOf(plan);
    OperationWork work;
    for (const Projection& p : mlpProjections(s.hidden, ffn, mlp))
        addLinear(work, 1, s.tokens, p, kind);
    if (kind == OperationKind::WeightGrad) return work;
    const bool backward = kind == OperationKind::InputGrad;
    activationTraffic(work, s, asDouble(s.tokens), ffn, mlp, backward);
    const double stream = asDouble(s.local_tokens) * asDouble(s.hidden);
    addTraffic(work, s, (with_norm ? (backward ? 7.0 : 5.0) : 3.0) * stream, with_norm ? 2.0 : 1.0);
    return work;
}

OperationWork routedExpertWork(const Plan& plan, OperationKind kind, StageId stage) {
    const Shard s = shardOf(plan);
    const MoeSpec& moe = *plan.model.moe;
    const std::int64_t chunks = std::max<std::int64_t>(1, plan.all_to_all.chunks);
    const std::int64_t rows = s.received_rows / chunks;
    OperationWork work;
    for (const Projection& p : mlpProjections(s.hidden, expertWidth(plan), moe.mlp))
        addGroupedLinear(work, s.local_experts, rows, p, kind);
    if (kind != OperationKind::WeightGrad)
        activationTraffic(work, s, asDouble(rows), expertWidth(plan), moe.mlp,
                          kind == OperationKind::InputGrad);
    work.imbalance = stageImbalance(plan, stage);
    return work;
}

OperationWork expertWork(const Plan& plan, const OperationKey& key, StageId stage) {
    const bool selective = key.kind == OperationKind::Recompute &&
                           plan.recompute.granularity == RecomputeGranularity::Selective;
    if (key.layer == LayerKind::Dense || !plan.model.moe) {
        if (selective && !recomputes(plan, "mlp")) return {};
        return denseMlpWork(plan, denseWidth(plan), plan.model.dense_mlp, key.kind, true);
    }
    const MoeSpec& moe = *plan.model.moe;
    if (key.shared_expert) {
        if (moe.shared_ffn_hidden_size == 0 || (selective && !recomputes(plan, "moe"))) return {};
        OperationWork work = denseMlpWork(plan, sharedExpertWidth(plan), moe.mlp, key.kind, false);
        if (moe.shared_gate)
            addLinear(work, 1, shardOf(plan).tokens, {plan.model.hidden_size, 1}, key.kind);
        return work;
    }
    if (!selective || recomputes(plan, "moe")) return routedExpertWork(plan, key.kind, stage);
    OperationWork work;
    if (recomputes(plan, "moe_act")) {
        const Shard s = shardOf(plan);
        const std::int64_t chunks = std::max<std::int64_t>(1, plan.all_to_all.chunks);
        activationTraffic(work, s, asDouble(s.received_rows / chunks), expertWidth(plan), moe.mlp,
                          false);
        work.imbalance = stageImbalance(plan, stage);
    }
    return work;
}

/// The layers of multi-token prediction run with the head, on the last stage.
void addMtpLayer(OperationWork& work, const Plan& plan, OperationKind kind, StageId stage) {
    const Shard s = shardOf(plan);
    const LayerKind layer = lastLayerKind(plan.model);
    addLinear(work, 1, s.tokens, {2 * s.hidden, s.hidden}, kind);
    std::vector<OperationKey> parts = {
        {kind, Phase::Attention, Pass::Forward, layer, false},
        {kind, Phase::Expert, Pass::Forward, layer, false},
    };
    if (layer == LayerKind::Moe) {
        parts.push_back({kind, Phase::Router, Pass::Forward, layer, false});
        parts.push_back({kind, Phase::Expert, Pass::Forward, layer, true});
    }
    Plan whole;  // one chunk: nothing overlaps here
    const Plan* source = &plan;
    if (plan.all_to_all.chunks > 1) {
        whole = plan;
        whole.all_to_all.chunks = 1;
        source = &whole;
    }
    for (const OperationKey& key : parts) {
        const OperationWork part = operationWork(*source, key, stage);
        work.gemms.insert(work.gemms.end(), part.gemms.begin(), part.gemms.end());
        work.memory_traffic += part.memory_traffic;
        work.kernels += part.kernels;
        if (!part.attention) continue;
        if (!work.attention) {
            work.attention = part.attention;
            continue;
        }
        work.attention->batch += part.attention->batch;
        work.attention->flops += part.attention->flops;
    }
}

OperationWork headWork(const Plan& plan, OperationKind kind, StageId stage) {
    const Shard s = shardOf(plan);
    const double heads = asDouble(1 + plan.model.mtp_num_layers);
    OperationWork work;
    addLinear(work, 1, s.tokens, {s.hidden, s.vocab}, kind);
    for (GemmWork& g : work.gemms) g.count = 1 + plan.model.mtp_num_layers;
    if (kind != OperationKind::WeightGrad) {
        // Final norm; then max, sum of exponents and the gradient over fp32 logits.
        addTraffic(work, s, heads * 2.0 * asDouble(s.tokens) * asDouble(s.hidden), heads);
        work.memory_traffic += Bytes(heads * 4.0 * 3.0 * asDouble(s.tokens) * asDouble(s.vocab));
        work.kernels += 3.0 * heads;
    }
    for (std::int64_t i = 0; i < plan.model.mtp_num_layers; ++i)
        addMtpLayer(work, plan, kind, stage);
    return work;
}

OperationWork optimizerWork(const Plan& plan, StageId stage) {
    const StageParameters p = stageParameters(plan, stage);
    const Layout& l = plan.layout;
    const bool sharded = plan.zero_stage >= 1;
    const double owned = p.dense / (sharded ? asDouble(l.dp * l.cp) : 1.0) +
                         p.expert / (sharded ? asDouble(std::max<std::int64_t>(1, l.edp())) : 1.0);
    OperationWork work;
    work.memory_traffic = Bytes(owned * optimizerStepBytes(stateBytes(plan)));
    work.kernels = 1.0;
    return work;
}

OperationWork partsOf(const Plan& plan, const OperationKey& key, StageId stage) {
    const bool trains =
        key.kind == OperationKind::WeightGrad || key.kind == OperationKind::Optimizer;
    if (trains && weightsFrozen(plan)) return {};
    switch (key.phase) {
        case Phase::Embedding:
            return embeddingWork(plan, key.kind);
        case Phase::Attention:
            return attentionWork(plan, key.kind);
        case Phase::Router:
            return routerWork(plan, key.kind);
        case Phase::Expert:
            return expertWork(plan, key, stage);
        case Phase::HeadLoss:
            return headWork(plan, key.kind, stage);
        case Phase::Optimizer:
            return optimizerWork(plan, stage);
        case Phase::Dispatch:
        case Phase::Combine:
        case Phase::TpComm:
        case Phase::CpComm:
        case Phase::PpComm:
        case Phase::DpComm:
            return communicationWork(plan, key, stage);
        case Phase::Idle:
            return {};
    }
    return {};
}

}  // namespace

double optimizerStepBytes(const StateBytes& b) {
    const double main = b.master > 0.0 ? b.master : b.weights;
    const double low = b.master > 0.0 ? b.weights : 0.0;
    return b.gradients + 2.0 * main + 2.0 * b.optimizer + low;
}

OperationWork operationWork(const Plan& plan, const OperationKey& key, StageId stage) {
    OperationWork work = partsOf(plan, key, stage);
    work.kind = key.kind;
    return work;
}

}  // namespace piper
