// SPDX-License-Identifier: Apache-2.0
// All times are taken on each rank's own clock: a duration needs no offset.
#include "core/run/statistics.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/run/memory_moments.h"
#include "core/run/merged_length.h"
#include "core/run/step_windows.h"

namespace piper {
namespace {

/// A rank's covered time by what covers it, merged.
struct Coverage {
    std::vector<Interval> compute, communication, all;

    void add(const Event& e) {
        if (e.phase == Phase::Idle) return;
        const Interval span{e.start_ns, e.end_ns()};
        all.push_back(span);
        if (isCompute(e)) compute.push_back(span);
        if (isCommunication(e.phase)) communication.push_back(span);
    }
    void merge() {
        for (auto* list : {&compute, &communication, &all})
            *list = mergeIntervals(std::move(*list));
    }
};

std::int64_t lengthOutside(const std::vector<Interval>& merged,
                           const std::vector<Interval>& cover) {
    return mergedLength(merged) - intersectionLength(merged, cover);
}

/// The part of merged intervals that may touch [begin, end).
std::vector<Interval> near(const std::vector<Interval>& merged, Interval window) {
    const auto first = std::partition_point(
        merged.begin(), merged.end(), [&](const Interval& i) { return i.end <= window.begin; });
    const auto last = std::partition_point(first, merged.end(),
                                           [&](const Interval& i) { return i.begin < window.end; });
    return {first, last};
}

/// The events of one step, as they come.
struct StepEvents {
    StepTotals totals;
    Coverage coverage;
    std::array<std::vector<Interval>, kNumPhases> phases;

    void add(const Event& e) {
        ++totals.events;
        coverage.add(e);
        if (e.phase == Phase::Idle) return;
        PhaseTotal& total = totals.phases[static_cast<std::size_t>(e.phase)];
        phases[static_cast<std::size_t>(e.phase)].push_back({e.start_ns, e.end_ns()});
        ++total.count;
        total.sum_ns += e.duration_ns;
        total.flops += e.flops;
        total.bytes += static_cast<double>(e.bytes);
    }

    /// `compute`: of all steps; one may hide what another communicates.
    StepTotals take(const std::vector<Interval>& compute, const Interval* window) {
        coverage.merge();
        totals.busy_ns = mergedLength(coverage.all);
        for (std::size_t p = 0; p < kNumPhases; ++p) {
            const auto merged = mergeIntervals(std::move(phases[p]));
            totals.phases[p].union_ns = mergedLength(merged);
            if (isCommunication(static_cast<Phase>(p)) && !merged.empty())
                totals.phases[p].exposed_ns =
                    lengthOutside(merged, near(compute, {merged.front().begin, merged.back().end}));
        }
        if (window == nullptr) return totals;
        const auto own = inside(coverage.compute, *window);
        totals.compute_ns = mergedLength(own);
        totals.exposed_ns = lengthOutside(inside(coverage.communication, *window), own);
        totals.covered_ns = mergedLength(inside(coverage.all, *window));
        return totals;
    }
};

/// The counted steps of one rank.
class RankTime {
public:
    RankTime(const RankTimeline& rank, const StepWindows& windows,
             const std::vector<std::int32_t>& steps)
        : m_windows(windows), m_steps(steps), m_has_events(rank.numEvents() > 0) {
        for (const StepTotals& one : rank.isDigest() ? rank.step_totals : stepTotals(rank, windows))
            if (std::binary_search(steps.begin(), steps.end(), one.step)) m_totals[one.step] = one;
    }

    [[nodiscard]] std::array<PhaseTotal, kNumPhases> phases() const {
        std::array<PhaseTotal, kNumPhases> out{};
        for (const auto& [step, totals] : m_totals)
            for (std::size_t p = 0; p < kNumPhases; ++p) out[p] += totals.phases[p];
        PhaseTotal& idle = out[static_cast<std::size_t>(Phase::Idle)];
        for (std::int32_t step : m_steps) {
            if (!m_windows.contains(step) || !m_has_events) continue;
            ++idle.count;
            idle.sum_ns += breakdown(step).idle;
        }
        idle.union_ns = idle.sum_ns;
        return out;
    }

    struct Parts {
        std::int64_t step = 0, compute = 0, exposed = 0, idle = 0;
    };
    [[nodiscard]] Parts breakdown(std::int32_t step) const {
        const auto window = m_windows.find(step);
        if (window == m_windows.end()) return {};
        Parts parts;
        parts.step = window->second.end - window->second.begin;
        if (m_has_events) parts.idle = parts.step;
        const auto found = m_totals.find(step);
        if (found == m_totals.end()) return parts;
        parts.compute = found->second.compute_ns;
        parts.exposed = found->second.exposed_ns;
        parts.idle -= found->second.covered_ns;
        return parts;
    }

    [[nodiscard]] std::int64_t busy() const {
        std::int64_t sum = 0;
        for (const auto& [step, totals] : m_totals) sum += totals.busy_ns;
        return sum;
    }

private:
    const StepWindows& m_windows;
    const std::vector<std::int32_t>& m_steps;
    bool m_has_events;  ///< without any, what the steps went to is not known
    std::map<std::int32_t, StepTotals> m_totals;
};

void summariseSteps(const std::vector<RankTime>& ranks, RunStatistics& out) {
    StepBreakdown& mean = out.breakdown;
    for (std::int32_t step : out.step_index) {
        RankTime::Parts slowest;
        for (const RankTime& rank : ranks) {
            const RankTime::Parts parts = rank.breakdown(step);
            if (parts.step > slowest.step) slowest = parts;
        }
        out.step_ns.push_back(slowest.step);
        mean.step_ns += static_cast<double>(slowest.step);
        mean.compute_ns += static_cast<double>(slowest.compute);
        mean.exposed_ns += static_cast<double>(slowest.exposed);
        mean.idle_ns += static_cast<double>(slowest.idle);
    }
    if (out.step_ns.empty()) return;
    const auto count = static_cast<double>(out.step_ns.size());
    for (double* value : {&mean.step_ns, &mean.compute_ns, &mean.exposed_ns, &mean.idle_ns})
        *value /= count;
    std::vector<std::int64_t> sorted = out.step_ns;
    std::sort(sorted.begin(), sorted.end());
    out.step_ns_min = sorted.front();
    out.step_ns_max = sorted.back();
    const std::size_t middle = sorted.size() / 2;
    out.step_ns_median = sorted.size() % 2 == 1
                             ? sorted[middle]
                             : sorted[middle - 1] + (sorted[middle] - sorted[middle - 1]) / 2;
}

using TermBytes = std::array<std::int64_t, kNumMemoryTerms>;

void addMemory(const RankTimeline& rank, RunStatistics& out) {
    TermBytes peak{}, at_peak{};
    std::int64_t peak_bytes = 0;
    eachMoment(sortedByTime(rank.memory), [&](std::size_t, std::int64_t, const TermBytes& now) {
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) peak[t] = std::max(peak[t], now[t]);
        const std::int64_t total = std::accumulate(now.begin(), now.end(), std::int64_t{0});
        if (total <= peak_bytes) return;
        peak_bytes = total;
        at_peak = now;
    });
    out.rank_peak_by_term.push_back(peak);
    out.rank_at_peak.push_back(at_peak);
    out.rank_peak_bytes.push_back(peak_bytes);
}

}  // namespace

PhaseTotal& PhaseTotal::operator+=(const PhaseTotal& one) {
    count += one.count;
    sum_ns += one.sum_ns;
    union_ns += one.union_ns;
    exposed_ns += one.exposed_ns;
    flops += one.flops;
    bytes += one.bytes;
    return *this;
}

std::vector<StepTotals> stepTotals(const RankTimeline& rank, const StepWindows& windows) {
    std::map<std::int32_t, StepEvents> steps;
    std::vector<Interval> compute;
    for (const Event& e : rank.events) {
        steps[e.step].add(e);
        if (isCompute(e)) compute.push_back({e.start_ns, e.end_ns()});
    }
    compute = mergeIntervals(std::move(compute));
    std::vector<StepTotals> out;
    for (auto& [step, events] : steps) {
        const auto window = windows.find(step);
        out.push_back(events.take(compute, window == windows.end() ? nullptr : &window->second));
        out.back().step = step;
    }
    return out;
}

RunStatistics computeStatistics(const Run& run, int skip_steps) {
    const std::vector<StepWindows> windows = stepWindows(run);
    RunStatistics out;
    out.step_index = countedSteps(windows, skip_steps);
    out.steps = std::ssize(out.step_index);

    std::vector<RankTime> times;
    times.reserve(run.ranks.size());
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
        times.emplace_back(run.ranks[r], windows[r], out.step_index);
        out.events_total += run.ranks[r].numEvents();
        out.rank_busy_ns.push_back(times[r].busy());
        out.rank_phases.push_back(times[r].phases());
        for (std::size_t p = 0; p < kNumPhases; ++p) out.phases[p] += out.rank_phases[r][p];
        addMemory(run.ranks[r], out);
    }
    summariseSteps(times, out);
    if (out.steps == 0) return out;
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        out.flops_per_step += out.phases[p].flops;
        if (isCommunication(static_cast<Phase>(p))) out.bytes_per_step += out.phases[p].bytes;
    }
    out.flops_per_step /= static_cast<double>(out.steps);
    out.bytes_per_step /= static_cast<double>(out.steps);
    return out;
}

}  // namespace piper
