// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/resources/memory.h"
#include "core/resources/memory_table.h"
#include "core/resources/shard.h"

namespace piper {

namespace {

/// Our worker and torchtitan keep the returned expert rows for the gradient of the combine weights,
/// as X-MoE does; Megatron-LM applies the weights inside the experts and keeps none.
bool keepsCombineRows(const Plan& plan) {
    return plan.framework != Framework::Megatron;
}

/// The product of gate and up, input of the down projection; "moe_act" is about the routed experts.
bool keepsExpertProduct(const Plan& plan) {
    return !recomputes(plan, "moe_act");
}

/// Softmax, its mask and what dropout leaves of it; nothing under a fused kernel but its
/// log-sum-exp. Source: arXiv 2205.05198, 5 a s^2 b of which the two dropout parts are 3.
void addScores(MemoryTable& table, const Plan& plan, const Shard& s) {
    if (recomputes(plan, "core_attn")) return;
    constexpr MemoryTerm term = MemoryTerm::AttentionActivation;
    if (plan.fused_attention) {
        table.add(term, "attention log-sum-exp", asDouble(s.tokens), asDouble(s.heads), kWide,
                  "[T, nh]");
        return;
    }
    const double rows = asDouble(s.tokens), width = asDouble(s.heads * plan.seq_len);
    table.add(term, "attention softmax", rows, width, s.element, "[T, nh s]");
    if (plan.model.dropout <= 0.0) return;
    table.add(term, "attention dropout mask", rows, width, 1.0, "[T, nh s]");
    table.add(term, "attention after dropout", rows, width, s.element, "[T, nh s]");
}

/// What attention reads and writes around its projections.
void addHeads(MemoryTable& table, const Plan& plan, const Shard& s) {
    const AttentionSpec& a = plan.model.attention;
    const double t = asDouble(s.tokens), e = s.element;
    constexpr MemoryTerm term = MemoryTerm::AttentionActivation;
    const double q = asDouble(s.heads * s.qk_dim), k = asDouble(s.kv_heads * s.qk_dim),
                 v = asDouble(s.kv_heads * s.v_dim);
    if (a.kind == AttentionKind::Mla) {
        const double raw = asDouble(a.q_lora_rank + a.kv_lora_rank + a.qk_rope_head_dim);
        const double normed = asDouble(a.q_lora_rank + a.kv_lora_rank);
        table.add(term, "compressed query, key and value", t, raw + normed,
                  (raw * e + normed * s.gemm_input) / (raw + normed),
                  "[T, 2 q_lora + 2 kv_lora + rope]");
        if (!recomputes(plan, "mla_up_proj"))
            table.add(term, "query, key, value", t, q + k + v, e, "[T, nh (2 qk + v)]");
    } else {
        table.add(term, "query, key, value", t, q + k + v, e, "[T, (nh + 2 nkv) hd]");
        if (a.qk_norm)
            table.add(term, "query and key before their norm", t, q + k, e, "[T, (nh + nkv) hd]");
    }
    const double out = asDouble(s.heads * s.v_dim);
    // The output projection reads it: a recomputed core gives back nothing of it.
    table.add(term, "attention output", t, out, e, "[T, nh v]");
    if (s.gemm_input < e)
        table.add(term, "attention output, quantized", t, out, s.gemm_input, "[T, nh v]");
    // Transformer Engine 2.8 and later, exchange of heads: its own layout besides the sequence's.
    if (plan.layout.cp > 1 && plan.framework == Framework::Megatron)
        table.add(term, "attention output before the cp exchange", t, out, e, "[T, nh v]");
}

void addAttention(MemoryTable& table, const Plan& plan) {
    const Shard s = shardOf(plan);
    const double local = asDouble(s.local_tokens), h = asDouble(s.hidden), e = s.element;
    constexpr MemoryTerm term = MemoryTerm::AttentionActivation;
    table.add(term, "layer input", local, h, e, "[T, H]");
    if (!recomputes(plan, "layernorm"))
        table.add(term, "normed attention input", local, h, s.gemm_input, "[T, H]");
    addHeads(table, plan, s);
    addScores(table, plan, s);
    table.add(term, "hidden state after attention", local, h, e, "[T, H]");
    const double statistics = plan.model.norm == NormKind::LayerNorm ? 4.0 : 2.0;
    table.add(term, "norm statistics", local, statistics, kWide, "[T, 2]");
    if (plan.model.dropout > 0.0)
        table.add(term, "dropout masks of hidden states", local, 2.0 * h, 1.0, "[T, 2H]");
}

void addDenseMlp(MemoryTable& table, const Plan& plan) {
    const Shard s = shardOf(plan);
    const double t = asDouble(s.tokens);
    constexpr MemoryTerm term = MemoryTerm::ExpertIntermediate;
    if (!recomputes(plan, "layernorm"))
        table.add(term, "normed MLP input", asDouble(s.local_tokens), asDouble(s.hidden),
                  s.gemm_input, "[T, H]");
    if (recomputes(plan, "mlp")) return;
    const std::int64_t f = denseWidth(plan);
    table.add(term, "MLP pre-activation", t, asDouble(preActivationWidth(f, plan.model.dense_mlp)),
              s.element, "[T, 2F]");
    table.add(term, "MLP activation", t, asDouble(f), s.gemm_input, "[T, F]");
}

void addSharedExperts(MemoryTable& table, const Plan& plan, const Shard& s) {
    const std::int64_t shared = sharedExpertWidth(plan);
    if (shared <= 0 || recomputes(plan, "shared_experts")) return;
    const double t = asDouble(s.tokens);
    constexpr MemoryTerm term = MemoryTerm::ExpertIntermediate;
    if (s.gemm_input < s.element)
        table.add(term, "shared expert input, quantized", asDouble(s.local_tokens),
                  asDouble(s.hidden), s.gemm_input, "[T, H]");
    table.add(term, "shared expert pre-activation", t,
              asDouble(preActivationWidth(shared, plan.model.moe->mlp)), s.element, "[T, 2Fs]");
    table.add(term, "shared expert activation", t, asDouble(shared), s.gemm_input, "[T, Fs]");
}

void addExperts(MemoryTable& table, const Plan& plan, double imbalance) {
    const Shard s = shardOf(plan);
    const MoeSpec& moe = *plan.model.moe;
    const double e = s.element, h = asDouble(s.hidden);
    const double received = asDouble(s.received_rows) * imbalance;
    const std::int64_t f = expertWidth(plan);
    table.add(MemoryTerm::DispatchedRows, "received rows", received, h, s.gemm_input, "[R, H]");
    table.add(MemoryTerm::ExpertIntermediate, "expert pre-activation", received,
              asDouble(preActivationWidth(f, moe.mlp)), e, "[R, 2F]");
    if (keepsExpertProduct(plan))
        table.add(MemoryTerm::ExpertIntermediate, "expert activation", received, asDouble(f),
                  s.gemm_input, "[R, F]");
    addSharedExperts(table, plan, s);
    if (keepsCombineRows(plan))
        table.add(MemoryTerm::CombineActivation, "returned expert rows", asDouble(s.routed_rows), h,
                  e, "[T k, H]");
}

void addMoe(MemoryTable& table, const Plan& plan, double imbalance) {
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

}  // namespace

Bytes sumOf(const std::vector<MemoryEntry>& entries) {
    Bytes sum;
    for (const MemoryEntry& e : entries) sum += e.bytes;
    return sum;
}

namespace {

/// torchtitan's selective recompute by operation keeps what is dear to compute again: attention,
/// exchanges, and every second matrix product.
std::vector<MemoryEntry> keptByOperation(const Plan& plan, LayerKind kind, double imbalance) {
    const Shard s = shardOf(plan);
    const double t = asDouble(s.tokens), e = s.element, h = asDouble(s.hidden);
    MemoryTable table(Lifetime::PerMicroBatch);
    constexpr MemoryTerm term = MemoryTerm::AttentionActivation;
    table.add(term, "layer input", asDouble(s.local_tokens), h, e, "[T, H]");
    table.add(term, "attention output", t, asDouble(s.heads * s.v_dim), e, "[T, nh v]");
    addScores(table, plan, s);
    double products = 0.0;
    for (const Projection& p : attentionProjections(plan)) products += asDouble(p.out);
    table.add(term, "every second product of attention", t, products / 2.0, e, "[T, out / 2]");
    if (kind == LayerKind::Dense || !plan.model.moe) {
        const double pre = asDouble(preActivationWidth(denseWidth(plan), plan.model.dense_mlp));
        table.add(MemoryTerm::ExpertIntermediate, "every second product of the MLP", t,
                  (pre + h) / 2.0, e, "[T, (2F + H) / 2]");
        return table.take();
    }
    const double received = asDouble(s.received_rows) * imbalance;
    const double pre = asDouble(preActivationWidth(expertWidth(plan), plan.model.moe->mlp));
    table.add(MemoryTerm::DispatchedRows, "received rows", received, h, e, "[R, H]");
    table.add(MemoryTerm::ExpertIntermediate, "every second product of the experts", received,
              (pre + h) / 2.0, e, "[R, (2F + H) / 2]");
    table.add(MemoryTerm::CombineActivation, "returned expert rows", asDouble(s.routed_rows), h, e,
              "[T k, H]");
    return table.take();
}

}  // namespace

std::vector<MemoryEntry> layerActivations(const Plan& plan, LayerKind kind, double imbalance) {
    if (recomputes(plan, "op")) return keptByOperation(plan, kind, imbalance);
    MemoryTable table(Lifetime::PerMicroBatch);
    addAttention(table, plan);
    if (kind == LayerKind::Moe && plan.model.moe)
        addMoe(table, plan, imbalance);
    else
        addDenseMlp(table, plan);
    return table.take();
}

std::vector<MemoryEntry> layerCheckpoint(const Plan& plan) {
    const Shard s = shardOf(plan);
    MemoryTable table(Lifetime::PerMicroBatch);
    const Recompute& r = plan.recompute;
    const double together = r.method == RecomputeMethod::Uniform
                                ? asDouble(std::max<std::int64_t>(1, r.num_layers))
                                : 1.0;
    table.add(MemoryTerm::AttentionActivation, "layer input", asDouble(s.local_tokens),
              asDouble(s.hidden) / together, s.element, "[T, H]");
    return table.take();
}

std::vector<MemoryEntry> embeddingActivations(const Plan& plan) {
    MemoryTable table(Lifetime::PerMicroBatch);
    const Shard s = shardOf(plan);
    table.add(MemoryTerm::EmbeddingActivation, "token numbers", asDouble(s.tokens), 1.0, kWide,
              "[T]");
    if (plan.model.dropout > 0.0)
        table.add(MemoryTerm::EmbeddingActivation, "dropout mask of the embedding",
                  asDouble(s.local_tokens), asDouble(s.hidden), 1.0, "[T, H]");
    return table.take();
}

std::vector<MemoryEntry> headActivations(const Plan& plan) {
    const Shard s = shardOf(plan);
    const double t = asDouble(s.tokens);
    const double stream = plan.framework == Framework::Plain ? t : asDouble(s.local_tokens);
    const double heads = asDouble(1 + plan.model.mtp_num_layers);
    constexpr MemoryTerm term = MemoryTerm::HeadActivation;
    MemoryTable table(Lifetime::PerMicroBatch);
    table.add(term, "hidden state before the final norm", heads * stream, asDouble(s.hidden),
              s.element, "[T, H]");
    table.add(term, "final normed hidden state", heads * stream, asDouble(s.hidden), s.element,
              "[T, H]");
    table.add(term, "logits", heads * t, asDouble(s.vocab), logitBytes(plan).kept, "[T, V]");
    table.add(term, "targets and statistics", heads * t, 3.0, kWide, "[T, 3]");
    return table.take();
}

}  // namespace piper
