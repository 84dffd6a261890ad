// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/base/result.h"
#include "core/base/units.h"
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
    bool operator==(const Slot&) const = default;
};

/// Per pipeline rank, its ordered slots: [pp].
using SlotTable = std::vector<std::vector<Slot>>;

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
    std::vector<std::int32_t> dependencies;
};

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

/// Kinds that makeSlots generates today, in the order they are tried.
[[nodiscard]] std::vector<ScheduleKind> generatedSchedules();

/// The slots of a schedule kind. Errors: Unsupported for a kind not generated yet;
/// RuleBroken when the degrees do not suit it.
[[nodiscard]] Result<SlotTable> makeSlots(ScheduleKind kind, std::int64_t pp, std::int64_t vpp,
                                          std::int64_t num_microbatches);

/// Expands the slots of a validated plan to operations with work and memory.
[[nodiscard]] Result<Schedule> buildSchedule(const Plan& plan);

/// Proves that every micro-batch passes every stage chunk once forward and once backward, that
/// backward follows forward, and that nothing deadlocks. Returns every fault.
[[nodiscard]] std::vector<Error> validateSlots(const SlotTable& slots, std::int64_t vpp,
                                               std::int64_t num_microbatches);
/// Most micro-batch chunks of activations a stage holds at once under these slots: [pp].
[[nodiscard]] std::vector<std::int64_t> inFlight(const SlotTable& slots);
/// (pp - 1) / (M + pp - 1) of GPipe and 1F1B with equal stages.
[[nodiscard]] double closedFormBubble(std::int64_t pp, std::int64_t num_microbatches);

}  // namespace piper
