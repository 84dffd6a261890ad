// SPDX-License-Identifier: Apache-2.0
#include "core/plan/settings.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace piper {
namespace {

/// Without a vpp of its own a pipeline layout string decides it by its number of chunks.
void chunksDecideVpp(const CheckedPlan& p, GivenDegrees& given) {
    const auto chunks = static_cast<std::int64_t>(p.chunks.size());
    const auto pp = given.find("pp");
    if (given.contains("vpp") || pp == given.end() || chunks <= pp->second) return;
    if (chunks % pp->second == 0) given["vpp"] = chunks / pp->second;
}

/// num_layers_per_virtual_pipeline_stage decides vpp when it divides; else it is a broken rule.
void virtualStagesDecideVpp(CheckedPlan& p, GivenDegrees& given) {
    if (!p.split.layers_per_virtual_stage || given.contains("vpp") || !p.scope.num_layers) return;
    const auto pp = given.find("pp");
    const std::int64_t stages = pp == given.end() ? 1 : pp->second;
    const std::int64_t each = *p.split.layers_per_virtual_stage;
    const std::int64_t layers = p.plan.model.num_layers;
    if (layers % (stages * each) == 0) {
        given["vpp"] = layers / (stages * each);
        return;
    }
    p.layout_string.push_back(
        {"layers_divide_stages",
         fmt::format("{} layers over pp {} x {} layers a virtual stage leaves {}", layers, stages,
                     each, layers % (stages * each)),
         settings("num_layers_per_virtual_pipeline_stage",
                  layers % stages == 0
                      ? legalNear(each, layers / stages,
                                  [&](std::int64_t v) { return layers / stages % v == 0; })
                      : std::vector<std::int64_t>{})});
    p.scope.split_judged = true;
}

std::vector<std::string> balancedFix(const CheckedPlan& p) {
    const std::int64_t chunks = p.plan.layout.pp * p.plan.layout.vpp;
    if (p.plan.model.num_layers < chunks || chunks > 4096) return {};
    return {"stage_layers=" + slashed(balancedStageLayers(p.plan.model.num_layers, chunks))};
}

/// Layers of the chunks when embedding and loss count as a layer each.
void accountForEnds(CheckedPlan& p) {
    const std::int64_t embedding = p.split.account_for_embedding ? 1 : 0;
    const std::int64_t loss = p.split.account_for_loss ? 1 : 0;
    const std::int64_t chunks = p.plan.layout.pp * p.plan.layout.vpp;
    const std::int64_t counted = p.plan.model.num_layers + embedding + loss;
    if (embedding + loss == 0 || chunks > 4096) return;
    if (counted % chunks != 0) {
        p.layout_string.push_back(
            {"layers_divide_stages",
             fmt::format("{} layers with embedding {} and loss {} counted are {}, over pp {} x vpp "
                         "{} that leaves {}",
                         p.plan.model.num_layers, embedding, loss, counted, p.plan.layout.pp,
                         p.plan.layout.vpp, counted % chunks),
             balancedFix(p)});
        p.scope.split_judged = true;
        return;
    }
    p.plan.stage_layers.assign(static_cast<std::size_t>(chunks), counted / chunks);
    p.plan.stage_layers.front() -= embedding;
    p.plan.stage_layers.back() -= loss;
}

/// Layers of the stages when the first or the last has a number of its own; vpp divides each.
void ownEnds(CheckedPlan& p) {
    const StageSplit& split = p.split;
    if (!split.first_stage_layers && !split.last_stage_layers) return;
    const std::int64_t pp = p.plan.layout.pp;
    const std::int64_t vpp = p.plan.layout.vpp;
    const std::int64_t ends =
        (split.first_stage_layers ? 1 : 0) + (split.last_stage_layers ? 1 : 0);
    const std::int64_t middle = pp - ends;
    const std::int64_t left = p.plan.model.num_layers - split.first_stage_layers.value_or(0) -
                              split.last_stage_layers.value_or(0);
    const std::int64_t each = middle > 0 ? left / middle : 0;
    const bool sound = middle >= 0 && left >= 0 && each * middle == left && pp * vpp <= 4096 &&
                       each % vpp == 0 && split.first_stage_layers.value_or(0) % vpp == 0 &&
                       split.last_stage_layers.value_or(0) % vpp == 0;
    if (!sound) {
        p.layout_string.push_back(
            {"layers_divide_stages",
             fmt::format("{} layers less first stage {} and last stage {} are {} for {} middle "
                         "stages with vpp {}: not whole",
                         p.plan.model.num_layers, split.first_stage_layers.value_or(0),
                         split.last_stage_layers.value_or(0), left, middle, vpp),
             balancedFix(p)});
        p.scope.split_judged = true;
        return;
    }
    for (std::int64_t chunk = 0; chunk < vpp; ++chunk)
        for (std::int64_t stage = 0; stage < pp; ++stage) {
            const auto& own = stage == 0        ? split.first_stage_layers
                              : stage == pp - 1 ? split.last_stage_layers
                                                : std::optional<std::int64_t>();
            p.plan.stage_layers.push_back(own.value_or(each) / vpp);
        }
}

void splitLayers(CheckedPlan& p) {
    if (!p.plan.stage_layers.empty() || !p.scope.num_layers) return;
    accountForEnds(p);
    if (p.plan.stage_layers.empty()) ownEnds(p);
}

/// The layers m of a layout string are the model's multi-token prediction layers, and stand in the
/// last virtual stage of their rank (Megatron-LM, pipeline_parallel_layer_layout.py).
void layoutPrediction(CheckedPlan& p) {
    if (p.chunks.empty()) return;
    std::int64_t layers = 0;
    const auto ranks = static_cast<std::size_t>(p.plan.layout.pp);
    for (std::size_t i = 0; i < p.chunks.size(); ++i) {
        layers += p.chunks[i].mtp_layers;
        if (p.chunks[i].mtp_layers == 0 || i + ranks >= p.chunks.size()) continue;
        p.layout_string.push_back(
            {"layout_string",
             fmt::format("chunk {} of {} has multi-token layers m: they stand in the last virtual "
                         "stage of a rank, here chunks {} to {}",
                         i + 1, p.chunks.size(), p.chunks.size() - ranks + 1, p.chunks.size()),
             {}});
    }
    if (!p.mtp_given && !p.scope.vocab) {
        p.plan.model.mtp_num_layers = layers;
        return;
    }
    if (layers == p.plan.model.mtp_num_layers) return;
    p.layout_string.push_back(
        {"layout_mtp_layers",
         fmt::format("the layout string has {} multi-token prediction layers m, the model {}",
                     layers, p.plan.model.mtp_num_layers),
         {fmt::format("mtp_num_layers={}", layers)}});
}

/// The largest of the allowed sizes that divides the batch of a replica.
void chooseMicroBatch(CheckedPlan& p) {
    const std::int64_t dp = p.plan.layout.dp;
    if (p.scope.options.micro_batch_sizes.empty() || !p.scope.global_batch ||
        p.origins.contains("micro_batch_size") || p.plan.global_batch_size % dp != 0)
        return;
    const std::int64_t each = p.plan.global_batch_size / dp;
    std::int64_t best = 0;
    for (const std::int64_t size : p.scope.options.micro_batch_sizes)
        if (each % size == 0) best = std::max(best, size);
    if (best == 0) return;
    p.plan.micro_batch_size = best;
    p.scope.micro_batch = true;
    p.origins["micro_batch_size"] =
        fmt::format("largest of {} that divides global_batch_size {} / dp {} = {}",
                    listed(p.scope.options.micro_batch_sizes), p.plan.global_batch_size, dp, each);
}

RuleScope emptyScope(bool model) {
    RuleScope scope;
    scope.num_layers = scope.moe = scope.heads = scope.kv_heads = scope.dense_width =
        scope.expert_width = scope.shared_width = scope.vocab = scope.hidden = scope.top_k =
            scope.groups = model;
    scope.micro_batch = scope.global_batch = scope.seq_len = scope.cluster = false;
    return scope;
}

Result<GivenDegrees> degreesOf(const CheckRequest& request, CheckedPlan& p) {
    PIPER_ASSIGN(GivenDegrees given, parseDegrees(request.layout));
    for (const auto& [key, value] : p.degrees) {
        const auto [at, added] = given.try_emplace(key, value);
        if (!added && at->second != value)
            return fail(ErrorCode::InvalidInput, "{} is {} in the layout and {} among the settings",
                        key, at->second, value);
    }
    chunksDecideVpp(p, given);
    virtualStagesDecideVpp(p, given);
    return given;
}

}  // namespace

Result<CheckedPlan> planOf(const CheckRequest& request) {
    CheckedPlan p;
    p.scope = emptyScope(request.model.has_value());
    if (request.model) p.plan.model = *request.model;
    p.plan.framework = request.framework;
    for (const std::string& setting : request.settings) PIPER_TRY(applySetting(p, setting));
    if (request.world < 0 || request.world > (1 << 24))
        return fail(ErrorCode::InvalidInput, "world {} must be between 1 and {}", request.world,
                    1 << 24);
    if (request.devices_per_node < 1 || request.devices_per_node > (1 << 20))
        return fail(ErrorCode::InvalidInput, "{} devices a node; must be at least 1",
                    request.devices_per_node);
    PIPER_ASSIGN(const GivenDegrees given, degreesOf(request, p));
    const CompletedLayout completed = completeDegrees(given, request.world, request.framework);
    p.plan.layout = completed.layout;
    p.effective = completed.effective;
    p.scope.world = completed.effective.back().value;
    for (const EffectiveValue& value : completed.effective)
        if (value.key == "etp") p.scope.etp_origin = value.origin;
    if (p.plan.layout.vpp > 1 && !p.origins.contains("schedule")) {
        p.plan.schedule = ScheduleKind::InterleavedOneF1B;
        p.origins["schedule"] = "vpp above 1";
    }
    splitLayers(p);
    layoutPrediction(p);
    chooseMicroBatch(p);
    // A global batch alone is checked with micro-batches of one sequence.
    if (p.scope.global_batch) p.scope.micro_batch = true;
    p.plan.cluster.devices_per_node = request.devices_per_node;
    p.plan.cluster.nodes =
        (p.scope.world + request.devices_per_node - 1) / request.devices_per_node;
    return p;
}

void labelDifferences(const CheckedPlan& checked, Violations& out) {
    std::string_view rest = checked.label;
    while (!rest.empty()) {
        const std::size_t at = rest.find_first_of("_-");
        std::string_view word = rest.substr(0, at);
        rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
        const std::size_t digits = word.find_first_of("0123456789");
        if (digits == std::string_view::npos || digits == 0) continue;
        std::string key(word.substr(0, digits));
        if (key == "vp") key = "vpp";
        std::int64_t value = 0;
        const auto [end, error] =
            std::from_chars(word.data() + digits, word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size()) continue;
        for (const EffectiveValue& effective : checked.effective)
            if (effective.key == key && effective.value != value)
                out.add("label_differs",
                        fmt::format("the label says {} {}, in force is {} ({})", key, value,
                                    effective.value, effective.origin),
                        {fmt::format("{}={}", key, value)});
    }
}

}  // namespace piper
