// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// The rows that overlapping events of one track stand on.
class SubLanes {
public:
    /// The first row that is free. Events come by their start and, of equal start, the longest
    /// first, so that nested ranges take one row a depth. More than 1024 rows no view shows: what
    /// would need one is put on the last.
    [[nodiscard]] std::uint16_t rowFor(const Event& event);

private:
    std::vector<std::int64_t> m_ends;  ///< [row] of its last event
};

/// The order that SubLanes takes events in.
[[nodiscard]] inline bool startsBeforeOrLonger(const Event& a, const Event& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
}

/// Gives every event of a rank its row (Event::sub_lane); records without length are on kMarkRow.
void assignSubLanes(RankTimeline& rank);

}  // namespace piper
