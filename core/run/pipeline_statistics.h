// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/run/critical_path.h"
#include "core/run/waits.h"

namespace piper {

/// Time of one phase of one layer, over the counted steps.
struct LayerTotal {
    LayerId layer;
    Phase phase = Phase::Idle;
    std::int64_t count = 0;
    std::int64_t sum_ns = 0;      ///< sum of durations, all ranks
    std::int64_t union_ns = 0;    ///< length of their union per rank, summed over ranks
    std::int64_t exposed_ns = 0;  ///< of communication: the union outside compute of its rank
    std::int64_t ranks = 0;       ///< that did any
    double flops = 0.0;
    double bytes = 0.0;
};

/// Arrival at the collectives of one phase.
struct CollectiveTotal {
    Phase phase = Phase::Dispatch;
    std::int64_t count = 0;
    std::int64_t members = 0;      ///< records, summed over collectives
    std::int64_t member_ns = 0;    ///< their durations, summed
    std::int64_t wait_ns = 0;      ///< of members until the last one arrived, summed
    std::int64_t skew_sum_ns = 0;  ///< first to last arrival, summed over collectives
    std::int64_t skew_max_ns = 0;
    std::vector<std::int64_t> last;       ///< [rank] how often it arrived last
    std::vector<std::int64_t> caused_ns;  ///< [rank] waiting of others for it
};

/// Time of the critical paths of the counted steps, summed.
struct PathTotal {
    std::int64_t ns = 0;
    std::array<std::int64_t, kNumPhases> phase_ns{};  ///< Idle: nothing ran
    std::vector<std::int64_t> rank_ns;                ///< [rank]
    std::int64_t changes = 0;                         ///< from one rank to another
};

/// Where the time of a run's whole steps went: by cause, layer, stage and rank. Every sum is over
/// the same window: `steps` on all ranks with records.
struct PipelineStatistics {
    std::vector<std::int32_t> steps;
    std::vector<RankWaits> ranks;  ///< [rank]
    std::vector<LayerTotal> layers;
    std::vector<CollectiveTotal> collectives;
    PathTotal path;
    std::vector<ClockFit> clocks;  ///< [rank]
    std::int64_t messages = 0, unmatched_receives = 0;
};

/// Of operations of our own: an imported trace without phases has none.
[[nodiscard]] PipelineStatistics pipelineStatistics(const Run& run,
                                                    const CommunicationGroups& groups,
                                                    int skip_steps = 0);

/// The keys of one entry of `runs` of `piperctl stats --json` (docs/formats.md), added to `out`.
void addPipelineStatistics(const Run& run, const PipelineStatistics& statistics, Json& out);
/// The same for the terminal.
[[nodiscard]] std::string pipelineTable(const Run& run, const PipelineStatistics& statistics);

}  // namespace piper
