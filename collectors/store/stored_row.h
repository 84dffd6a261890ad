// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "collectors/store/chunks.h"
#include "collectors/store/database.h"

namespace piper {

/// A row of table row, or the same put together from its chunks where a run goes on.
struct StoredRow {
    std::int64_t id = 0;  ///< 0: no summary of it is stored
    std::int64_t source = 0;
    std::int64_t lane = 0, track = -1, sub_lane = 0;
    std::int64_t count = 0;
    std::int64_t begin_ns = 0, end_ns = 0;  ///< own clock
    std::int64_t span_ns = 0;               ///< longest from begin to end of a chunk; kNoChunks
    std::int64_t levels = 0;                ///< bit L: level L is stored

    /// Value of span_ns where a digest holds no events of the row.
    static constexpr std::int64_t kNoChunks = -1;
    [[nodiscard]] bool hasChunks() const { return span_ns != kNoChunks; }

    [[nodiscard]] std::array<std::int64_t, 9> numbers() const {
        return {source, lane, track, sub_lane, count, begin_ns, end_ns, span_ns, levels};
    }
    /// From the columns of kRowOfChunks.
    void takeRange(const sqlite::Statement& found) {
        count = found.integer(0);
        begin_ns = found.integer(1);
        end_ns = found.integer(2);
        span_ns = found.integer(3);
    }
    /// From all its events, sorted by start, of which no chunk is stored.
    void takeRange(std::span<const Event> events) {
        count = std::ssize(events);
        begin_ns = events.front().start_ns;
        end_ns = begin_ns;
        for (const Event& e : events) end_ns = std::max(end_ns, e.end_ns());
        span_ns = kNoChunks;
    }
};

/// True of the rows of a digest.
[[nodiscard]] inline bool lacksEvents(std::span<const StoredRow> rows) {
    return std::any_of(rows.begin(), rows.end(), [](const StoredRow& r) { return !r.hasChunks(); });
}

inline constexpr std::string_view kRowOfChunks =
    "SELECT sum(count), min(begin_ns), max(end_ns), max(end_ns-begin_ns), lane, track, sub_lane "
    "FROM chunk WHERE source_id=? AND stream=0";

}  // namespace piper
