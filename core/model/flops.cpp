// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/cast.h"
#include "core/model/model.h"

namespace piper {
namespace {

/// Weight elements of the attention's projections: what a token is multiplied with.
double projectionWeights(const ModelSpec& model) {
    const AttentionSpec& a = model.attention;
    const double h = asDouble(model.hidden_size);
    const double heads = asDouble(a.num_heads);
    if (a.kind == AttentionKind::Gqa)
        return h * asDouble(a.head_dim) * (2.0 * heads + 2.0 * asDouble(a.num_kv_heads));
    const double q = heads * asDouble(a.qkHeadDim());
    const double q_rank = asDouble(a.q_lora_rank);
    const double kv_rank = asDouble(a.kv_lora_rank);
    const double query = a.q_lora_rank > 0 ? h * q_rank + q_rank * q : h * q;
    const double key_value = h * (kv_rank + asDouble(a.qk_rope_head_dim)) +
                             kv_rank * heads * asDouble(a.qk_nope_head_dim + a.v_head_dim);
    return query + key_value + heads * asDouble(a.v_head_dim) * h;
}

/// Mean number of keys a query meets, over the layers with and without a window.
double meanContext(const ModelSpec& model, std::int64_t seq_len, AttentionCount count) {
    const double s = asDouble(seq_len);
    const double windowed = model.windowShare();
    const double window = std::min(s, asDouble(model.attention.sliding_window));
    if (count == AttentionCount::Full) return windowed * window + (1.0 - windowed) * s;
    return windowed * (window - window * window / (2.0 * s)) + (1.0 - windowed) * s / 2.0;
}

void add(TokenFlops& sum, const TokenFlops& term, double scale) {
    sum.attention_projections += term.attention_projections * scale;
    sum.attention_core += term.attention_core * scale;
    sum.dense_mlp += term.dense_mlp * scale;
    sum.router += term.router * scale;
    sum.routed_experts += term.routed_experts * scale;
    sum.shared_experts += term.shared_experts * scale;
    sum.mtp_projection += term.mtp_projection * scale;
    sum.head += term.head * scale;
}

}  // namespace

TokenFlops layerForwardFlops(const ModelSpec& model, LayerKind kind, std::int64_t seq_len,
                             AttentionCount count) {
    TokenFlops f;
    const AttentionSpec& a = model.attention;
    const double h = asDouble(model.hidden_size);
    f.attention_projections = Flops(2.0 * projectionWeights(model));
    f.attention_core = Flops(2.0 * meanContext(model, seq_len, count) * asDouble(a.num_heads) *
                             asDouble(a.qkHeadDim() + a.vHeadDim()));
    if (kind == LayerKind::Dense) {
        f.dense_mlp = Flops(2.0 * asDouble(mlpMatrices(model.dense_mlp)) * h *
                            asDouble(model.ffn_hidden_size));
        return f;
    }
    PIPER_CHECK(model.moe.has_value());
    const MoeSpec& moe = *model.moe;
    const double matrices = asDouble(mlpMatrices(moe.mlp));
    f.router = Flops(2.0 * h * asDouble(moe.num_experts));
    f.routed_experts =
        Flops(2.0 * asDouble(moe.router_topk) * matrices * h * asDouble(moe.moe_ffn_hidden_size));
    f.shared_experts = Flops(2.0 * matrices * h * asDouble(moe.shared_ffn_hidden_size) +
                             (moe.shared_gate ? 2.0 * h : 0.0));
    return f;
}

Flops headForwardFlops(const ModelSpec& model) {
    return Flops(2.0 * asDouble(model.hidden_size) * asDouble(model.vocab_size));
}

TokenFlops modelFlopsPerToken(const ModelSpec& model, std::int64_t seq_len, AttentionCount count) {
    constexpr double kForwardAndBackward = 3.0;
    const double mtp = model.layers.empty() ? 0.0 : asDouble(model.mtp_num_layers);
    const double moe_layers = asDouble(model.numMoeLayers());
    const double dense_layers = asDouble(model.num_layers) - moe_layers;
    TokenFlops sum;
    if (dense_layers > 0)
        add(sum, layerForwardFlops(model, LayerKind::Dense, seq_len, count),
            kForwardAndBackward * dense_layers);
    if (moe_layers > 0)
        add(sum, layerForwardFlops(model, LayerKind::Moe, seq_len, count),
            kForwardAndBackward * moe_layers);
    if (mtp > 0) {
        add(sum, layerForwardFlops(model, model.layers.back(), seq_len, count),
            kForwardAndBackward * mtp);
        const double h = asDouble(model.hidden_size);
        sum.mtp_projection = Flops(kForwardAndBackward * mtp * 2.0 * 2.0 * h * h);
    }
    sum.head = headForwardFlops(model) * (kForwardAndBackward * (1.0 + mtp));
    return sum;
}

}  // namespace piper
