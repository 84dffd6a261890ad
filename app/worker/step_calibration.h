// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/base/result.h"
#include "core/cluster/cluster.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Trains a small model for some steps, one replica a rank, and compares what its operations take
/// with what the cluster's curves say of their calls. Operations without communication alone: what
/// ranks wait for each other is the schedule's to say. Every rank of the world calls it; points of
/// rank 0. Errors: those of training (kernels/pipeline/training.h).
[[nodiscard]] Result<std::vector<OperationPoint>> calibrateSteps(Transport& transport,
                                                                 const ClusterSpec& cluster,
                                                                 bool quick);

}  // namespace piper
