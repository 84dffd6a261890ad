// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper {

/// One well-mixed 64-bit number of a 64-bit counter (the finaliser of splitmix64).
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
[[nodiscard]] constexpr std::uint64_t mixBits(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
}

/// A key of two: folds b into a.
[[nodiscard]] constexpr std::uint64_t mixBits(std::uint64_t a, std::uint64_t b) {
    return mixBits(mixBits(a) ^ b);
}

}  // namespace piper
