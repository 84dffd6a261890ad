// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/cluster/cluster.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Measures this machine with every rank of the world at once, as a run uses it: GEMM, attention
/// and memory on each rank, then collectives over all. Every rank returns the same cluster: one
/// node with as many devices as ranks. Errors: External when a checked result is wrong.
[[nodiscard]] Result<ClusterSpec> calibrateMachine(Transport& transport, bool quick,
                                                   const std::string& measured_at);

}  // namespace piper
