// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/rank_clock.h"

namespace piper {

/// A collective kernel of one rank, on its own clock. Kernels of equal key are one collective when
/// all ranks compared have equally many of that key: name and step, and the order within.
struct CollectiveRecord {
    std::string key;
    std::int64_t start_ns = 0, end_ns = 0;
};

/// What the collectives say about one rank's clock.
struct AlignedRank {
    bool aligned = false;
    std::size_t reference = 0;         ///< the rank it was compared with, itself aligned before
    std::int64_t matched = 0;          ///< collectives both took part in
    std::int64_t consistent = 0;       ///< of them, those that the fit explains
    std::vector<ClockSample> samples;  ///< of the consistent ones, against the first rank's clock
    ClockFit fit;
};

/// Clocks of ranks by the collectives they share, as a graph walked breadth first: the first rank
/// is right, each other is set by the first aligned rank that it shares collectives with.
///
/// No member of a collective ends before the last one came, and all end within the time that the
/// last one took: the ends of two ranks are the same moment up to the shorter duration, which so is
/// the sample's round trip. A pair agrees when its two kernels overlap once the clocks are set;
/// members of different groups that run the same kernel do not, and a rank of which fewer than
/// half of the pairs (or fewer than three) agree is not aligned.
/// `first_offset_ns`: from the first rank's clock to that of the run.
[[nodiscard]] std::vector<AlignedRank> alignClocks(
    const std::vector<std::vector<CollectiveRecord>>& ranks, std::int64_t first_offset_ns);

}  // namespace piper
