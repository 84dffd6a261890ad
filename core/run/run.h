// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/base/units.h"
#include "core/run/step_totals.h"
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

inline constexpr std::uint16_t kMarkRow = 0xffff;

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
    EventCategory category = EventCategory::Operation;
    /// Row of its track on which it overlaps no other event; kMarkRow for records without length.
    std::uint16_t sub_lane = 0;
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
    /// Joins a launch, its kernel and its arrows; unique only within a rank and a process.
    std::int64_t correlation = -1;
    std::int32_t name = -1;   ///< index in RankTimeline::names, -1: phase and kind name it
    std::int32_t track = -1;  ///< index in RankTimeline::tracks, -1: the lane is the track

    [[nodiscard]] std::int64_t end_ns() const { return start_ns + duration_ns; }
    bool operator==(const Event&) const = default;
};

/// The order of a rank's events: by start, then by lane, track and row.
[[nodiscard]] inline bool startsBefore(const Event& a, const Event& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.track != b.track ? a.track < b.track : a.sub_lane < b.sub_lane;
}

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

/// A stream of a device or a thread of a process, as a trace of others names it.
struct Track {
    std::string name;     ///< "stream 7", "thread 1102 (python)"
    std::string process;  ///< as the trace writes it
    std::string thread;
    std::int32_t device = -1;  ///< of a stream, as the trace numbers it
    std::int64_t stream = -1;
    bool operator==(const Track&) const = default;
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
    std::vector<std::string> names;               ///< of events, each once
    std::vector<Track> tracks;
    /// Of a digest, whose events are not all there: what they sum up to by step; else empty.
    std::vector<StepTotals> step_totals;

    [[nodiscard]] bool isDigest() const { return !step_totals.empty(); }
    /// How many it recorded, also where they are not there.
    [[nodiscard]] std::int64_t numEvents() const;
    /// Empty for an event without a name of its own.
    [[nodiscard]] std::string_view nameOf(const Event& e) const {
        const auto i = static_cast<std::size_t>(e.name);
        return e.name >= 0 && i < names.size() ? std::string_view(names[i]) : std::string_view();
    }
    [[nodiscard]] const Track* trackOf(const Event& e) const {
        const auto i = static_cast<std::size_t>(e.track);
        return e.track >= 0 && i < tracks.size() ? &tracks[i] : nullptr;
    }
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

    /// Ranks whose events are not all there.
    [[nodiscard]] std::int64_t numDigests() const;
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
