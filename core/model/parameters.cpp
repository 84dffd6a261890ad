// SPDX-License-Identifier: Apache-2.0
#include "core/model/model.h"

namespace piper {
namespace {

std::int64_t gqaParameters(const ModelSpec& model) {
    const AttentionSpec& a = model.attention;
    const std::int64_t h = model.hidden_size;
    const std::int64_t q = a.num_heads * a.head_dim;
    const std::int64_t kv = a.num_kv_heads * a.head_dim;
    std::int64_t sum = h * (q + 2 * kv) + q * h;
    if (a.qkv_bias) sum += q + 2 * kv;
    if (a.output_bias) sum += h;
    if (a.qk_norm) sum += a.qk_norm_full ? q + kv : 2 * a.head_dim;
    return sum;
}

std::int64_t mlaParameters(const ModelSpec& model) {
    const AttentionSpec& a = model.attention;
    const std::int64_t h = model.hidden_size;
    const std::int64_t q = a.num_heads * a.qkHeadDim();
    std::int64_t sum =
        a.q_lora_rank > 0 ? h * a.q_lora_rank + a.q_lora_rank + a.q_lora_rank * q : h * q;
    sum += h * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank;
    sum += a.kv_lora_rank * a.num_heads * (a.qk_nope_head_dim + a.v_head_dim);
    return sum + a.num_heads * a.v_head_dim * h;
}

/// Weights of one MLP of width ffn, with its biases.
std::int64_t mlpParameters(const ModelSpec& model, std::int64_t ffn, MlpKind kind) {
    const std::int64_t matrices = mlpMatrices(kind);
    const std::int64_t bias = model.mlp_bias ? (matrices - 1) * ffn + model.hidden_size : 0;
    return ffn > 0 ? matrices * model.hidden_size * ffn + bias : 0;
}

std::int64_t activeLayer(const ModelSpec& model, LayerKind kind) {
    LayerParameters p = layerParameters(model, kind);
    if (kind == LayerKind::Moe) p.routed_experts = model.moe->router_topk * expertParameters(model);
    return p.total();
}

}  // namespace

std::int64_t attentionParameters(const ModelSpec& model) {
    return model.attention.kind == AttentionKind::Mla ? mlaParameters(model) : gqaParameters(model);
}

std::int64_t expertParameters(const ModelSpec& model) {
    if (!model.moe) return 0;
    return mlpParameters(model, model.moe->moe_ffn_hidden_size, model.moe->mlp);
}

LayerParameters layerParameters(const ModelSpec& model, LayerKind kind) {
    LayerParameters p;
    const std::int64_t h = model.hidden_size;
    p.attention = attentionParameters(model);
    p.norms = 2 * model.normElements();
    if (kind == LayerKind::Dense) {
        p.dense_mlp = mlpParameters(model, model.ffn_hidden_size, model.dense_mlp);
        return p;
    }
    PIPER_CHECK(model.moe.has_value());
    const MoeSpec& moe = *model.moe;
    p.router = h * moe.num_experts + (moe.expert_bias_routing ? moe.num_experts : 0);
    p.routed_experts = moe.num_experts * expertParameters(model);
    p.shared_experts =
        mlpParameters(model, moe.shared_ffn_hidden_size, moe.mlp) + (moe.shared_gate ? h : 0);
    return p;
}

ModelParameters modelParameters(const ModelSpec& model) {
    ModelParameters p;
    const std::int64_t h = model.hidden_size;
    p.embedding = model.vocab_size * h + model.positionElements();
    p.head = model.tie_word_embeddings ? 0 : model.vocab_size * h;
    p.final_norm = model.normElements();
    std::int64_t active_layers = 0;
    for (const LayerKind kind : model.layers) {
        p.layers += layerParameters(model, kind).total();
        active_layers += activeLayer(model, kind);
    }
    if (model.mtp_num_layers > 0 && !model.layers.empty()) {
        // Projection of [hidden state, next embedding], its two input norms and the final norm;
        // embedding and head are shared with the main model.
        const std::int64_t extra = 2 * h * h + 3 * model.normElements();
        const LayerKind kind = model.layers.back();
        p.mtp = model.mtp_num_layers * (layerParameters(model, kind).total() + extra);
        p.mtp_active = model.mtp_num_layers * (activeLayer(model, kind) + extra);
    }
    const std::int64_t fixed = p.embedding + p.head + p.final_norm;
    p.total = fixed + p.layers + p.mtp;
    p.active = fixed + active_layers + p.mtp_active;
    return p;
}

}  // namespace piper
