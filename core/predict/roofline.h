// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/evidence.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"

namespace piper {

/// One kind of GEMM of a plan against what its device could do with it.
struct GemmRoof {
    OperationKey key;
    GemmWork work;
    Flops flops;          ///< of one call
    Bytes bytes;          ///< A, B and C once, as they are stored
    Seconds time;         ///< of one call
    FlopsPerSecond rate;  ///< flops over time
    FlopsPerSecond peak;  ///< dense, of the call's precision
    FlopsPerSecond roof;  ///< the lower of peak and intensity times memory bandwidth
    Evidence evidence;    ///< of the time
    [[nodiscard]] double intensity() const { return flops.value / bytes.value; }  ///< FLOP/byte
    [[nodiscard]] bool memoryBound() const { return roof < peak; }
};

/// One kind of message of a plan against what its links could do with it.
struct LinkRoof {
    OperationKey key;
    std::string dimension;  ///< group: "ep", "tp", "dp", ...
    CollectiveKind kind = CollectiveKind::AllToAll;
    std::int64_t ranks = 1, nodes = 1;
    Bytes bytes;          ///< one call hands to the transport for other ranks, mean over ranks
    Seconds time;         ///< of one call
    BytesPerSecond rate;  ///< bytes over time
    BytesPerSecond roof;  ///< the same at the rate that the cluster states for the links
    std::string level;    ///< the link level that sets the roof
    Evidence evidence;    ///< of the time
};

struct Roofline {
    FlopsPerSecond peak;              ///< of the plan's main precision
    BytesPerSecond memory_bandwidth;  ///< of the device
    std::vector<GemmRoof> gemms;      ///< in the order of a layer; equal calls once
    std::vector<LinkRoof> links;
};

/// Every GEMM and every kind of message of one step with the times of the cost model.
/// Source: Williams et al., Roofline (CACM 52(4), 2009); roofs of links: core/cost/roof.h.
/// Errors: RuleBroken for a plan that cannot run; those of peakFor and collectiveRoof.
[[nodiscard]] Result<Roofline> roofline(const Plan& plan);

}  // namespace piper
