// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"

namespace piper {

/// The operations of one slot, with ids and dependencies local to the slot. Every dependency stays
/// inside the slot: what crosses slots goes through the lanes' order and through Receive, so a
/// slot's time is a function of when its lanes get free (core/schedule/lane_matrix.h).
struct SlotTemplate {
    std::vector<Operation> operations;
    std::vector<MemoryChange> memory;  ///< sorted by operation, start before end
    bool blocking_messages = false;    ///< compute waits for sends
};

class ActivationShares;

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
    std::map<std::pair<OperationKey, std::int32_t>, OperationWork> m_known;
    std::map<std::int32_t, std::unique_ptr<ActivationShares>> m_activations;
};

/// True for keys whose work depends on the stage: gradient reduction, optimizer, and all under a
/// routing load that may differ by layer.
[[nodiscard]] bool isStageWork(const Plan& plan, const OperationKey& key);

/// Expands the slots of one stage of a plan. Holds plan and table by reference.
class StageExpander {
public:
    StageExpander(WorkTable& work, StageId stage) : m_work(work), m_stage(stage) {}

    /// One slot for micro-batch "none" of that model chunk.
    [[nodiscard]] SlotTemplate slot(Slot::Kind kind, ModelChunkId chunk) const;
    /// Gradient reduction, optimizer and parameter gathering at the end of the step.
    [[nodiscard]] SlotTemplate tail() const;

private:
    WorkTable& m_work;
    StageId m_stage;
};

/// Where a stage chunk stands in the model: virtual stage chunk * pp + stage of pp * vpp.
struct ChunkPlace {
    LayerRange layers;
    bool first = false;                      ///< owns the embedding
    bool last = false;                       ///< owns the head and the loss
    StageId before, after;                   ///< invalid at the ends
    ModelChunkId chunk_before, chunk_after;  ///< model chunk number on those stages
};
[[nodiscard]] ChunkPlace chunkPlace(const Plan& plan, StageId stage, ModelChunkId chunk);

/// True when that layer's forward is run again before its backward.
[[nodiscard]] bool isRecomputed(const Plan& plan, const LayerRange& range, std::int64_t layer);

}  // namespace piper
