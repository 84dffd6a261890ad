// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "core/run/plan_difference.h"
#include "core/run/statistics.h"

namespace piper {
namespace {

double perStep(double total, const RunStatistics& s) {
    return s.steps > 0 ? total / static_cast<double>(s.steps) : 0.0;
}

double seconds(double ns) {
    return ns / 1e9;
}

/// One side of a comparison.
struct Side {
    const Run& run;
    const RunStatistics& statistics;

    [[nodiscard]] const PhaseTotal& phase(std::size_t p) const { return statistics.phases[p]; }
    [[nodiscard]] double phaseSeconds(std::size_t p) const {
        const auto ranks = static_cast<double>(std::max<std::size_t>(1, run.ranks.size()));
        return seconds(perStep(static_cast<double>(phase(p).union_ns), statistics)) / ranks;
    }
    [[nodiscard]] std::int64_t count(std::size_t p) const {
        return std::llround(perStep(static_cast<double>(phase(p).count), statistics));
    }
    [[nodiscard]] double largestTerm(std::size_t term) const {
        std::int64_t largest = 0;
        for (const auto& rank : statistics.rank_peak_by_term)
            largest = std::max(largest, rank[term]);
        return static_cast<double>(largest);
    }
    [[nodiscard]] std::set<std::int32_t> stages() const {
        std::set<std::int32_t> out;
        for (const RankTimeline& rank : run.ranks) out.insert(rank.stage.value);
        return out;
    }
    /// Mean over the stage's ranks.
    [[nodiscard]] double stageSeconds(std::int32_t stage) const {
        double sum = 0.0, ranks = 0.0;
        for (std::size_t r = 0; r < run.ranks.size(); ++r) {
            if (run.ranks[r].stage.value != stage) continue;
            sum += static_cast<double>(statistics.rank_busy_ns[r]);
            ranks += 1.0;
        }
        return ranks > 0 ? seconds(perStep(sum, statistics)) / ranks : 0.0;
    }
    [[nodiscard]] std::ptrdiff_t find(RankId rank) const {
        for (std::size_t r = 0; r < run.ranks.size(); ++r)
            if (run.ranks[r].rank == rank) return static_cast<std::ptrdiff_t>(r);
        return -1;
    }
};

void comparePhases(const Side& a, const Side& b, Comparison& out) {
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        const PhaseTotal &in_a = a.phase(p), &in_b = b.phase(p);
        if (in_a.count == 0 && in_b.count == 0) continue;
        const std::string key(toText(static_cast<Phase>(p)));
        const std::int64_t count_a = a.count(p), count_b = b.count(p);
        out.phase_seconds.push_back({key, a.phaseSeconds(p), b.phaseSeconds(p), count_a, count_b});
        if (in_a.flops != 0 || in_b.flops != 0)
            out.phase_flops.push_back({key, perStep(in_a.flops, a.statistics),
                                       perStep(in_b.flops, b.statistics), count_a, count_b});
        if (isCommunication(static_cast<Phase>(p)))
            out.phase_bytes.push_back({key, perStep(in_a.bytes, a.statistics),
                                       perStep(in_b.bytes, b.statistics), count_a, count_b});
        if (in_a.count == 0) out.only_in_b.push_back("phase " + key);
        if (in_b.count == 0) out.only_in_a.push_back("phase " + key);
    }
}

void compareMemory(const Side& a, const Side& b, Comparison& out) {
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
        const double in_a = a.largestTerm(t), in_b = b.largestTerm(t);
        if (in_a == 0 && in_b == 0) continue;
        const std::string key(toText(static_cast<MemoryTerm>(t)));
        out.memory_bytes.push_back({key, in_a, in_b, 0, 0});
        if (in_a == 0) out.only_in_b.push_back("memory term " + key);
        if (in_b == 0) out.only_in_a.push_back("memory term " + key);
    }
}

void compareRanks(const Side& a, const Side& b, Comparison& out) {
    for (std::size_t r = 0; r < a.run.ranks.size(); ++r) {
        const std::string key = fmt::format("rank {}", a.run.ranks[r].rank.value);
        const std::ptrdiff_t other = b.find(a.run.ranks[r].rank);
        if (other < 0) {
            out.only_in_a.push_back(key);
            continue;
        }
        const auto o = static_cast<std::size_t>(other);
        const auto busy = [](const Side& s, std::size_t i) {
            return seconds(
                perStep(static_cast<double>(s.statistics.rank_busy_ns[i]), s.statistics));
        };
        out.ranks.push_back(
            {key, busy(a, r), busy(b, o), a.run.ranks[r].numEvents(), b.run.ranks[o].numEvents()});
        out.rank_peak_bytes.push_back({key, static_cast<double>(a.statistics.rank_peak_bytes[r]),
                                       static_cast<double>(b.statistics.rank_peak_bytes[o]), 0, 0});
    }
    for (const RankTimeline& rank : b.run.ranks)
        if (a.find(rank.rank) < 0) out.only_in_b.push_back(fmt::format("rank {}", rank.rank.value));
}

void compareStages(const Side& a, const Side& b, Comparison& out) {
    const std::set<std::int32_t> in_a = a.stages(), in_b = b.stages();
    std::set<std::int32_t> all = in_a;
    all.insert(in_b.begin(), in_b.end());
    for (std::int32_t stage : all) {
        const std::string key = fmt::format("stage {}", stage);
        if (!in_b.contains(stage))
            out.only_in_a.push_back(key);
        else if (!in_a.contains(stage))
            out.only_in_b.push_back(key);
        else
            out.stages.push_back({key, a.stageSeconds(stage), b.stageSeconds(stage), 0, 0});
    }
}

Attribution attribute(const StepBreakdown& a, const StepBreakdown& b) {
    Attribution out;
    out.step_a_seconds = seconds(a.step_ns);
    out.step_b_seconds = seconds(b.step_ns);
    out.compute_seconds = seconds(b.compute_ns - a.compute_ns);
    out.exposed_communication_seconds = seconds(b.exposed_ns - a.exposed_ns);
    out.bubble_seconds = seconds(b.idle_ns - a.idle_ns);
    out.rest_seconds = out.difference() - (out.compute_seconds + out.exposed_communication_seconds +
                                           out.bubble_seconds);
    return out;
}

void warnOfOne(const Side& side, std::vector<std::string>& warnings) {
    const std::string& name = side.run.name;
    const auto& peaks = side.statistics.rank_peak_bytes;
    if (side.statistics.steps == 0)
        warnings.push_back(fmt::format(
            "run '{}' has no step that every rank completed: its figures are zero", name));
    if (side.run.outcome != RunOutcome::Finished)
        warnings.push_back(fmt::format("run '{}' is {}{}{}", name, toText(side.run.outcome),
                                       side.run.outcome_reason.empty() ? "" : ": ",
                                       side.run.outcome_reason));
    if (std::all_of(peaks.begin(), peaks.end(), [](std::int64_t p) { return p == 0; }))
        warnings.push_back(fmt::format("run '{}' has no memory samples", name));
    if (side.statistics.steps > 0 && side.statistics.flops_per_step == 0)
        warnings.push_back(fmt::format("run '{}' has no FLOPs counted", name));
    if (side.run.notes.contains("damage"))
        warnings.push_back(fmt::format("run '{}' is incomplete: its file is damaged", name));
}

std::vector<std::string> warningsOf(const Side& a, const Side& b) {
    std::vector<std::string> warnings;
    const auto differ = [&](std::string_view what, std::size_t in_a, std::size_t in_b) {
        if (in_a != in_b)
            warnings.push_back(
                fmt::format("number of {} differs: {} against {}; totals over all "
                            "ranks are not comparable",
                            what, in_a, in_b));
    };
    differ("ranks", a.run.ranks.size(), b.run.ranks.size());
    differ("stages", a.stages().size(), b.stages().size());
    // A modelled run needs no more than one step.
    if (a.run.kind == RunKind::Measured && b.run.kind == RunKind::Measured &&
        a.statistics.steps != b.statistics.steps)
        warnings.push_back(fmt::format("counted steps differ: {} against {}", a.statistics.steps,
                                       b.statistics.steps));
    for (std::string& difference : planDifferences(a.run.plan_json, b.run.plan_json))
        warnings.push_back(std::move(difference));
    warnOfOne(a, warnings);
    warnOfOne(b, warnings);
    return warnings;
}

}  // namespace

double ComparisonRow::relative() const {
    if (a == 0.0 && b == 0.0) return 0.0;
    return (b - a) / a;
}

Comparison compareRuns(const Run& a, const Run& b, int skip_steps) {
    const auto statisticsOf = [&](const Run& run) {
        return computeStatistics(run, run.kind == RunKind::Measured ? skip_steps : 0);
    };
    Comparison out;
    out.statistics_a = statisticsOf(a);
    out.statistics_b = statisticsOf(b);
    const Side side_a{a, out.statistics_a}, side_b{b, out.statistics_b};
    comparePhases(side_a, side_b, out);
    compareMemory(side_a, side_b, out);
    compareRanks(side_a, side_b, out);
    compareStages(side_a, side_b, out);
    out.attribution = attribute(out.statistics_a.breakdown, out.statistics_b.breakdown);
    out.warnings = warningsOf(side_a, side_b);
    return out;
}

}  // namespace piper
