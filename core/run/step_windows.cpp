// SPDX-License-Identifier: Apache-2.0
#include "core/run/step_windows.h"

#include <algorithm>

namespace piper {

void widen(StepWindows& windows, std::span<const Event> events) {
    for (const Event& e : events) {
        const auto it = windows.try_emplace(e.step, Interval{e.start_ns, e.end_ns()}).first;
        it->second.begin = std::min(it->second.begin, e.start_ns);
        it->second.end = std::max(it->second.end, e.end_ns());
    }
}

StepWindows recordedSteps(const RankTimeline& rank) {
    StepWindows windows;
    for (const StepRecord& s : rank.steps) windows[s.step] = {s.start_ns, s.end_ns};
    return windows;
}

std::vector<StepWindows> stepWindows(const Run& run) {
    const bool from_records = std::any_of(run.ranks.begin(), run.ranks.end(),
                                          [](const RankTimeline& r) { return !r.steps.empty(); });
    std::vector<StepWindows> windows;
    for (const RankTimeline& rank : run.ranks) {
        StepWindows& own = windows.emplace_back();
        if (from_records)
            own = recordedSteps(rank);
        else
            widen(own, rank.events);
    }
    return windows;
}

std::vector<std::int32_t> countedSteps(const std::vector<StepWindows>& ranks, int skip_steps) {
    std::map<std::int32_t, std::size_t> seen;
    std::size_t with_steps = 0;
    for (const StepWindows& windows : ranks) {
        with_steps += windows.empty() ? 0 : 1;
        for (const auto& [step, window] : windows) ++seen[step];
    }
    std::vector<std::int32_t> steps;
    for (const auto& [step, ranks_with_it] : seen)
        if (ranks_with_it == with_steps) steps.push_back(step);
    const auto skip = static_cast<std::ptrdiff_t>(std::max(0, skip_steps));
    if (std::ssize(steps) > skip) steps.erase(steps.begin(), steps.begin() + skip);
    return steps;
}

bool isCompute(const Event& e) {
    return (e.lane == Lane::Compute || e.lane == Lane::Stream) && !isCommunication(e.phase) &&
           e.phase != Phase::Idle;
}

std::vector<Interval> inside(const std::vector<Interval>& merged, Interval window) {
    std::vector<Interval> out;
    for (const Interval& i : merged)
        if (i.end > window.begin && i.begin < window.end)
            out.push_back({std::max(i.begin, window.begin), std::min(i.end, window.end)});
    return out;
}

std::vector<Interval> outside(const std::vector<Interval>& merged,
                              const std::vector<Interval>& cover) {
    std::vector<Interval> out;
    std::size_t c = 0;
    for (const Interval& i : merged) {
        std::int64_t at = i.begin;
        while (c < cover.size() && cover[c].end <= at) ++c;
        for (std::size_t k = c; k < cover.size() && cover[k].begin < i.end; ++k) {
            if (cover[k].begin > at) out.push_back({at, cover[k].begin});
            at = std::max(at, cover[k].end);
        }
        if (at < i.end) out.push_back({at, i.end});
    }
    return out;
}

}  // namespace piper
