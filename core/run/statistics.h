// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/run.h"
#include "core/run/step_windows.h"

namespace piper {

/// How the slowest rank of a step spent it, mean over the counted steps, in nanoseconds.
/// step = compute + exposed communication + idle + rest (optimizer and host work outside the
/// compute lane that nothing else covers).
struct StepBreakdown {
    double step_ns = 0.0;
    double compute_ns = 0.0;  ///< union of the compute lane
    double exposed_ns = 0.0;  ///< union of all communication outside it
    double idle_ns = 0.0;     ///< covered by no event
};

/// Per-phase time of one rank or of a whole run, over whole steps.
/// Idle: step time not covered by any event of the rank; nothing of a rank without events.
struct RunStatistics {
    std::int64_t events_total = 0;    ///< of the whole run, also outside the counted steps
    std::int64_t steps = 0;           ///< steps counted: those that every rank completed
    std::int64_t step_ns_median = 0;  ///< of the slowest rank per step
    std::int64_t step_ns_min = 0, step_ns_max = 0;
    std::vector<std::int32_t> step_index;  ///< [steps] which were counted
    std::vector<std::int64_t> step_ns;     ///< [steps] time of the slowest rank
    StepBreakdown breakdown;
    std::array<PhaseTotal, kNumPhases> phases{};                  ///< summed over ranks and steps
    std::vector<std::array<PhaseTotal, kNumPhases>> rank_phases;  ///< [ranks]
    std::vector<std::int64_t> rank_busy_ns;  ///< [ranks] sum over counted steps of their unions
    std::vector<std::array<std::int64_t, kNumMemoryTerms>>
        rank_peak_by_term;  ///< own peak of each term
    std::vector<std::array<std::int64_t, kNumMemoryTerms>>
        rank_at_peak;                           ///< terms at the rank's peak
    std::vector<std::int64_t> rank_peak_bytes;  ///< peak of the sum of all terms
    double flops_per_step = 0.0;                ///< all ranks
    double bytes_per_step = 0.0;                ///< communication payload, all ranks
};

/// By step, what the events of a rank sum up to, also those of steps without a window; RankTimeline
/// keeps it where its events are not there. Empty without events.
[[nodiscard]] std::vector<StepTotals> stepTotals(const RankTimeline& rank,
                                                 const StepWindows& windows);

/// `skip_steps`: first steps left out as warm-up when more than that many exist.
[[nodiscard]] RunStatistics computeStatistics(const Run& run, int skip_steps = 0);

/// One row of a comparison of B against A, each normalised per step.
struct ComparisonRow {
    std::string key;          ///< phase, stage, rank or memory term
    double a = 0.0, b = 0.0;  ///< same unit
    std::int64_t count_a = 0, count_b = 0;
    [[nodiscard]] double difference() const { return b - a; }
    /// (b - a) / a; 0 when both are 0.
    [[nodiscard]] double relative() const;
};

/// Where the difference of the step times comes from; the parts add up to the difference.
/// Step times are means over the counted steps of the slowest rank (RunStatistics::breakdown).
struct Attribution {
    [[nodiscard]] double difference() const { return step_b_seconds - step_a_seconds; }
    double step_a_seconds = 0.0, step_b_seconds = 0.0;
    double compute_seconds = 0.0;  ///< difference of compute per slowest rank
    double exposed_communication_seconds = 0.0;
    double bubble_seconds = 0.0;  ///< idle
    double rest_seconds = 0.0;    ///< what is left, so that the sum is exact
};

struct Comparison {
    std::vector<ComparisonRow> phase_seconds;    ///< per step, mean over ranks
    std::vector<ComparisonRow> phase_flops;      ///< per step, all ranks
    std::vector<ComparisonRow> phase_bytes;      ///< per step, all ranks, communication phases
    std::vector<ComparisonRow> memory_bytes;     ///< per term: largest over ranks
    std::vector<ComparisonRow> rank_peak_bytes;  ///< per rank present in both
    std::vector<ComparisonRow> stages;           ///< busy seconds per stage and step
    std::vector<ComparisonRow> ranks;            ///< busy seconds per rank and step
    std::vector<std::string> only_in_a, only_in_b;
    std::vector<std::string> warnings;  ///< when the runs are not comparable, and why
    Attribution attribution;
    RunStatistics statistics_a, statistics_b;
};

/// A modelled and a measured run, or any two. `skip_steps` applies to measured runs.
[[nodiscard]] Comparison compareRuns(const Run& a, const Run& b, int skip_steps = 0);

}  // namespace piper
