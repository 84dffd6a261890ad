// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/model/model.h"
#include "core/model/readers.h"

namespace piper {
namespace {

/// Sizes above these are no model but a slip, and would overflow a parameter count.
constexpr std::int64_t kMaxWidth = 1 << 22;
constexpr std::int64_t kMaxExperts = 1 << 16;

class Rules {
public:
    explicit Rules(const FieldNames& names) : m_names(names) {}

    [[nodiscard]] std::string name(std::string_view field) const { return m_names(field); }

    template <class... Args>
    void broken(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
        Error error = fail(ErrorCode::InvalidInput, format, std::forward<Args>(args)...);
        error.where = name(field);
        m_errors.push_back(std::move(error));
    }

    bool between(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
        if (value >= low && value <= high) return true;
        broken(field, "{} {} must be between {} and {}", name(field), value, low, high);
        return false;
    }

    [[nodiscard]] std::vector<Error> take() { return std::move(m_errors); }

private:
    const FieldNames& m_names;
    std::vector<Error> m_errors;
};

void checkHeads(Rules& rules, const AttentionSpec& a) {
    const bool heads = rules.between("attention.num_heads", a.num_heads, 1, kMaxWidth);
    const bool kv = rules.between("attention.num_kv_heads", a.num_kv_heads, 1, kMaxWidth);
    if (heads && kv && a.num_heads % a.num_kv_heads != 0)
        rules.broken("attention.num_kv_heads",
                     "{} {} does not divide {} {}: each key-value head serves a whole number of "
                     "query heads",
                     rules.name("attention.num_kv_heads"), a.num_kv_heads,
                     rules.name("attention.num_heads"), a.num_heads);
}

void checkAttention(Rules& rules, const AttentionSpec& a) {
    checkHeads(rules, a);
    rules.between("attention.sliding_window", a.sliding_window, 0,
                  std::numeric_limits<std::int64_t>::max());
    if (!a.full_attention_layers.empty() && a.sliding_window == 0)
        rules.broken("attention.full_attention_layers",
                     "layers without a sliding window are named, but there is no {}",
                     rules.name("attention.sliding_window"));
    if (a.kind == AttentionKind::Gqa) {
        if (rules.between("attention.head_dim", a.head_dim, 1, kMaxWidth) && a.head_dim % 2 != 0)
            rules.broken("attention.head_dim", "{} {} must be even: rotary embedding turns pairs",
                         rules.name("attention.head_dim"), a.head_dim);
        return;
    }
    rules.between("attention.q_lora_rank", a.q_lora_rank, 0, kMaxWidth);
    rules.between("attention.kv_lora_rank", a.kv_lora_rank, 1, kMaxWidth);
    rules.between("attention.qk_nope_head_dim", a.qk_nope_head_dim, 1, kMaxWidth);
    rules.between("attention.qk_rope_head_dim", a.qk_rope_head_dim, 1, kMaxWidth);
    rules.between("attention.v_head_dim", a.v_head_dim, 1, kMaxWidth);
    if (a.qk_rope_head_dim > 0 && a.qk_rope_head_dim % 2 != 0)
        rules.broken("attention.qk_rope_head_dim",
                     "{} {} must be even: rotary embedding turns pairs",
                     rules.name("attention.qk_rope_head_dim"), a.qk_rope_head_dim);
}

void checkGroups(Rules& rules, const MoeSpec& moe) {
    if (!rules.between("moe.num_groups", moe.num_groups, 1, kMaxExperts)) return;
    if (moe.num_experts % moe.num_groups != 0)
        rules.broken("moe.num_groups", "{} {} does not divide {} {}", rules.name("moe.num_groups"),
                     moe.num_groups, rules.name("moe.num_experts"), moe.num_experts);
    if (moe.topk_groups < 1 || moe.topk_groups > moe.num_groups)
        rules.broken("moe.topk_groups", "{} {} must be between 1 and {} {}",
                     rules.name("moe.topk_groups"), moe.topk_groups, rules.name("moe.num_groups"),
                     moe.num_groups);
    else if (moe.router_topk > moe.topk_groups * (moe.num_experts / moe.num_groups))
        rules.broken("moe.router_topk",
                     "{} {} > {} experts in the {} groups a token may reach ({} of {} groups)",
                     rules.name("moe.router_topk"), moe.router_topk,
                     moe.topk_groups * (moe.num_experts / moe.num_groups), moe.topk_groups,
                     moe.topk_groups, moe.num_groups);
}

void checkMoe(Rules& rules, const MoeSpec& moe) {
    const bool experts = rules.between("moe.num_experts", moe.num_experts, 1, kMaxExperts);
    const bool topk = rules.between("moe.router_topk", moe.router_topk, 1, kMaxExperts);
    if (experts && topk && moe.router_topk > moe.num_experts)
        rules.broken("moe.router_topk",
                     "{} {} > {} {}: a token cannot reach more experts than there are",
                     rules.name("moe.router_topk"), moe.router_topk, rules.name("moe.num_experts"),
                     moe.num_experts);
    rules.between("moe.moe_ffn_hidden_size", moe.moe_ffn_hidden_size, 1, kMaxWidth);
    rules.between("moe.shared_ffn_hidden_size", moe.shared_ffn_hidden_size, 0, kMaxWidth);
    if (experts && moe.router_topk <= moe.num_experts) checkGroups(rules, moe);
    if (!(moe.routed_scaling_factor > 0))
        rules.broken("moe.routed_scaling_factor", "{} {} must be above 0",
                     rules.name("moe.routed_scaling_factor"), moe.routed_scaling_factor);
    if (!(moe.aux_loss_coefficient >= 0))
        rules.broken("moe.aux_loss_coefficient", "{} {} must not be negative",
                     rules.name("moe.aux_loss_coefficient"), moe.aux_loss_coefficient);
}

void checkLayers(Rules& rules, const ModelSpec& model) {
    if (static_cast<std::int64_t>(model.layers.size()) != model.num_layers) {
        rules.broken("layers", "{} entries for {} {}", model.layers.size(),
                     rules.name("num_layers"), model.num_layers);
        return;
    }
    const std::int64_t moe_layers = model.numMoeLayers();
    if (moe_layers > 0 && !model.moe)
        rules.broken("moe", "{} MoE layers but no MoE sizes", moe_layers);
    if (moe_layers == 0 && model.moe) rules.broken("moe", "MoE sizes but no MoE layer");
    if (moe_layers < model.num_layers)
        rules.between("ffn_hidden_size", model.ffn_hidden_size, 1, kMaxWidth);
}

/// Windows, positions and dropout.
void checkRest(Rules& rules, const ModelSpec& model) {
    std::int64_t before = -1;
    for (const std::int64_t layer : model.attention.full_attention_layers) {
        if (layer <= before || layer >= model.num_layers)
            rules.broken("attention.full_attention_layers",
                         "layer {} must lie within 0..{} and after the one before", layer,
                         model.num_layers - 1);
        before = layer;
    }
    if (model.position == PositionKind::Learned && model.max_position_embeddings == 0)
        rules.broken("max_position_embeddings",
                     "learned positions need {}: the rows of their table",
                     rules.name("max_position_embeddings"));
    if (!(model.dropout >= 0.0 && model.dropout < 1.0))
        rules.broken("dropout", "{} {} must be at least 0 and below 1", rules.name("dropout"),
                     model.dropout);
}

/// The count in doubles, so that it cannot wrap.
bool countOverflows(const ModelSpec& model) {
    const auto d = [](std::int64_t v) { return static_cast<double>(v); };
    const AttentionSpec& a = model.attention;
    double layer = 4.0 * d(model.hidden_size) * d(a.num_heads) * d(a.qkHeadDim() + a.vHeadDim());
    layer += 3.0 * d(model.hidden_size) * d(model.ffn_hidden_size);
    if (model.moe)
        layer += 3.0 * d(model.hidden_size) * d(model.moe->num_experts + 1) *
                 d(model.moe->moe_ffn_hidden_size + model.moe->shared_ffn_hidden_size + 1);
    const double total = layer * d(model.num_layers + model.mtp_num_layers) +
                         2.0 * d(model.hidden_size) * d(model.vocab_size);
    return total > 1e18;
}

}  // namespace

std::vector<Error> checkModelNamed(const ModelSpec& model, const FieldNames& names) {
    Rules rules(names);
    rules.between("hidden_size", model.hidden_size, 1, kMaxWidth);
    rules.between("vocab_size", model.vocab_size, 1, std::int64_t{1} << 32);
    rules.between("mtp_num_layers", model.mtp_num_layers, 0, kMaxLayers);
    rules.between("max_position_embeddings", model.max_position_embeddings, 0,
                  std::numeric_limits<std::int64_t>::max());
    if (rules.between("num_layers", model.num_layers, 1, kMaxLayers)) checkLayers(rules, model);
    checkAttention(rules, model.attention);
    if (model.moe) checkMoe(rules, *model.moe);
    checkRest(rules, model);
    if (!(model.rms_norm_eps > 0))
        rules.broken("rms_norm_eps", "{} {} must be above 0", names("rms_norm_eps"),
                     model.rms_norm_eps);
    if (!(model.rope_theta > 0))
        rules.broken("rope_theta", "{} {} must be above 0", names("rope_theta"), model.rope_theta);
    std::vector<Error> errors = rules.take();
    if (errors.empty() && countOverflows(model))
        errors.push_back(fail(ErrorCode::InvalidInput,
                              "the sizes give more than 1e18 parameters: one of them is a slip"));
    return errors;
}

std::vector<Error> checkModel(const ModelSpec& model) {
    return checkModelNamed(model, [](std::string_view field) { return std::string(field); });
}

}  // namespace piper
