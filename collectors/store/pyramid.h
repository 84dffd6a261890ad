// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/timeline_blocks.h"

namespace piper {

struct CodeTables;

/// A part of one row of a timeline, summed up so that any zoom costs about as much as its pixels.
///
/// Level L has buckets of kBaseBucketNs * 2^L. An event counts in the bucket of its start, its time
/// in every bucket that it covers; the longest event that touches a bucket stands for it. Only
/// buckets with something in them are there.
struct Bucket {
    std::int64_t index = 0;       ///< begins at index * width
    std::int64_t count = 0;       ///< events that start in it
    std::int64_t busy_ns = 0;     ///< at most its width where events of a row do not overlap
    std::int64_t longest_ns = 0;  ///< of the events that touch it
    EventLabel label;             ///< of the longest
    bool operator==(const Bucket&) const = default;
};

inline constexpr std::int64_t kBaseBucketNs = 256;
inline constexpr int kMostLevels = 36;  ///< the widest bucket is over two hours

[[nodiscard]] constexpr std::int64_t bucketWidth(int level) {
    return kBaseBucketNs << level;
}

/// The levels over the events of one row, sorted by start: those that have clearly fewer buckets
/// than the level below has, or than there are events. A window is read from the coarsest level
/// that is fine enough. None for a row of few events.
struct Level {
    int level = 0;
    std::vector<Bucket> buckets;  ///< by index
};
[[nodiscard]] std::vector<Level> buildLevels(std::span<const Event> events);

using LabelSums = std::vector<std::pair<EventLabel, SelectionSums::Sum>>;

/// Sums by label over successive events of one row: those of whole segments make up a selection,
/// events are read at its borders alone.
struct Segment {
    std::int64_t begin_ns = 0;  ///< first start; events that start before that of the next segment
    std::int64_t end_ns = 0;    ///< last end
    LabelSums sums;             ///< by label; more than a blob holds where they begin at one time
};
/// Segments of some thousand events, sorted by start; no two begin at the same time.
[[nodiscard]] std::vector<Segment> buildSegments(std::span<const Event> events);

/// Blobs as those of chunks (collectors/store/chunks.h).
[[nodiscard]] std::string encodeBuckets(std::span<const Bucket> buckets);
[[nodiscard]] bool decodeBuckets(std::string_view blob, std::size_t count, const CodeTables& codes,
                                 std::vector<Bucket>& out);
[[nodiscard]] std::string encodeSums(std::span<const LabelSums::value_type> sums);
[[nodiscard]] bool decodeSums(std::string_view blob, std::size_t count, const CodeTables& codes,
                              LabelSums& out);

}  // namespace piper
