// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper {

/// Payload one rank of a group of `size` hands to others in a collective, whatever algorithm the
/// engine picks: the volume of the ring algorithm, which is optimal for large buffers and is what
/// the cost model counts too (docs/formulas.md).
/// Unit: bytes per rank, rounded to nearest; `bytes` is the rank's whole buffer.
[[nodiscard]] constexpr std::int64_t roundedShare(std::int64_t numerator, std::int64_t size) {
    return (numerator + size / 2) / size;
}

/// 2 (n - 1) / n * bytes: a reduce-scatter and an all-gather.
[[nodiscard]] constexpr std::int64_t allReducePayload(std::int64_t size, std::int64_t bytes) {
    return roundedShare(2 * (size - 1) * bytes, size);
}
/// (n - 1) / n of the gathered buffer: (n - 1) * the bytes of one rank's part.
[[nodiscard]] constexpr std::int64_t allGatherPayload(std::int64_t size, std::int64_t part_bytes) {
    return (size - 1) * part_bytes;
}
/// (n - 1) / n of the buffer to be reduced: (n - 1) * the bytes of one rank's part.
[[nodiscard]] constexpr std::int64_t reduceScatterPayload(std::int64_t size,
                                                          std::int64_t part_bytes) {
    return (size - 1) * part_bytes;
}
/// Counted at the root alone, once for every other rank.
[[nodiscard]] constexpr std::int64_t broadcastPayload(std::int64_t size, std::int64_t bytes) {
    return (size - 1) * bytes;
}

}  // namespace piper
