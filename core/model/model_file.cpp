// SPDX-License-Identifier: Apache-2.0
// Our own model file: the fields of ModelSpec under their own names.
#include <algorithm>

#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/readers.h"

namespace piper {
namespace {

constexpr int kFormatVersion = 1;

AttentionSpec readAttention(ObjectReader& in, std::int64_t hidden_size) {
    AttentionSpec a;
    a.kind = in.enumeration("kind", AttentionKind::Gqa);
    a.num_heads = in.positiveInt("num_heads");
    a.num_kv_heads = in.positiveInt("num_kv_heads", a.num_heads);
    if (a.kind == AttentionKind::Gqa) {
        a.head_dim =
            in.positiveInt("head_dim", std::max<std::int64_t>(1, hidden_size / a.num_heads));
    } else {
        a.q_lora_rank = in.integer("q_lora_rank", 0);
        a.kv_lora_rank = in.positiveInt("kv_lora_rank");
        a.qk_nope_head_dim = in.positiveInt("qk_nope_head_dim");
        a.qk_rope_head_dim = in.positiveInt("qk_rope_head_dim");
        a.v_head_dim = in.positiveInt("v_head_dim");
    }
    a.sliding_window = in.integer("sliding_window", 0);
    a.full_attention_layers = in.integers("full_attention_layers");
    a.qk_norm = in.boolean("qk_norm", false);
    a.qk_norm_full = in.boolean("qk_norm_full", false);
    a.qkv_bias = in.boolean("qkv_bias", false);
    a.output_bias = in.boolean("output_bias", false);
    return a;
}

MoeSpec readMoe(ObjectReader& in) {
    MoeSpec m;
    m.num_experts = in.positiveInt("num_experts");
    m.router_topk = in.positiveInt("router_topk");
    m.moe_ffn_hidden_size = in.positiveInt("moe_ffn_hidden_size");
    m.shared_ffn_hidden_size = in.integer("shared_ffn_hidden_size", 0);
    m.mlp = in.enumeration("mlp", MlpKind::SwiGlu);
    m.scoring = in.enumeration("scoring", ScoringFunction::Softmax);
    m.norm_topk_prob = in.boolean("norm_topk_prob", false);
    m.routed_scaling_factor = in.number("routed_scaling_factor", 1.0);
    m.num_groups = in.positiveInt("num_groups", 1);
    m.topk_groups = in.positiveInt("topk_groups", 1);
    m.aux_loss_coefficient = in.number("aux_loss_coefficient", 0.0);
    m.shared_gate = in.boolean("shared_gate", false);
    m.expert_bias_routing = in.boolean("expert_bias_routing", false);
    return m;
}

/// `dense_layers` lists the layers of a MoE model that are dense.
void readLayerKinds(ObjectReader& in, ModelSpec& model) {
    const std::vector<std::int64_t> dense = in.integers("dense_layers");
    if (!layersFit(in, "num_layers", model.num_layers)) return;
    model.layers.assign(static_cast<std::size_t>(model.num_layers),
                        model.moe ? LayerKind::Moe : LayerKind::Dense);
    for (const std::int64_t layer : dense) {
        if (layer < 0 || layer >= model.num_layers) {
            Error error = fail(ErrorCode::InvalidInput, "layer {} is outside 0..{}", layer,
                               model.num_layers - 1);
            error.where = in.path("dense_layers");
            in.note(std::move(error));
            return;
        }
        model.layers[static_cast<std::size_t>(layer)] = LayerKind::Dense;
    }
}

void readRest(ObjectReader& in, ModelSpec& model) {
    model.name = in.string("name", "");
    model.model_type = in.string("model_type", "piper");
    model.ffn_hidden_size = in.integer("ffn_hidden_size", 0);
    model.dense_mlp = in.enumeration("dense_mlp", MlpKind::SwiGlu);
    model.tie_word_embeddings = in.boolean("tie_word_embeddings", false);
    model.mtp_num_layers = in.integer("mtp_num_layers", 0);
    model.max_position_embeddings = in.integer("max_position_embeddings", 0);
    model.rms_norm_eps = in.number("rms_norm_eps", 1e-5);
    model.rope_theta = in.number("rope_theta", 10000.0);
    model.norm = in.enumeration("norm", NormKind::RmsNorm);
    model.position = in.enumeration("position", PositionKind::Rotary);
    model.mlp_bias = in.boolean("mlp_bias", false);
    model.dropout = in.number("dropout", 0.0);
    in.known("source");
}

Json writeAttention(const AttentionSpec& a) {
    Json out;
    out["kind"] = toText(a.kind);
    out["num_heads"] = a.num_heads;
    out["num_kv_heads"] = a.num_kv_heads;
    if (a.kind == AttentionKind::Gqa) {
        out["head_dim"] = a.head_dim;
    } else {
        out["q_lora_rank"] = a.q_lora_rank;
        out["kv_lora_rank"] = a.kv_lora_rank;
        out["qk_nope_head_dim"] = a.qk_nope_head_dim;
        out["qk_rope_head_dim"] = a.qk_rope_head_dim;
        out["v_head_dim"] = a.v_head_dim;
    }
    out["sliding_window"] = a.sliding_window;
    if (!a.full_attention_layers.empty()) out["full_attention_layers"] = a.full_attention_layers;
    out["qk_norm"] = a.qk_norm;
    if (a.qk_norm_full) out["qk_norm_full"] = true;
    out["qkv_bias"] = a.qkv_bias;
    out["output_bias"] = a.output_bias;
    return out;
}

Json writeMoe(const MoeSpec& m) {
    Json out;
    out["num_experts"] = m.num_experts;
    out["router_topk"] = m.router_topk;
    out["moe_ffn_hidden_size"] = m.moe_ffn_hidden_size;
    out["shared_ffn_hidden_size"] = m.shared_ffn_hidden_size;
    out["mlp"] = toText(m.mlp);
    out["scoring"] = toText(m.scoring);
    out["norm_topk_prob"] = m.norm_topk_prob;
    out["routed_scaling_factor"] = m.routed_scaling_factor;
    out["num_groups"] = m.num_groups;
    out["topk_groups"] = m.topk_groups;
    out["aux_loss_coefficient"] = m.aux_loss_coefficient;
    out["shared_gate"] = m.shared_gate;
    out["expert_bias_routing"] = m.expert_bias_routing;
    return out;
}

}  // namespace

Result<ModelSpec> readOwnModel(const Json& json, std::string_view where) {
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, kFormatVersion));
    ModelSpec model;
    model.hidden_size = in.positiveInt("hidden_size");
    model.num_layers = in.positiveInt("num_layers");
    model.vocab_size = in.positiveInt("vocab_size");
    readRest(in, model);
    ObjectReader attention(in.child("attention"), in.path("attention"));
    model.attention = readAttention(attention, model.hidden_size);
    const Json& moe_json = in.child("moe");
    if (!moe_json.is_null()) {
        ObjectReader moe(moe_json, in.path("moe"));
        model.moe = readMoe(moe);
        PIPER_TRY(moe.finish());
    }
    readLayerKinds(in, model);
    PIPER_TRY(in.finish());
    PIPER_TRY(attention.finish());
    PIPER_TRY(firstError(checkModel(model), where));
    return model;
}

Json writeModel(const ModelSpec& model) {
    Json out;
    out["format_version"] = kFormatVersion;
    out["name"] = model.name;
    out["model_type"] = model.model_type;
    out["hidden_size"] = model.hidden_size;
    out["num_layers"] = model.num_layers;
    out["vocab_size"] = model.vocab_size;
    out["ffn_hidden_size"] = model.ffn_hidden_size;
    out["dense_mlp"] = toText(model.dense_mlp);
    out["attention"] = writeAttention(model.attention);
    if (model.moe) {
        out["moe"] = writeMoe(*model.moe);
        Json dense = Json::array();
        for (std::size_t i = 0; i < model.layers.size(); ++i)
            if (model.layers[i] == LayerKind::Dense) dense.push_back(i);
        out["dense_layers"] = std::move(dense);
    }
    out["tie_word_embeddings"] = model.tie_word_embeddings;
    out["mtp_num_layers"] = model.mtp_num_layers;
    out["max_position_embeddings"] = model.max_position_embeddings;
    out["rms_norm_eps"] = model.rms_norm_eps;
    out["rope_theta"] = model.rope_theta;
    if (model.norm != NormKind::RmsNorm) out["norm"] = toText(model.norm);
    if (model.position != PositionKind::Rotary) out["position"] = toText(model.position);
    if (model.mlp_bias) out["mlp_bias"] = true;
    if (model.dropout != 0.0) out["dropout"] = model.dropout;
    return out;
}

}  // namespace piper
