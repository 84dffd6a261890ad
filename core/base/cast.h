// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace piper {

/// A count as a factor of a formula; exact up to 2^53.
[[nodiscard]] constexpr double asDouble(std::int64_t v) {
    return static_cast<double>(v);
}

/// A count of a plan or model as an index; the caller knows that it is not negative.
[[nodiscard]] constexpr std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

}  // namespace piper
