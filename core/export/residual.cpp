// SPDX-License-Identifier: Apache-2.0
#include "core/export/residual.h"

#include <algorithm>
#include <array>

namespace piper {
namespace {

Json patchBetween(const Json& from, const Json& to) {
    Json out = Json::object();
    for (const auto& [key, value] : to.items()) {
        if (!from.contains(key)) {
            out[key] = value;
        } else if (value.is_object() && from.at(key).is_object()) {
            Json inner = patchBetween(from.at(key), value);
            if (!inner.empty()) out[key] = std::move(inner);
        } else if (from.at(key) != value) {
            out[key] = value;
        }
    }
    for (const auto& [key, value] : from.items())
        if (!to.contains(key)) out[key] = nullptr;
    return out;
}

struct Reason {
    std::string_view key;
    std::string_view text;
};

/// Why, or what to do about it, by the plan's key.
constexpr std::array<Reason, 15> kReasons = {{
    {"rank_order", "ranks are placed in the framework's own order"},
    {"stage_layers", "layers are split over stages in the framework's own way"},
    {"schedule", "the framework runs its own schedule"},
    {"recompute", "the framework recomputes at another granularity"},
    {"zero_stage", "what is written shards more than the plan"},
    {"offload", "the framework offloads all or nothing"},
    {"precision", "the framework has no such mode"},
    {"capacity_factor", "set it in the model's code"},
    {"seq_len", "set it where the data is loaded"},
    {"routing_load", "the run has the load its router gives"},
    {"expert_placement", "experts are placed in order"},
    {"all_to_all", "the framework chooses its own exchange"},
    {"layout", "set it where the model is built"},
    {"model.norm_topk_prob", "routing weights are scaled in another way"},
    {"model", "the model's code or flavour must have it"},
}};

std::string_view reasonFor(std::string_view path) {
    for (const Reason& reason : kReasons)
        if (path == reason.key || path.starts_with(std::string(reason.key) + "."))
            return reason.text;
    return "keep it in mind";
}

std::string shortText(const Json& value) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_null()) text = "none";
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
}

void sentences(const Json& patch, const std::string& prefix, std::string_view framework,
               std::vector<std::string>& out) {
    for (const auto& [key, value] : patch.items()) {
        const std::string path = prefix.empty() ? key : prefix + "." + key;
        // Names are ours, not the framework's.
        if (path == "framework" || path == "model.name" || path == "model.model_type" ||
            path == "model.format_version")
            continue;
        if (value.is_object())
            sentences(value, path, framework, out);
        else
            out.push_back(fmt::format("{} {}: {} has no option for it; {}", path, shortText(value),
                                      framework, reasonFor(path)));
    }
}

/// A model that is missing as a whole is one sentence, not thirty.
bool wholeModel(const Json& patch) {
    return patch.is_object() && patch.contains("hidden_size") && patch.contains("num_layers");
}

std::string modelSentence(const Json& model, std::string_view framework) {
    const auto number = [&](const char* key) {
        return model.contains(key) ? model.at(key).dump() : std::string("?");
    };
    std::string experts;
    if (model.contains("moe") && model.at("moe").is_object())
        experts = fmt::format(", {} experts of width {}, top {}",
                              model.at("moe").value("num_experts", std::int64_t{0}),
                              model.at("moe").value("moe_ffn_hidden_size", std::int64_t{0}),
                              model.at("moe").value("router_topk", std::int64_t{0}));
    return fmt::format(
        "model: {} takes the sizes from its own model code; it must have {} layers, hidden size "
        "{}, vocabulary {}{}",
        framework, number("num_layers"), number("hidden_size"), number("vocab_size"), experts);
}

}  // namespace

Plan blankPlan(const ClusterSpec& cluster) {
    Plan plan;
    plan.cluster = cluster;
    plan.model.layers = {LayerKind::Dense};
    return plan;
}

Json residualOf(const Plan& plan, const Plan& read_back) {
    Json from = writePlan(read_back);
    Json to = writePlan(plan);
    from.erase("cluster");
    to.erase("cluster");
    return patchBetween(from, to);
}

Result<Plan> applyResidual(const Plan& read_back, const Json& residual, std::string_view where) {
    Json document = writePlan(read_back);
    if (residual.is_object()) document.merge_patch(residual);
    return readPlan(document, where);
}

std::vector<std::string> residualSentences(const Json& residual, std::string_view framework) {
    std::vector<std::string> out;
    Json rest = residual;
    if (rest.contains("model") && wholeModel(rest.at("model"))) {
        out.push_back(modelSentence(rest.at("model"), framework));
        rest.erase("model");
    }
    sentences(rest, "", framework, out);
    return out;
}

}  // namespace piper
