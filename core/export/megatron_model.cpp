// SPDX-License-Identifier: Apache-2.0
// The model as Megatron-LM's options say it.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/export/targets.h"

namespace piper {
namespace {

/// Value of a pattern such as "([0]*1+[1]*26)"; an integer N puts an expert layer at every Nth.
class LayerPattern {
public:
    explicit LayerPattern(std::string_view text) : m_text(text) {}

    Result<std::vector<std::int64_t>> value() {
        Result<std::vector<std::int64_t>> out = sum();
        if (out.ok() && m_at != m_text.size()) return wrong();
        return out;
    }

private:
    static constexpr std::size_t kMost = 100000;

    Error wrong() const {
        return fail(ErrorCode::InvalidInput,
                    "layer pattern '{}' cannot be read at character {}: expected a form like "
                    "([0]*1+[1]*26)",
                    m_text, m_at + 1);
    }
    void skip() {
        while (m_at < m_text.size() && m_text[m_at] == ' ') ++m_at;
    }
    bool take(char c) {
        skip();
        if (m_at >= m_text.size() || m_text[m_at] != c) return false;
        ++m_at;
        skip();
        return true;
    }
    Result<std::int64_t> number() {
        std::int64_t value = 0;
        const auto [end, error] =
            std::from_chars(m_text.data() + m_at, m_text.data() + m_text.size(), value);
        if (error != std::errc() || value < 0) return wrong();
        m_at = static_cast<std::size_t>(end - m_text.data());
        return value;
    }
    Result<std::vector<std::int64_t>> sum() {
        PIPER_ASSIGN(std::vector<std::int64_t> out, product());
        while (take('+')) {
            PIPER_ASSIGN(const std::vector<std::int64_t> more, product());
            out.insert(out.end(), more.begin(), more.end());
        }
        return out;
    }
    Result<std::vector<std::int64_t>> product() {
        PIPER_ASSIGN(std::vector<std::int64_t> one, factor());
        while (take('*')) {
            PIPER_ASSIGN(const std::int64_t times, number());
            if (one.size() * static_cast<std::size_t>(times) > kMost) return wrong();
            std::vector<std::int64_t> out;
            for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), one.begin(), one.end());
            one = std::move(out);
        }
        return one;
    }
    Result<std::vector<std::int64_t>> factor() {
        if (take('(')) {
            if (++m_depth > 64) return wrong();
            Result<std::vector<std::int64_t>> inner = sum();
            --m_depth;
            if (!inner.ok() || !take(')')) return wrong();
            return inner;
        }
        if (!take('[')) return wrong();
        std::vector<std::int64_t> out;
        do {
            PIPER_ASSIGN(const std::int64_t item, number());
            out.push_back(item);
        } while (take(','));
        if (!take(']')) return wrong();
        return out;
    }

    std::string_view m_text;
    std::size_t m_at = 0;
    int m_depth = 0;
};

std::string layerPatternText(const std::vector<LayerKind>& layers) {
    std::string out;
    for (std::size_t i = 0; i < layers.size();) {
        std::size_t end = i;
        while (end < layers.size() && layers[end] == layers[i]) ++end;
        out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", layers[i] == LayerKind::Moe ? 1 : 0,
                           end - i);
        i = end;
    }
    return "(" + out + ")";
}

void readLayers(SettingReader& in, ModelSpec& model) {
    const auto count = static_cast<std::size_t>(model.num_layers);
    model.layers.assign(count, model.moe ? LayerKind::Moe : LayerKind::Dense);
    const std::string text = in.text("--moe-layer-freq", "1");
    if (!model.moe) return;
    std::int64_t every = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), every);
    if (error == std::errc() && end == text.data() + text.size() && every >= 1) {
        for (std::size_t i = 0; i < count; ++i)
            if (static_cast<std::int64_t>(i) % every != 0) model.layers[i] = LayerKind::Dense;
        return;
    }
    const Result<std::vector<std::int64_t>> pattern = LayerPattern(text).value();
    if (!pattern.ok()) return in.note(Error(pattern.error()).at(in.where()));
    if (pattern->size() != count)
        return in.note(fail(ErrorCode::InvalidInput,
                            "--moe-layer-freq '{}' has {} layers, --num-layers is {}", text,
                            pattern->size(), model.num_layers)
                           .at(in.where()));
    for (std::size_t i = 0; i < count; ++i)
        model.layers[i] = (*pattern)[i] != 0 ? LayerKind::Moe : LayerKind::Dense;
}

void addAttention(const AttentionSpec& a, Settings& out) {
    out.group("attention");
    out.add("--num-attention-heads", a.num_heads);
    if (a.kind == AttentionKind::Mla) {
        out.flag("--multi-latent-attention");
        if (a.q_lora_rank > 0) out.add("--q-lora-rank", a.q_lora_rank);
        out.add("--kv-lora-rank", a.kv_lora_rank);
        out.add("--qk-head-dim", a.qk_nope_head_dim);
        out.add("--qk-pos-emb-head-dim", a.qk_rope_head_dim);
        out.add("--v-head-dim", a.v_head_dim);
    } else {
        out.flag("--group-query-attention", a.num_kv_heads != a.num_heads);
        if (a.num_kv_heads != a.num_heads) out.add("--num-query-groups", a.num_kv_heads);
        out.add("--kv-channels", a.head_dim);
    }
    // (left, right) tokens beside a token's own.
    if (a.sliding_window > 0) out.add("--window-size", fmt::format("{},0", a.sliding_window - 1));
    out.flag("--qk-layernorm", a.qk_norm && !a.qk_norm_full);
    out.flag("--add-qkv-bias", a.qkv_bias);
}

/// "4095,0", "(4095, 0)" or [4095,0]: tokens to the left of one, and to its right.
std::int64_t readWindow(SettingReader& in) {
    const std::string text = in.text("--window-size");
    if (text.empty()) return 0;
    const std::size_t from = std::min(text.find_first_not_of("(["), text.size());
    std::int64_t left = -1;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), left);
    if (error == std::errc() && left >= 0 && left < (1 << 30)) return left + 1;
    in.note(fail(ErrorCode::InvalidInput,
                 "--window-size takes two numbers such as 4095,0, found '{}'", text)
                .at(in.where()));
    return 0;
}

void readAttention(SettingReader& in, AttentionSpec& a) {
    a.num_heads = in.positive("--num-attention-heads");
    a.kind = in.flag("--multi-latent-attention") ? AttentionKind::Mla : AttentionKind::Gqa;
    if (a.kind == AttentionKind::Mla) {
        a.num_kv_heads = a.num_heads;
        a.head_dim = 0;
        a.q_lora_rank = in.integer("--q-lora-rank", 0);
        a.kv_lora_rank = in.positive("--kv-lora-rank", 32);
        a.qk_nope_head_dim = in.positive("--qk-head-dim", 128);
        a.qk_rope_head_dim = in.positive("--qk-pos-emb-head-dim", 64);
        a.v_head_dim = in.positive("--v-head-dim", 128);
    } else {
        const bool grouped = in.flag("--group-query-attention");
        a.num_kv_heads = grouped ? in.positive("--num-query-groups", 1) : a.num_heads;
        a.head_dim = in.positive(
            "--kv-channels", std::max<std::int64_t>(1, in.positive("--hidden-size") / a.num_heads));
    }
    a.sliding_window = readWindow(in);
    a.qk_norm = in.flag("--qk-layernorm");
    a.qkv_bias = in.flag("--add-qkv-bias");
}

void addExperts(const ModelSpec& model, Settings& out) {
    if (!model.moe) return;
    const MoeSpec& moe = *model.moe;
    out.group("experts");
    out.add("--num-experts", moe.num_experts);
    out.add("--moe-ffn-hidden-size", moe.moe_ffn_hidden_size);
    if (model.numMoeLayers() != model.num_layers)
        out.add("--moe-layer-freq", layerPatternText(model.layers));
    if (moe.shared_ffn_hidden_size > 0)
        out.add("--moe-shared-expert-intermediate-size", moe.shared_ffn_hidden_size);
    out.group("router");
    out.add("--moe-router-topk", moe.router_topk);
    out.add("--moe-router-score-function",
            moe.scoring == ScoringFunction::Sigmoid ? "sigmoid" : "softmax");
    // Softmax after the choice makes the chosen weights add up to 1.
    out.flag("--moe-router-pre-softmax",
             moe.scoring == ScoringFunction::Softmax && !moe.norm_topk_prob);
    if (moe.routed_scaling_factor != 1.0)
        out.add("--moe-router-topk-scaling-factor", moe.routed_scaling_factor);
    if (moe.num_groups > 1) {
        out.add("--moe-router-num-groups", moe.num_groups);
        out.add("--moe-router-group-topk", moe.topk_groups);
    }
    out.flag("--moe-router-enable-expert-bias", moe.expert_bias_routing);
    const bool balanced = moe.aux_loss_coefficient > 0.0;
    out.add("--moe-router-load-balancing-type", Json::array({balanced ? "aux_loss" : "none"}));
    if (balanced) out.add("--moe-aux-loss-coeff", Json::array({moe.aux_loss_coefficient}));
}

void readRouter(SettingReader& in, MoeSpec& moe) {
    moe.router_topk = in.positive("--moe-router-topk", 2);
    const std::string score = in.text("--moe-router-score-function", "softmax");
    if (score != "softmax" && score != "sigmoid")
        in.note(fail(ErrorCode::InvalidInput,
                     "--moe-router-score-function '{}' is neither softmax nor sigmoid", score)
                    .at(in.where()));
    moe.scoring = score == "sigmoid" ? ScoringFunction::Sigmoid : ScoringFunction::Softmax;
    const bool before = in.flag("--moe-router-pre-softmax");
    moe.norm_topk_prob = moe.scoring == ScoringFunction::Sigmoid || !before;
    moe.routed_scaling_factor = in.number("--moe-router-topk-scaling-factor", 1.0);
    moe.num_groups = in.positive("--moe-router-num-groups", 1);
    moe.topk_groups = in.positive("--moe-router-group-topk", 1);
    moe.expert_bias_routing = in.flag("--moe-router-enable-expert-bias");
    const std::vector<std::string> coefficients = in.texts("--moe-aux-loss-coeff");
    moe.aux_loss_coefficient = 0.0;
    if (coefficients.empty()) return;
    char* end = nullptr;
    moe.aux_loss_coefficient = std::strtod(coefficients.front().c_str(), &end);
    if (*end != 0)
        in.note(fail(ErrorCode::InvalidInput, "--moe-aux-loss-coeff takes numbers, found '{}'",
                     coefficients.front())
                    .at(in.where()));
}

}  // namespace

std::int64_t readNumLayers(SettingReader& in) {
    constexpr std::int64_t kMost = 100000;
    const std::int64_t layers = in.positive("--num-layers");
    if (layers <= kMost) return layers;
    in.note(fail(ErrorCode::InvalidInput, "--num-layers {} is more than {}", layers, kMost)
                .at(in.where()));
    return 1;
}

void addMegatronModel(const ModelSpec& model, std::int64_t seq_len, Settings& out) {
    out.group("model");
    out.add("--num-layers", model.num_layers);
    out.add("--hidden-size", model.hidden_size);
    if (model.ffn_hidden_size > 0) out.add("--ffn-hidden-size", model.ffn_hidden_size);
    out.add("--vocab-size", model.vocab_size);
    out.add("--seq-length", seq_len);
    out.add("--max-position-embeddings", std::max(model.max_position_embeddings, seq_len));
    out.add("--position-embedding-type", "rope");
    if (model.rope_theta == std::floor(model.rope_theta) && model.rope_theta < 1e15)
        out.add("--rotary-base", static_cast<std::int64_t>(model.rope_theta));
    out.add("--normalization", "RMSNorm");
    out.add("--norm-epsilon", model.rms_norm_eps);
    const MlpKind mlp = model.moe ? model.moe->mlp : model.dense_mlp;
    out.flag("--swiglu", mlp == MlpKind::SwiGlu);
    out.flag("--disable-bias-linear");
    out.flag("--untie-embeddings-and-output-weights", !model.tie_word_embeddings);
    // None, never 0, means no multi-token prediction (NVIDIA/Megatron-LM issue 5921).
    if (model.mtp_num_layers > 0) out.add("--mtp-num-layers", model.mtp_num_layers);
    addAttention(model.attention, out);
    addExperts(model, out);
}

void readMegatronModel(SettingReader& in, ModelSpec& model) {
    model.num_layers = readNumLayers(in);
    model.hidden_size = in.positive("--hidden-size");
    model.vocab_size = in.positive("--vocab-size", model.vocab_size);
    model.max_position_embeddings = in.positive("--max-position-embeddings", 1);
    model.rope_theta = in.number("--rotary-base", 10000.0);
    model.rms_norm_eps = in.number("--norm-epsilon", 1e-5);
    const MlpKind mlp = in.flag("--swiglu") ? MlpKind::SwiGlu : MlpKind::TwoMatrix;
    model.dense_mlp = mlp;
    model.tie_word_embeddings = !in.flag("--untie-embeddings-and-output-weights");
    model.mtp_num_layers = in.integer("--mtp-num-layers", 0);
    readAttention(in, model.attention);
    if (in.integer("--num-experts", 0) == 0) {
        model.moe.reset();
    } else {
        MoeSpec moe = model.moe.value_or(MoeSpec{});
        moe.mlp = mlp;
        moe.num_experts = in.positive("--num-experts");
        moe.moe_ffn_hidden_size =
            in.positive("--moe-ffn-hidden-size", in.positive("--ffn-hidden-size", 1));
        moe.shared_ffn_hidden_size = in.integer("--moe-shared-expert-intermediate-size", 0);
        readRouter(in, moe);
        model.moe = moe;
    }
    const std::int64_t usual =
        mlp == MlpKind::SwiGlu ? model.hidden_size * 8 / 3 / 64 * 64 : 4 * model.hidden_size;
    model.ffn_hidden_size = in.integer("--ffn-hidden-size", model.moe ? 0 : usual);
    readLayers(in, model);
}

}  // namespace piper
