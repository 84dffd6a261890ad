// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// Its own name, or "attention forward"; one word where phase and kind share it.
[[nodiscard]] std::string nameOf(const Event& event, const RankTimeline& rank);

/// The category as PyTorch's profiler writes it ("kernel", "gpu_memcpy", "cuda_runtime"); the phase
/// of an operation of our own.
[[nodiscard]] std::string_view categoryOf(const Event& event);

/// A named value of an event, for programs that show such.
struct EventArgument {
    std::string_view name;
    std::variant<std::int64_t, double, std::string_view> value;
};
/// Those that the event has: step, layer, ..., "External id" and "correlation" as PyTorch's
/// profiler names them, device and stream of its track.
[[nodiscard]] std::vector<EventArgument> argumentsOf(const Event& event, const RankTimeline& rank);

/// The name of the event's track or lane.
[[nodiscard]] std::string trackName(const Event& event, const RankTimeline& rank);

/// A row of a rank's timeline as other programs show it: a lane, a track, or a further row of one
/// whose events overlap without being nested.
struct ExportRow {
    std::int32_t id = 0;      ///< the lane's number, or from 100 on
    std::int32_t track = -1;  ///< of the rank; -1 for a lane
    std::string name;
};

/// The rows that a rank's events stand on.
class ExportRows {
public:
    explicit ExportRows(const RankTimeline& rank);
    [[nodiscard]] const ExportRow& of(const Event& event) const;
    [[nodiscard]] const std::vector<ExportRow>& all() const { return m_rows; }

private:
    using Key = std::tuple<Lane, std::int32_t, std::uint16_t>;
    [[nodiscard]] Key keyOf(const Event& event) const;

    const RankTimeline& m_rank;
    std::map<Key, std::size_t> m_row_of;
    std::vector<ExportRow> m_rows;
};

}  // namespace piper
