// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/cluster/cluster.h"
#include "kernels/transport/transport.h"

namespace piper {

struct CollectiveBenchOptions {
    /// Bytes: per pair for all-to-all, of the message for point-to-point, else of the whole buffer.
    std::vector<std::int64_t> sizes = {256, 4096, 65536, 1 << 20, 4 << 20, 32 << 20};
    int repetitions = 15;
};

/// Times all-to-all, all-reduce, all-gather, reduce-scatter and point-to-point over one group;
/// every member calls it and gets the same points: the median over repetitions of the slowest
/// member's time. Contents are checked once per size before anything is timed. Errors: External
/// when a result is wrong.
[[nodiscard]] Result<std::vector<CollectivePoint>> benchCollectives(
    Communicator& group, const CollectiveBenchOptions& options);

}  // namespace piper
