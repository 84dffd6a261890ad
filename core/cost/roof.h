// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/cluster/cluster.h"
#include "core/plan/placement.h"

namespace piper {

/// nccl-tests' busbw over algbw: 2 (n-1)/n of an all-reduce, (n-1)/n of all-to-all, all-gather and
/// reduce-scatter, 1 of send and receive. algbw is the whole buffer of a rank over the time, both
/// are per device. Source: NVIDIA/nccl-tests doc/PERFORMANCE.md.
[[nodiscard]] double busFactor(CollectiveKind kind, std::int64_t ranks);

/// The most that a collective can reach on a cluster's links, by its buffer alone.
struct CollectiveRoof {
    BytesPerSecond algbw;
    BytesPerSecond busbw;
    std::string level;          ///< the link level that sets it
    double wire_share = 1.0;    ///< of algbw that crosses that level: (N-1)/N of an all-to-all
    BytesPerSecond per_device;  ///< what one device has of that level when all send
};

/// For `ranks` consecutive devices from the first on. An all-to-all over N nodes with one NIC a
/// device has algbw NIC * N / (N - 1): what stays in a node does not pass the NIC. NICs that
/// devices share stand in the level's bandwidth (a NIC for 8 devices: an eighth each).
/// Errors: InvalidInput for ranks outside 2 .. devices of the cluster, or links without a rate.
[[nodiscard]] Result<CollectiveRoof> collectiveRoof(const ClusterSpec& cluster, CollectiveKind kind,
                                                    std::int64_t ranks);

/// Of a group that lies that way on the cluster. Errors: InvalidInput for a group of one, or links
/// without a rate.
[[nodiscard]] Result<CollectiveRoof> collectiveRoof(const ClusterSpec& cluster, CollectiveKind kind,
                                                    const GroupSpread& spread);

/// What NIC counters show of a bandwidth that counts rows for the own node as well (DeepEP's and
/// UCCL-EP's printed figures): (N-1)/N of it.
[[nodiscard]] BytesPerSecond wireBandwidth(BytesPerSecond printed, std::int64_t nodes);

}  // namespace piper
