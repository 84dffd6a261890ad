// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/cluster/cluster.h"
#include "core/cost/communication.h"
#include "core/plan/plan.h"

namespace piper {

/// Between a device and its host, as copies reach it: the link in one direction, and the device's
/// share of the node's host memory. Of a CPU: nothing, its memory is the host's.
/// Source: docs/formulas.md, "Offload"; MI250X published, the others assumed.
struct HostLink {
    BytesPerSecond link, memory;
};
[[nodiscard]] HostLink hostLink(const DeviceSpec& device);

/// The optimizer's step of `parameters` elements on the host: gradients come down and weights go up
/// beside the CPU's pass over the state, the slower of the two.
[[nodiscard]] Cost hostOptimizer(const Plan& plan, double parameters);

/// One direction of the link. 0 without one.
[[nodiscard]] Seconds hostCopy(const DeviceSpec& device, Bytes bytes);

}  // namespace piper
