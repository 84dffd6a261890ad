// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/base/inline_list.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/plan/pipeline_shape.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"
#include "core/run/vocabulary.h"

namespace piper {

/// One entry of a pipeline schedule before it is expanded: what a stage does next.
/// Backward is InputGrad followed by WeightGrad; schedules that split them emit both slots.
struct Slot {
    enum class Kind : std::uint8_t { Forward, Backward, InputGrad, WeightGrad };
    Kind kind = Kind::Forward;
    MicroBatchId micro_batch;
    ModelChunkId model_chunk;
    PipelinePhase phase = PipelinePhase::Steady;
    /// Runs together with the slot before it, a forward of another micro-batch: the exchanges of
    /// either are under way while the other computes.
    bool with_previous = false;
    bool operator==(const Slot&) const = default;
};

/// Per pipeline rank, its ordered slots: [pp].
using SlotTable = std::vector<std::vector<Slot>>;

/// An operation waits for the one before it and for what another lane brings.
using Dependencies = InlineList<std::int32_t, 4>;

/// One operation of a rank's program, executed by the simulator and by the worker alike.
struct Operation {
    std::int32_t id = 0;  ///< index in the program
    OperationKey key;
    Lane lane = Lane::Compute;
    PipelinePhase pipeline_phase = PipelinePhase::Steady;
    LayerId layer;
    MicroBatchId micro_batch;
    ChunkId chunk;
    ModelChunkId model_chunk;
    StageId peer;  ///< Send, Receive: the other stage
    Flops flops;
    Bytes bytes;  ///< communication: the payload of its work (a Receive: of its Send)
    /// Operations of the same program that must have ended; those earlier on the same lane are
    /// implied. On lane pp sends and receives do not wait for each other.
    Dependencies dependencies;
};

/// A message that stays on its rank, between the two model chunks of a fold: it takes no time and
/// no lane (it stands on lane host).
[[nodiscard]] inline bool isHandOver(const Operation& op) {
    return op.lane == Lane::Host &&
           (op.key.kind == OperationKind::Send || op.key.kind == OperationKind::Receive);
}

/// Bytes a term gains (or loses, negative) when an operation starts or ends.
struct MemoryChange {
    std::int32_t operation = 0;
    bool at_end = false;
    MemoryTerm term = MemoryTerm::Other;
    Bytes delta;
};

/// The program of every rank of one stage: they differ only in whom they exchange with.
struct StageProgram {
    StageId stage;
    std::vector<Operation> operations;  ///< in the order they are issued
    std::vector<MemoryChange> memory;   ///< sorted by operation, start before end
    std::array<Bytes, kNumMemoryTerms> persistent{};
};

/// One optimizer step as data.
struct Schedule {
    ScheduleKind kind = ScheduleKind::OneF1B;
    std::int64_t num_microbatches = 1;
    bool blocking_messages = false;  ///< compute waits until what was sent has arrived
    SlotTable slots;
    std::vector<StageProgram> stages;  ///< [pp]
};

/// "input_grad attention layer 3 micro-batch 2": for messages and hover texts.
[[nodiscard]] std::string describe(const Operation& operation);

/// What the slots of one seat take.
struct SeatTimes {
    std::int64_t forward_ns = 1, input_grad_ns = 1, weight_grad_ns = 1;
    bool operator==(const SeatTimes&) const = default;
};

/// What the slots of every seat take, for schedules that are laid out by their times.
struct SlotTimes {
    std::vector<SeatTimes> seats;  ///< [stage * chunks + chunk]
    std::int64_t message_ns = 0;   ///< between two ranks
    double pair_share = 1.0;       ///< a pair of slots takes this share of both on their own

    [[nodiscard]] static SlotTimes equal(const PipelineShape& shape, SeatTimes seat = {});
    [[nodiscard]] const SeatTimes& of(const PipelineShape& shape, std::size_t stage,
                                      ModelChunkId chunk) const {
        return seats[stage * static_cast<std::size_t>(shape.chunks()) + chunk.index()];
    }
};

/// Kinds that makeSlots generates, in the order they are tried.
[[nodiscard]] std::vector<ScheduleKind> generatedSchedules();

/// The slots of a schedule kind. The zero-bubble kinds are laid out for `times` (equal ones unless
/// given) under their bound of activations in flight.
/// Errors: RuleBroken when the degrees do not suit the kind.
[[nodiscard]] Result<SlotTable> makeSlots(const PipelineShape& shape);
[[nodiscard]] Result<SlotTable> makeSlots(const PipelineShape& shape, const SlotTimes& times);
[[nodiscard]] Result<SlotTable> makeSlots(ScheduleKind kind, std::int64_t pp, std::int64_t vpp,
                                          std::int64_t num_microbatches);

/// Expands the slots of a validated plan to operations with work and memory.
[[nodiscard]] Result<Schedule> buildSchedule(const Plan& plan);

/// Proves that every micro-batch passes every seat of its direction once: forward, input gradient
/// and weight gradient, in that order; that every message is taken in the order of its channel
/// (from, to, pass) and nothing waits for ever, without any buffer at the receiver; that pairs are
/// independent; and that no stage holds more than inFlightBound. Returns every fault.
[[nodiscard]] std::vector<Error> validateSlots(const SlotTable& slots, const PipelineShape& shape);
/// The same of any table in a loop of pp * vpp positions, without the bound.
[[nodiscard]] std::vector<Error> validateSlots(const SlotTable& slots, std::int64_t vpp,
                                               std::int64_t num_microbatches);
/// Most micro-batch chunks of activations a stage holds at once under these slots: [pp].
[[nodiscard]] std::vector<std::int64_t> inFlight(const SlotTable& slots);

/// A table played with the times of its slots alone, one lane a rank.
struct SlotTiming {
    std::vector<std::int64_t> start_ns, end_ns, busy_ns;  ///< [pp], of the first and last slot
    [[nodiscard]] std::int64_t makespan() const;
    /// Longest time a rank spends from its first slot to its last: the step, when its optimizer
    /// need not wait for the other ranks.
    [[nodiscard]] std::int64_t longestSpan() const;
};
/// Errors: External for a deadlock.
[[nodiscard]] Result<SlotTiming> timeSlots(const SlotTable& slots, const PipelineShape& shape,
                                           const SlotTimes& times);

/// What a schedule loses, over the m (F + I + W) of a rank's own slots, with equal stages, free
/// messages and 2 pp micro-batches or more. Of zb_h2 and zb_v: over longestSpan.
///   gpipe, 1f1b (pp-1)(F+I+W); interleaved (pp-1)(F+I+W), of chunks; zb_h1 (pp-1)(F+I-W);
///   zb_h2 (pp-1)(F+I-2W); zb_v 0 when F = I = W; dualpipe (pp/2-1)(FB+B-3W), dualpipe_v
///   (pp-1)(FB+B-3W), of chunks; FB a pair, B = I + W.
[[nodiscard]] std::int64_t closedFormBubbleNs(const PipelineShape& shape, const SlotTimes& times);
/// (pp - 1) / (M + pp - 1) of GPipe and 1F1B with equal stages.
[[nodiscard]] double closedFormBubble(std::int64_t pp, std::int64_t num_microbatches);

}  // namespace piper
