// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/schedule/schedule.h"
#include "core/schedule/slot_form.h"

namespace piper {

/// The operations of one slot, with ids and dependencies local to the slot. Every dependency stays
/// inside the slot: what crosses slots goes through the lanes' order and through Receive, so a
/// slot's time is a function of when its lanes get free (core/schedule/lane_matrix.h). Operations
/// of a pair's second slot have micro-batch 1, all others none.
struct SlotTemplate {
    std::vector<Operation> operations;
    std::vector<MemoryChange> memory;  ///< sorted by operation, start before end
    bool blocking_messages = false;    ///< compute waits for sends
};

/// 0, or 1 for operations of the second slot of a pair.
[[nodiscard]] inline std::size_t memberOf(const Operation& op) {
    return op.micro_batch.value == 1 ? 1 : 0;
}

class ActivationShares;

/// An operation key and a stage (-1 for all) as one number.
[[nodiscard]] constexpr std::uint64_t packed(const OperationKey& key, std::int32_t stage) {
    std::uint64_t out = static_cast<std::uint64_t>(key.kind);
    out = out * 16 + static_cast<std::uint64_t>(key.phase);
    out = out * 4 + static_cast<std::uint64_t>(key.pass);
    out = out * 4 + static_cast<std::uint64_t>(key.layer);
    out = out * 2 + (key.shared_expert ? 1 : 0);
    return out | static_cast<std::uint64_t>(stage + 1) << 32U;
}

/// Work by operation key, computed once: it depends on the stage only at the end of the step.
class WorkTable {
public:
    explicit WorkTable(const Plan& plan);
    ~WorkTable();
    WorkTable(const WorkTable&) = delete;
    WorkTable& operator=(const WorkTable&) = delete;

    [[nodiscard]] const OperationWork& of(const OperationKey& key, StageId stage);
    [[nodiscard]] const ActivationShares& activations(StageId stage);
    [[nodiscard]] const Plan& plan() const { return m_plan; }

private:
    const Plan& m_plan;
    std::unordered_map<std::uint64_t, OperationWork> m_known;
    std::unordered_map<std::int32_t, std::unique_ptr<ActivationShares>> m_activations;
};

/// True for keys whose work depends on the stage: gradient reduction, optimizer, and all under a
/// routing load that may differ by layer.
[[nodiscard]] bool isStageWork(const Plan& plan, const OperationKey& key);

/// Where a stage chunk stands in the model.
struct ChunkPlace {
    LayerRange layers;
    bool first = false;                      ///< owns the embedding
    bool last = false;                       ///< owns the head and the loss
    StageId before, after;                   ///< invalid at the ends
    ModelChunkId chunk_before, chunk_after;  ///< model chunk number on those stages
};
[[nodiscard]] ChunkPlace chunkPlace(const Plan& plan, StageId stage, ModelChunkId chunk);

/// Expands the slots of one stage of a plan. Holds plan and table by reference.
class StageExpander {
public:
    StageExpander(WorkTable& work, StageId stage) : m_work(work), m_stage(stage) {}

    /// One slot, or a pair with its operations in turns: either side goes on while the other waits
    /// for an exchange.
    [[nodiscard]] SlotTemplate slot(const SlotForm& form) const;
    /// Gradient reduction, optimizer and parameter gathering at the end of the step.
    [[nodiscard]] SlotTemplate tail() const;
    /// A slot of any part of the model, as if a chunk stood at `place`. Messages to and from the
    /// own stage are hand-overs.
    [[nodiscard]] SlotTemplate part(Slot::Kind kind, ModelChunkId chunk,
                                    const ChunkPlace& place) const;

private:
    [[nodiscard]] SlotTemplate single(Slot::Kind kind, ModelChunkId chunk) const;

    WorkTable& m_work;
    StageId m_stage;
};

/// Who gives the next operation of a pair, 0 or 1: turns up to the next operation that computes
/// with what another lane brings; the second member begins. `waits` [operation] of either.
[[nodiscard]] std::vector<std::uint8_t> takeTurns(const std::vector<bool>& first_waits,
                                                  const std::vector<bool>& second_waits);

/// The operations of a forward and of a backward slot in turns, the backward first.
[[nodiscard]] SlotTemplate pairSlots(SlotTemplate forward, SlotTemplate backward);

/// True when that layer's forward is run again before its backward.
[[nodiscard]] bool isRecomputed(const Plan& plan, const LayerRange& range, std::int64_t layer);

}  // namespace piper
