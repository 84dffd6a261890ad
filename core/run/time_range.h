// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper {

/// Nanoseconds beyond this (as Unix time the year 2043) are no time of a file that can be right;
/// sums and differences of three that are within do not overflow.
inline constexpr std::int64_t kLargestTime = std::int64_t{1} << 61;

[[nodiscard]] constexpr bool inTimeRange(std::int64_t ns) {
    return ns >= -kLargestTime && ns <= kLargestTime;
}

}  // namespace piper
