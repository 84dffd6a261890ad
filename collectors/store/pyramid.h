// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// A part of one row of a timeline, summed up so that any zoom costs about as much as its pixels.
///
/// Level L has buckets of kBaseBucketNs * 4^L. An event counts in the bucket of its start, its time
/// in every bucket that it covers; the longest event that touches a bucket stands for it. Only
/// buckets with something in them are there.
struct Bucket {
    std::int64_t index = 0;       ///< begins at index * width
    std::int64_t count = 0;       ///< events that start in it
    std::int64_t busy_ns = 0;     ///< at most its width where events of a row do not overlap
    std::int64_t longest_ns = 0;  ///< of the events that touch it
    std::int32_t name = -1;       ///< of the longest
    Phase phase = Phase::Idle;    ///< of the longest
    EventCategory category = EventCategory::Operation;  ///< of the longest
    bool operator==(const Bucket&) const = default;
};

inline constexpr std::int64_t kBaseBucketNs = 4096;
inline constexpr int kMostLevels = 16;  ///< the widest bucket is over an hour

[[nodiscard]] constexpr std::int64_t bucketWidth(int level) {
    return kBaseBucketNs << (2 * level);
}

/// The levels over the events of one row, sorted by start: from the finest that is cheaper to read
/// than the events to the coarsest there is. None for a row of few events.
struct Level {
    int level = 0;
    std::vector<Bucket> buckets;  ///< by index
};
[[nodiscard]] std::vector<Level> buildLevels(std::span<const Event> events);

/// Blobs as those of chunks (collectors/store/chunks.h).
[[nodiscard]] std::string encodeBuckets(std::span<const Bucket> buckets);
struct CodeTables;
[[nodiscard]] bool decodeBuckets(std::string_view blob, std::size_t count, const CodeTables& codes,
                                 std::vector<Bucket>& out);

}  // namespace piper
