// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// What the launcher told one rank about the node it runs on.
struct NodeHint {
    std::string label;             ///< "piper:0", "slurm:3" or "host:node4"
    std::int64_t local_rank = -1;  ///< place among the ranks of its node, -1 not told
    std::int64_t local_size = -1;
};

using Environment = std::function<const char*(const char*)>;

/// Reads the hint of world rank `rank` from, in this order, PIPER_NODE (one number, or one per rank
/// "0,0,1,1": lets one machine play several), SLURM_NODEID, and the host name the launcher used
/// with Open MPI's local rank and size. Boot ids are never asked: namespaces share them.
/// Errors: InvalidInput for a PIPER_NODE that is no list of numbers or has no entry for the rank.
[[nodiscard]] Result<NodeHint> readNodeHint(std::int64_t rank, std::string_view host,
                                            const Environment& environment);

/// Node index of each rank, numbered by first appearance. Labels decide; where the launcher's local
/// sizes contradict host names (several nodes of one name), a local rank 0 starts a new node.
[[nodiscard]] std::vector<std::int64_t> nodeIndices(const std::vector<NodeHint>& hints);

/// True when a launcher of ours started this process: mpirun, srun with PMI or PMIx.
[[nodiscard]] bool launchedByMpi(const Environment& environment);

}  // namespace piper
