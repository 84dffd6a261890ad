// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/search/search.h"

namespace piper {

std::vector<ParetoPlan> undominated(std::vector<ParetoPlan> plans) {
    const auto world = [](const ParetoPlan& p) { return p.plan.layout.world(); };
    const auto beats = [&](const ParetoPlan& a, const ParetoPlan& b) {
        const bool as_good =
            a.step <= b.step && a.device_total <= b.device_total && world(a) <= world(b);
        return as_good &&
               (a.step < b.step || a.device_total < b.device_total || world(a) < world(b));
    };
    std::ranges::stable_sort(plans, {}, &ParetoPlan::step);
    std::vector<ParetoPlan> out;
    for (ParetoPlan& plan : plans) {
        const bool known = std::ranges::any_of(out, [&](const ParetoPlan& o) {
            return beats(o, plan) || (o.step == plan.step && world(o) == world(plan) &&
                                      o.device_total == plan.device_total);
        });
        if (known) continue;
        std::erase_if(out, [&](const ParetoPlan& o) { return beats(plan, o); });
        out.push_back(std::move(plan));
    }
    return out;
}

Result<std::vector<ParetoPlan>> paretoPlans(const SearchSpace& given,
                                            const ParallelFor& parallel_for, std::stop_token stop) {
    std::vector<ParetoPlan> found;
    const std::int64_t devices = given.base.cluster.numDevices();
    const std::int64_t world = given.max_world > 0 ? std::min(given.max_world, devices) : devices;
    for (const std::int64_t share : {1, 2, 4}) {
        if (world % share != 0 || world / share < 1) continue;
        for (const double room : {1.0, 0.85, 0.7, 0.55, 0.4}) {
            SearchSpace space = given;
            space.max_world = world / share;
            space.top = 1;
            space.memory_margin = std::max(given.memory_margin, 1.0 - room);
            PIPER_ASSIGN(SearchResult result, searchPlans(space, parallel_for, stop));
            if (result.plans.empty()) continue;
            RankedPlan& best = result.plans.front();
            found.push_back(
                {std::move(best.plan), best.prediction.step, best.prediction.memory.device_total});
        }
    }
    return undominated(std::move(found));
}

}  // namespace piper
