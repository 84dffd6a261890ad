// SPDX-License-Identifier: Apache-2.0
#include "core/search/shortfall.h"

#include <algorithm>
#include <cmath>

#include "core/resources/work.h"
#include "core/search/enumerate.h"

namespace piper {
namespace {

/// The plan with least memory, were memory no limit.
Result<std::optional<RankedPlan>> leastMemoryPlan(const SearchSpace& space, const SearchRun& run) {
    constexpr double kPlenty = 1e3;
    const Bytes capacity = space.base.cluster.device.memory;
    for (SearchSpace roomy : {frugalSpace(space), space}) {  // a fixed choice may bar the frugal
        roomy.top = 1;
        roomy.base.cluster.device.memory *= kPlenty;
        roomy.objective = Objective::MemoryHeadroom;
        PIPER_ASSIGN(SearchResult found, searchPlans(roomy, run.parallel_for, run.stop));
        if (found.plans.empty()) continue;
        RankedPlan nearest = std::move(found.plans.front());
        nearest.plan.cluster.device.memory = capacity;
        nearest.prediction.memory.capacity = capacity;
        nearest.prediction.memory.verdict = FitVerdict::DoesNotFit;
        return std::optional<RankedPlan>(std::move(nearest));
    }
    return std::optional<RankedPlan>();
}

}  // namespace

SearchSpace frugalSpace(SearchSpace space) {
    space.top = 1;
    const auto decide = [&space](const char* key, const auto& set) {
        if (std::ranges::find(space.fixed, key) != space.fixed.end()) return;
        space.fixed.emplace_back(key);
        set();
    };
    // 1F1B takes one chunk a rank.
    const bool chunks = std::ranges::find(space.fixed, "vpp") != space.fixed.end();
    if (!chunks || space.base.layout.vpp == 1)
        decide("schedule", [&] { space.base.schedule = ScheduleKind::OneF1B; });
    decide("micro_batch_size", [&] { space.base.micro_batch_size = 1; });
    decide("recompute", [&] {
        space.base.recompute = {};
        space.base.recompute.granularity = RecomputeGranularity::Full;
    });
    // These take no memory: the base's stand for all of them.
    for (const char* key : {"rank_order", "algorithm"}) decide(key, [] {});
    decide("chunks", [&] { space.base.all_to_all.chunks = 1; });
    return space;
}

std::int64_t leastDevices(const Plan& plan) {
    if (plan.offload.parameters) return 1;
    const StateBytes state = stateBytes(plan);
    const double bytes =
        static_cast<double>(modelParameters(plan.model).total) * (state.weights + state.gradients);
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(bytes / plan.cluster.device.memory.value)));
}

Result<Shortfall> shortfallOf(const SearchSpace& space, const SearchResult& found,
                              const SearchRun& run) {
    Shortfall out;
    PIPER_ASSIGN(out.nearest, leastMemoryPlan(space, run));
    if (out.nearest) {
        const MemoryPrediction& memory = out.nearest->prediction.memory;
        out.layout = layoutText(out.nearest->plan);
        out.rule = "memory";
        out.message =
            fmt::format("stage {} needs {} of the {} of a device", memory.peak_stage.value,
                        humanBytes(memory.device_total), humanBytes(memory.capacity));
        out.changes = smallestChanges(out.nearest->plan);
        return out;
    }
    out.rule = "no_layout";
    out.message = "no layout of these devices divides the model and the batch";
    const auto nearest = std::ranges::find_if(
        found.rejections, [](const Rejection& rejection) { return rejection.rule != "slower"; });
    if (nearest == found.rejections.end()) return out;
    out.layout = nearest->layout;
    out.rule = nearest->rule;
    out.message = nearest->message;
    return out;
}

}  // namespace piper
