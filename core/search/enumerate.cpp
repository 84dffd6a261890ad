// SPDX-License-Identifier: Apache-2.0
#include "core/search/enumerate.h"

#include <algorithm>

#include "core/search/choices.h"

namespace piper {
const std::vector<std::string_view>& searchKeys() {
    static const std::vector<std::string_view> keys = {"tp",       "sp",        "cp",
                                                       "pp",       "vpp",       "ep",
                                                       "etp",      "dp",        "micro_batch_size",
                                                       "schedule", "recompute", "zero_stage",
                                                       "chunks",   "algorithm", "stage_layers",
                                                       "offload",  "rank_order"};
    return keys;
}

Status checkFixed(const SearchSpace& space) {
    for (const std::string& key : space.fixed) {
        if (std::ranges::find(searchKeys(), key) != searchKeys().end()) continue;
        Error error = fail(ErrorCode::InvalidInput, "unknown key '{}' to fix; nearest known: '{}'",
                           key, nearestWord(key, searchKeys()));
        error.hint = fmt::format("known: {}", joinWords(searchKeys()));
        return error;
    }
    return {};
}

namespace {

void forEachSaving(const SearchChoices& choices, SearchPoint point,
                   const std::function<void(const SearchPoint&)>& take) {
    for (const int zero_stage : choices.zeroStages())
        for (const bool offload : choices.offloads())
            for (std::uint32_t r = 0; r < choices.recomputes().size(); ++r) {
                point.saving = {r, 0, zero_stage, offload};
                for (const std::int64_t layers : choices.recomputedLayers(point)) {
                    point.saving.recomputed_layers = layers;
                    take(point);
                }
            }
}

}  // namespace

void forEachPoint(const SearchChoices& choices,
                  const std::function<void(const SearchPoint&)>& take) {
    for (const SearchCore& core : choices.cores())
        for (const PipelineChoice& pipeline : choices.pipelines(core))
            for (const AllToAllChoice& exchange : choices.exchanges(core, pipeline))
                forEachSaving(choices, {core, pipeline, exchange, {}}, take);
}

std::vector<Plan> enumeratePlans(const SearchSpace& space) {
    const SearchChoices choices(space);
    std::vector<Plan> out;
    forEachPoint(choices, [&](const SearchPoint& point) { out.push_back(choices.plan(point)); });
    return out;
}

std::string layoutText(const Plan& plan) {
    const Layout& l = plan.layout;
    std::string text = fmt::format("tp={} pp={} ep={} dp={} mbs={}", l.tp, l.pp, l.ep, l.dp,
                                   plan.micro_batch_size);
    if (l.cp > 1) text += fmt::format(" cp={}", l.cp);
    if (l.vpp > 1) text += fmt::format(" vpp={}", l.vpp);
    if (l.etp > 1) text += fmt::format(" etp={}", l.etp);
    text += fmt::format(" {}", toText(plan.schedule));
    const Recompute& r = plan.recompute;
    if (r.granularity != RecomputeGranularity::None)
        text += fmt::format(" recompute={}", toText(r.granularity));
    if (r.granularity == RecomputeGranularity::Full && r.num_layers > 0)
        text += fmt::format(":{}", r.num_layers);
    if (plan.zero_stage > 0) text += fmt::format(" zero={}", plan.zero_stage);
    if (plan.offload.optimizer) text += " offload=optimizer";
    if (plan.all_to_all.chunks > 1) text += fmt::format(" chunks={}", plan.all_to_all.chunks);
    if (plan.all_to_all.algorithm != AllToAllAlgorithm::Auto)
        text += fmt::format(" a2a={}", toText(plan.all_to_all.algorithm));
    if (plan.rank_order != Plan{}.rank_order) text += fmt::format(" order={}", plan.rank_order);
    return text;
}

std::vector<std::int64_t> balancedStages(std::int64_t layers, std::int64_t pp) {
    if (pp < 1 || layers % pp == 0) return {};
    std::vector<std::int64_t> stages(static_cast<std::size_t>(pp), layers / pp);
    std::int64_t left = layers % pp;
    const std::int64_t first = std::max<std::int64_t>(0, (pp - left) / 2);
    for (std::int64_t s = first; left > 0; ++s, --left) ++stages[static_cast<std::size_t>(s)];
    return stages;
}

}  // namespace piper
