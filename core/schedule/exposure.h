// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/cost/cost.h"
#include "core/schedule/expand.h"
#include "core/schedule/host.h"

namespace piper {

// Concept: an operation on a communication lane holds up what depends on it. Where the plan's
// overlap lets a framework run it beside compute in slices, only a share of its time does: what is
// longer than that compute, the first or last slice, and what the running collective takes from
// the compute it hides behind. The schedule's order stays as it is; the share shortens the
// operation on its lane.

/// Which share of an operation's time its lane is held up. Asks costs by key, holds all by
/// reference.
class Exposure {
public:
    Exposure(WorkTable& work, const CostModel& cost);

    /// 1 for what nothing hides; never 0 for an exchange. Above 1 for compute in a long run and
    /// where the host issues the operation slower than the device runs it (host.h), and for what
    /// waits for a copy from or to host memory.
    [[nodiscard]] double share(const OperationKey& key, StageId stage);
    /// share() holds a copy over the host's link, whose rates are assumed.
    [[nodiscard]] bool waitsForHostMemory(const OperationKey& key, StageId stage);

private:
    [[nodiscard]] double busyShare(const OperationKey& key, StageId stage);
    [[nodiscard]] double computeShare(const OperationKey& key, StageId stage);
    [[nodiscard]] double hiddenShare(const OperationKey& key, StageId stage);
    [[nodiscard]] Seconds parameterUpload(StageId stage) const;
    [[nodiscard]] Bytes keptBytes(LayerKind layer, bool attention, StageId stage) const;
    [[nodiscard]] Seconds offloadTime(const OperationKey& key, StageId stage) const;
    [[nodiscard]] Seconds seconds(const OperationKey& key, StageId stage);
    [[nodiscard]] Seconds computeOf(LayerKind layer, OperationKind kind, bool with_experts,
                                    StageId stage);
    /// Compute of one micro-batch through all layers of the stage.
    [[nodiscard]] Seconds stagePass(bool backward, StageId stage);
    [[nodiscard]] double tensorShare(const OperationKey& key, StageId stage);
    [[nodiscard]] double contextShare(const OperationKey& key, StageId stage);
    [[nodiscard]] double expertShare(const OperationKey& key, StageId stage);
    [[nodiscard]] double dataShare(const OperationKey& key, StageId stage);

    WorkTable& m_work;
    const Plan& m_plan;
    const CostModel& m_cost;
    Overlap m_overlap;
    RunFactors m_run_factors;
    double m_attention_factor;
    std::unordered_map<std::uint64_t, Seconds> m_known;
};

}  // namespace piper
