// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/resources/shard.h"
#include "core/schedule/expand.h"

namespace piper {

/// Bytes of the tensors that our own worker (Framework::Plain, kernels/pipeline) holds besides the
/// activations it keeps: copies of rows on their way, and gradients. Of one micro-batch, those of
/// the routed experts of one chunk of it.
class WorkerTensors {
public:
    /// `imbalance`: rows of this rank's experts over the mean.
    WorkerTensors(const Plan& plan, double imbalance);

    Bytes stream;    ///< hidden state [t, H] of the tokens this rank holds
    Bytes gathered;  ///< the same of all tokens [T, H]; equal without sequence parallelism
    /// Rows it sends; rows that arrive here; rows its experts work on (more under etp).
    Bytes routed, received, worked;
    Bytes logits, weights;               ///< router: [t, E]; [t, k]
    Bytes expert_up, expert_activation;  ///< [R, 2F]; [R, F]
    Bytes mlp_up, mlp_activation, shared_up, shared_activation;
    Bytes attention_held, attention_peak;  ///< gradients within attention until its weight gradient
    Bytes expanded;                        ///< MLA: keys and values side by side while they are cut
    Bytes scores;           ///< without a fused kernel: the scores and their gradient
    bool by_token = false;  ///< a token moves once (node_dedup): no copies of rows by expert
    bool splits_rows = false, splits_sums = false;  ///< sp; tp without or with it
};

/// What a slot of our own worker holds besides what it keeps: changes for slotMemory, unsorted.
/// `layers`: of its model chunk.
[[nodiscard]] std::vector<MemoryChange> workerChanges(const Plan& plan,
                                                      const WorkerTensors& tensors,
                                                      const LayerRange& layers,
                                                      const std::vector<Operation>& operations);
/// The same of the end of a step.
[[nodiscard]] std::vector<MemoryChange> workerTailChanges(WorkTable& work, StageId stage,
                                                          const std::vector<Operation>& operations);

}  // namespace piper
