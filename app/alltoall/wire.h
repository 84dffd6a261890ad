// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper::app {

/// What left over all interfaces of this network namespace but the loopback, since it was made.
struct WireCounters {
    std::int64_t sent_bytes = 0;
    std::int64_t sent_again = 0;  ///< TCP segments
    WireCounters& operator+=(const WireCounters& other);
    WireCounters operator-(const WireCounters& other) const;
};

/// Reads /proc/net; zeros where it cannot be read.
[[nodiscard]] WireCounters readWire();

}  // namespace piper::app
