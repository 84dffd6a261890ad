// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/base/units.h"
#include "core/run/vocabulary.h"

namespace piper {

/// A run nobody paid for, or one that happened. They differ in this one column.
enum class RunKind : std::uint8_t { Modelled, Measured };

/// What became of a run.
enum class RunOutcome : std::uint8_t { Running, Finished, Failed, Cancelled };

template <>
std::span<const EnumName<RunKind>> enumNames<RunKind>();
template <>
std::span<const EnumName<RunOutcome>> enumNames<RunOutcome>();

/// One operation as it ran (or was predicted to run) on one rank.
/// Times are nanoseconds on the rank's own clock from the run's start; the rank's offset is applied
/// on reading, never stored into them.
struct Event {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    OperationKind kind = OperationKind::Forward;
    Phase phase = Phase::Idle;
    Pass pass = Pass::Forward;
    PipelinePhase pipeline_phase = PipelinePhase::Steady;
    Lane lane = Lane::Compute;
    std::int32_t step = 0;
    LayerId layer;
    MicroBatchId micro_batch;
    ChunkId chunk;
    ModelChunkId model_chunk;
    std::int32_t operation = -1;  ///< index in the stage's program; correlation with the schedule
    /// Communication: payload bytes this rank handed to the transport for other ranks.
    /// Compute: bytes of its operands read and written, 0 when not counted.
    std::int64_t bytes = 0;
    double flops = 0.0;
    std::int64_t cpu_ns = -1;  ///< CPU time of the thread, -1 not measured

    [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
    bool operator==(const Event&) const = default;
};

/// Bytes held for a term from this moment on.
struct MemorySample {
    std::int64_t time_ns = 0;
    MemoryTerm term = MemoryTerm::Other;
    std::int64_t bytes = 0;
    bool operator==(const MemorySample&) const = default;
};

/// Offset of this rank's clock against rank 0's at a moment: rank 0 time = time + offset.
struct ClockSample {
    std::int64_t time_ns = 0;
    std::int64_t offset_ns = 0;
    std::int64_t round_trip_ns = 0;  ///< of the ping that gave it: its uncertainty
    bool operator==(const ClockSample&) const = default;
};

/// What one optimizer step reported on a rank.
struct StepRecord {
    std::int32_t step = 0;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    double loss = 0.0;  ///< mean over the global batch; NaN where the rank has none
    double gradient_norm = 0.0;
    std::int64_t tokens = 0;  ///< of the global batch
    bool operator==(const StepRecord&) const = default;
};

/// Tokens each expert of a layer got in a step on this rank's experts' owner.
struct ExpertLoad {
    std::int32_t step = 0;
    LayerId layer;
    std::vector<std::int64_t> tokens;  ///< [num_experts] rows routed by this rank
    bool operator==(const ExpertLoad&) const = default;
};

/// Everything one rank recorded.
struct RankTimeline {
    RankId rank;
    StageId stage;
    std::string host;
    std::int64_t offset_ns = 0;  ///< added on reading
    std::vector<Event> events;   ///< sorted by start
    std::vector<MemorySample> memory;
    std::vector<ClockSample> clock;
    std::vector<StepRecord> steps;
    std::vector<ExpertLoad> expert_load;
    std::map<std::string, std::string> counters;  ///< name -> value, or "unavailable: reason"
};

/// A run, modelled or measured: all views and comparisons take this.
struct Run {
    std::string name;
    RunKind kind = RunKind::Measured;
    RunOutcome outcome = RunOutcome::Finished;
    std::string outcome_reason;  ///< why it failed, in one sentence
    std::string plan_json;       ///< the plan it ran, as writePlan gives it
    std::string started_at;      ///< ISO 8601 UTC
    std::string program_version;
    std::map<std::string, std::string> notes;
    std::vector<RankTimeline> ranks;
};

/// Length of the union of intervals [start, end), in the same unit.
struct Interval {
    std::int64_t begin = 0, end = 0;
};
[[nodiscard]] std::int64_t unionLength(std::vector<Interval> intervals);
/// Merged, sorted, non-overlapping.
[[nodiscard]] std::vector<Interval> mergeIntervals(std::vector<Interval> intervals);
/// Length of the intersection of two merged interval lists.
[[nodiscard]] std::int64_t intersectionLength(const std::vector<Interval>& a,
                                              const std::vector<Interval>& b);

}  // namespace piper
