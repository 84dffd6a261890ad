// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json: one table row a model_type, defaults as the transformers classes have
// them. Keys that do not matter here are passed over.
#include <algorithm>
#include <array>
#include <map>

#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/readers.h"

namespace piper {
namespace {

enum class Family { Dense, Mixtral, Olmoe, QwenMoe, DeepSeek, GptOss };

/// What a model_type implies without a key, or by default.
struct Kind {
    std::string_view model_type;
    Family family;
    double rms_norm_eps = 1e-6;
    double rope_theta = 10000.0;
    bool qk_norm = false;
    bool qkv_bias = false;
    std::int64_t default_head_dim = 0;  ///< 0: hidden_size / num_attention_heads
    std::int64_t default_window = 0;
};

constexpr std::array kKinds = {
    Kind{.model_type = "llama", .family = Family::Dense},
    Kind{.model_type = "mistral", .family = Family::Dense, .default_window = 4096},
    Kind{.model_type = "qwen2", .family = Family::Dense, .qkv_bias = true},
    Kind{.model_type = "qwen3", .family = Family::Dense, .qk_norm = true, .default_head_dim = 128},
    Kind{.model_type = "mixtral",
         .family = Family::Mixtral,
         .rms_norm_eps = 1e-5,
         .rope_theta = 1e6},
    Kind{.model_type = "olmoe", .family = Family::Olmoe, .rms_norm_eps = 1e-5, .qk_norm = true},
    Kind{.model_type = "qwen2_moe", .family = Family::QwenMoe, .qkv_bias = true},
    Kind{.model_type = "qwen3_moe", .family = Family::QwenMoe, .qk_norm = true},
    Kind{.model_type = "gpt_oss",
         .family = Family::GptOss,
         .rms_norm_eps = 1e-5,
         .rope_theta = 150000.0,
         .qkv_bias = true,
         .default_head_dim = 64,
         .default_window = 128},
    Kind{.model_type = "deepseek_v2", .family = Family::DeepSeek},
    Kind{.model_type = "deepseek_v3", .family = Family::DeepSeek},
    Kind{.model_type = "kimi_k2", .family = Family::DeepSeek},
};

std::string_view expertsKey(Family family) {
    if (family == Family::Mixtral || family == Family::GptOss) return "num_local_experts";
    return family == Family::DeepSeek ? "n_routed_experts" : "num_experts";
}

std::string_view expertWidthKey(Family family) {
    const bool dense_key =
        family == Family::Mixtral || family == Family::Olmoe || family == Family::GptOss;
    return dense_key ? "intermediate_size" : "moe_intermediate_size";
}

/// Names of ModelSpec's fields in the file, so that a message speaks the file's language.
FieldNames fileNames(Family family) {
    return [family](std::string_view field) -> std::string {
        static const std::map<std::string_view, std::string_view> common = {
            {"num_layers", "num_hidden_layers"},
            {"ffn_hidden_size", "intermediate_size"},
            {"attention.num_heads", "num_attention_heads"},
            {"attention.num_kv_heads", "num_key_value_heads"},
            {"moe.router_topk", "num_experts_per_tok"},
            {"moe.num_groups", "n_group"},
            {"moe.topk_groups", "topk_group"},
            {"mtp_num_layers", "num_nextn_predict_layers"},
            {"moe.aux_loss_coefficient", "router_aux_loss_coef"},
        };
        if (field == "moe.num_experts") return std::string(expertsKey(family));
        if (field == "moe.moe_ffn_hidden_size") return std::string(expertWidthKey(family));
        if (field == "moe.shared_ffn_hidden_size")
            return family == Family::DeepSeek ? "n_shared_experts"
                                              : "shared_expert_intermediate_size";
        if (const auto found = common.find(field); found != common.end())
            return std::string(found->second);
        const std::size_t dot = field.rfind('.');
        return std::string(dot == std::string_view::npos ? field : field.substr(dot + 1));
    };
}

/// Window of the layers. Qwen files carry a window that `use_sliding_window` switches and the first
/// `max_window_layers` layers do not have; newer files name each layer's kind.
void readWindow(ObjectReader& in, const Kind& kind, std::int64_t num_layers, AttentionSpec& a) {
    const bool qwen = kind.model_type.starts_with("qwen");
    if (qwen && !in.boolean("use_sliding_window", false)) return;
    a.sliding_window = in.integer("sliding_window", 0);
    if (!in.has("sliding_window")) a.sliding_window = kind.default_window;
    if (a.sliding_window <= 0 || num_layers > kMaxLayers) return;
    const Json& types = in.child("layer_types");
    if (types.is_array()) {
        for (std::size_t i = 0; i < types.size(); ++i)
            if (types[i] != "sliding_attention")
                a.full_attention_layers.push_back(static_cast<std::int64_t>(i));
    } else {
        const std::int64_t full = qwen ? in.integer("max_window_layers", 0) : 0;
        for (std::int64_t i = 0; i < std::min(full, num_layers); ++i)
            a.full_attention_layers.push_back(i);
    }
    if (static_cast<std::int64_t>(a.full_attention_layers.size()) < num_layers) return;
    a.sliding_window = 0;
    a.full_attention_layers.clear();
}

AttentionSpec readGqa(ObjectReader& in, const Kind& kind, const ModelSpec& model) {
    AttentionSpec a;
    a.num_heads = in.positiveInt("num_attention_heads");
    a.num_kv_heads = in.positiveInt("num_key_value_heads", a.num_heads);
    std::int64_t head_dim = kind.default_head_dim;
    if (head_dim == 0) {
        head_dim = std::max<std::int64_t>(1, model.hidden_size / a.num_heads);
        if (!in.hasValue("head_dim") && model.hidden_size % a.num_heads != 0)
            in.note(fail(ErrorCode::InvalidInput,
                         "hidden_size {} is not divisible by num_attention_heads {} and head_dim "
                         "is not given",
                         model.hidden_size, a.num_heads)
                        .at(in.path("num_attention_heads")));
    }
    a.head_dim = in.positiveInt("head_dim", head_dim);
    readWindow(in, kind, model.num_layers, a);
    a.qk_norm = kind.qk_norm;
    a.qk_norm_full = kind.family == Family::Olmoe;
    const bool bias = in.boolean("attention_bias", kind.family == Family::GptOss);
    a.qkv_bias =
        kind.model_type == "qwen2_moe" ? in.boolean("qkv_bias", true) : kind.qkv_bias || bias;
    a.output_bias = bias;
    return a;
}

AttentionSpec readMla(ObjectReader& in) {
    AttentionSpec a;
    a.kind = AttentionKind::Mla;
    a.num_heads = in.positiveInt("num_attention_heads");
    a.num_kv_heads = in.positiveInt("num_key_value_heads", a.num_heads);
    a.q_lora_rank = in.positiveInt("q_lora_rank", 0);
    a.kv_lora_rank = in.positiveInt("kv_lora_rank");
    a.qk_nope_head_dim = in.positiveInt("qk_nope_head_dim");
    a.qk_rope_head_dim = in.positiveInt("qk_rope_head_dim");
    a.v_head_dim = in.positiveInt("v_head_dim");
    return a;
}

/// Experts, top-k and width; the rest of the routing is the family's.
MoeSpec readMoeSizes(ObjectReader& in, Family family) {
    MoeSpec moe;
    moe.num_experts = in.positiveInt(expertsKey(family));
    moe.router_topk = in.positiveInt("num_experts_per_tok");
    moe.moe_ffn_hidden_size = in.positiveInt(expertWidthKey(family));
    return moe;
}

void readDeepSeekRouting(ObjectReader& in, bool v3, MoeSpec& moe) {
    const std::int64_t shared = in.integer("n_shared_experts", 0);
    if (shared < 0)
        in.note(fail(ErrorCode::InvalidInput, "{} must not be negative", shared)
                    .at(in.path("n_shared_experts")));
    moe.shared_ffn_hidden_size = shared * std::min<std::int64_t>(moe.moe_ffn_hidden_size, 1 << 22);
    moe.scoring =
        in.enumeration("scoring_func", v3 ? ScoringFunction::Sigmoid : ScoringFunction::Softmax);
    moe.norm_topk_prob = in.boolean("norm_topk_prob", v3);
    moe.routed_scaling_factor = in.number("routed_scaling_factor", v3 ? 2.5 : 1.0);
    moe.aux_loss_coefficient = in.number("aux_loss_alpha", 0.001);
    const std::string method = in.string("topk_method", v3 ? "noaux_tc" : "greedy");
    moe.expert_bias_routing = method == "noaux_tc";
    if (method == "greedy") return;
    moe.num_groups = in.positiveInt("n_group", v3 ? 8 : 1);
    moe.topk_groups = in.positiveInt("topk_group", v3 ? 4 : 1);
}

MoeSpec readMoe(ObjectReader& in, const Kind& kind) {
    MoeSpec moe = readMoeSizes(in, kind.family);
    if (kind.family == Family::DeepSeek) {
        readDeepSeekRouting(in, kind.model_type != "deepseek_v2", moe);
        return moe;
    }
    moe.norm_topk_prob = kind.family == Family::Mixtral || kind.family == Family::GptOss ||
                         in.boolean("norm_topk_prob", false);
    const double aux_default = kind.family == Family::Olmoe ? 0.01 : 0.001;
    moe.aux_loss_coefficient = in.number("router_aux_loss_coef", aux_default);
    if (kind.model_type == "qwen2_moe") {
        moe.shared_ffn_hidden_size = in.positiveInt("shared_expert_intermediate_size");
        moe.shared_gate = true;
    }
    return moe;
}

bool isMoeLayer(const Family family, std::int64_t layer, std::int64_t first_dense,
                std::int64_t step, const std::vector<std::int64_t>& dense_only) {
    if (family == Family::DeepSeek) return layer >= first_dense && layer % step == 0;
    if (family != Family::QwenMoe) return true;
    return (layer + 1) % step == 0 &&
           std::find(dense_only.begin(), dense_only.end(), layer) == dense_only.end();
}

void readLayerKinds(ObjectReader& in, const Kind& kind, ModelSpec& model) {
    std::int64_t first_dense = 0;
    std::int64_t step = 1;
    std::vector<std::int64_t> dense_only;
    if (kind.family == Family::DeepSeek) {
        first_dense = in.integer("first_k_dense_replace", kind.model_type == "deepseek_v2" ? 0 : 3);
        step = in.positiveInt("moe_layer_freq", 1);
        if (first_dense < 0 || first_dense > model.num_layers)
            in.note(fail(ErrorCode::InvalidInput, "{} must be between 0 and num_hidden_layers {}",
                         first_dense, model.num_layers)
                        .at(in.path("first_k_dense_replace")));
    } else if (kind.family == Family::QwenMoe) {
        step = in.positiveInt("decoder_sparse_step", 1);
        dense_only = in.integers("mlp_only_layers");
    }
    if (!layersFit(in, "num_hidden_layers", model.num_layers)) return;
    for (std::int64_t layer = 0; layer < model.num_layers; ++layer) {
        const bool moe = kind.family != Family::Dense &&
                         isMoeLayer(kind.family, layer, first_dense, step, dense_only);
        model.layers.push_back(moe ? LayerKind::Moe : LayerKind::Dense);
    }
    const std::int64_t moe_layers = model.numMoeLayers();
    if (moe_layers == 0) model.moe.reset();
    if (moe_layers < model.num_layers) model.ffn_hidden_size = in.positiveInt("intermediate_size");
}

void readRotary(ObjectReader& in, ModelSpec& model, double fallback) {
    model.rope_theta = in.number("rope_theta", fallback);
    // transformers 5 moves the base into rope_parameters.
    const Json& parameters = in.child("rope_parameters");
    if (in.hasValue("rope_theta") || !parameters.is_object()) return;
    ObjectReader rope(parameters, in.path("rope_parameters"));
    model.rope_theta = rope.number("rope_theta", fallback);
    rope.allowUnknown();
    if (Status s = rope.finish(); !s.ok()) in.note(std::move(s).error());
}

/// The last part of `_name_or_path`; empty when the file carries none.
std::string modelName(ObjectReader& in) {
    const std::string path = in.string("_name_or_path", "");
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<Kind> findKind(const Json& json, std::string_view where) {
    ObjectReader in(json, std::string(where));
    const std::string type = in.string("model_type");
    in.allowUnknown();
    PIPER_TRY(in.finish());
    for (const Kind& kind : kKinds)
        if (kind.model_type == type) return kind;
    const std::vector<std::string_view> known = knownModelTypes();
    Error error = fail(ErrorCode::Unsupported, "unknown model_type '{}'; nearest known: '{}'", type,
                       nearestWord(type, known));
    error.where = in.path("model_type");
    error.hint = fmt::format(
        "known model types: {}; any other architecture can be written in our "
        "own model format (docs/formats.md)",
        joinWords(known));
    return error;
}

}  // namespace

Result<ModelSpec> readHuggingFace(const Json& json, std::string_view where) {
    PIPER_ASSIGN(const Kind kind, findKind(json, where));
    ObjectReader in(json, std::string(where));
    in.allowUnknown();
    ModelSpec model;
    model.model_type = std::string(kind.model_type);
    model.name = modelName(in);
    model.hidden_size = in.positiveInt("hidden_size");
    model.num_layers = in.positiveInt("num_hidden_layers");
    model.vocab_size = in.positiveInt("vocab_size");
    model.tie_word_embeddings = in.boolean("tie_word_embeddings", false);
    model.max_position_embeddings = in.integer("max_position_embeddings", 0);
    model.rms_norm_eps = in.number("rms_norm_eps", kind.rms_norm_eps);
    readRotary(in, model, kind.rope_theta);
    if (kind.family == Family::DeepSeek) {
        model.attention = readMla(in);
        model.mtp_num_layers = in.integer("num_nextn_predict_layers", 0);
    } else {
        model.attention = readGqa(in, kind, model);
    }
    model.mlp_bias = in.boolean("mlp_bias", kind.family == Family::GptOss);
    if (kind.family != Family::Dense) model.moe = readMoe(in, kind);
    readLayerKinds(in, kind, model);
    PIPER_TRY(in.finish());
    PIPER_TRY(firstError(checkModelNamed(model, fileNames(kind.family)), where));
    return model;
}

std::vector<std::string_view> knownModelTypes() {
    std::vector<std::string_view> types;
    for (const Kind& kind : kKinds) types.push_back(kind.model_type);
    return types;
}

Result<ModelSpec> readModel(const Json& json, std::string_view where) {
    if (json.is_object() && json.contains("format_version")) return readOwnModel(json, where);
    return readHuggingFace(json, where);
}

Result<ModelSpec> readModelText(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    return readModel(json, where);
}

Status firstError(std::vector<Error> errors, std::string_view where) {
    if (errors.empty()) return {};
    Error first = std::move(errors.front()).at(std::string(where));
    for (std::size_t i = 1; i < errors.size(); ++i)
        first.hint += (first.hint.empty() ? "also: " : "; ") + errors[i].message;
    return first;
}

bool layersFit(ObjectReader& in, std::string_view key, std::int64_t num_layers) {
    if (num_layers <= kMaxLayers) return true;
    in.note(fail(ErrorCode::InvalidInput, "{} is more than {} layers", num_layers, kMaxLayers)
                .at(in.path(key)));
    return false;
}

}  // namespace piper
