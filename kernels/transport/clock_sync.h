// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/result.h"
#include "core/run/run.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Nanoseconds on this rank's own clock since its run started.
using ClockNs = std::function<std::int64_t()>;

/// Offset of this rank's clock against rank 0's: `pings` round trips with rank 0, the one with the
/// shortest round trip taken, rank 0's reading set at its middle. Collective over `world`.
/// Unit: rank 0 time = time + offset, true within half the round trip.
[[nodiscard]] Result<ClockSample> measureClockOffset(Communicator& world, const ClockNs& clock,
                                                     int pings = 20);

}  // namespace piper
