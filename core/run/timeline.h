// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/memory_curve.h"
#include "core/run/run.h"
#include "core/run/step_windows.h"

namespace piper {

/// A stretch of time [begin_ns, end_ns).
struct TimeWindow {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    [[nodiscard]] std::int64_t length() const { return end_ns - begin_ns; }
    [[nodiscard]] bool contains(std::int64_t ns) const { return ns >= begin_ns && ns < end_ns; }
    bool operator==(const TimeWindow&) const = default;
};

/// True when the event has a part of the window, or stands at a moment in it.
template <class Timed>
[[nodiscard]] bool touches(const Timed& e, TimeWindow window) {
    if (e.duration_ns <= 0) return window.contains(e.start_ns);
    return e.start_ns < window.end_ns && e.start_ns + e.duration_ns > window.begin_ns;
}

/// What an event is called: its own name, or what the plan calls it.
struct EventLabel {
    std::int32_t name = -1;  ///< index in RankTimeline::names
    EventCategory category = EventCategory::Operation;
    Phase phase = Phase::Idle;
    OperationKind kind = OperationKind::Forward;
    Pass pass = Pass::Forward;
    auto operator<=>(const EventLabel&) const = default;
};
template <class Labelled>
[[nodiscard]] EventLabel labelOf(const Labelled& e) {
    return {e.name, e.category, e.phase, e.kind, e.pass};
}
/// Its own name, else "expert input grad", "dispatch backward", "optimizer".
[[nodiscard]] std::string labelText(const EventLabel& label, const RankTimeline& rank);

/// A row of a timeline: a lane or a track of a rank, or one of several rows of it where its events
/// overlap.
struct TimelineRow {
    std::size_t rank = 0;  ///< index in header().ranks
    Lane lane = Lane::Compute;
    std::int32_t track = -1;  ///< index in RankTimeline::tracks
    std::uint16_t sub_lane = 0;
    std::int64_t events = 0;
    bool operator==(const TimelineRow&) const = default;
};
/// "compute", "ep 2", "stream 7".
[[nodiscard]] std::string rowText(const TimelineRow& row, const RankTimeline& rank);

/// One event, or several that are each narrower than a pixel. Times are on the common clock, that
/// of rank 0.
struct TimelineBlock {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;      ///< not before begin_ns
    std::int64_t busy_ns = 0;     ///< of its length
    std::int64_t longest_ns = 0;  ///< duration of the longest event that touches it
    EventLabel label;             ///< of the longest
    std::int32_t count = 0;       ///< events; one that began in an earlier block counts there
    MicroBatchId micro_batch;     ///< of a single event
};

/// What a window shows: every event that touches it is in a block of its row.
struct TimelineView {
    TimeWindow window;
    std::int64_t pixel_ns = 1;
    std::vector<TimelineBlock> blocks;  ///< row after row, each by time
    std::vector<std::size_t> row_ends;  ///< [row of the source] end of its blocks

    [[nodiscard]] std::span<const TimelineBlock> row(std::size_t i) const {
        const std::size_t begin = i == 0 ? 0 : row_ends[i - 1];
        return std::span(blocks).subspan(begin, row_ends[i] - begin);
    }
};

/// Sum over the events of one label that touch a selection.
struct SelectionTotal {
    std::string name;  ///< labelText()
    EventLabel label;  ///< of the first rank that has it
    std::int64_t count = 0;
    std::int64_t sum_ns = 0;      ///< of the parts inside the selection
    std::int64_t longest_ns = 0;  ///< whole duration
};

/// Which event is looked for.
struct EventQuery {
    TimeWindow window;              ///< it touches this
    bool begins_in_window = false;  ///< and begins in it
    bool forward = true;            ///< the first by start, else the last
    std::string text;               ///< part of its name in any case; empty: any
    std::int64_t least_ns = 0;      ///< at least this long
    std::vector<std::size_t> rows;  ///< on one of these; empty: on any
};
struct FoundEvent {
    std::size_t row = 0;
    Event event;  ///< times on the common clock
};

/// A run as rows of time, whether it lies in memory or in a file: what the timeline page draws.
/// Ranks' clocks are applied here (RankClock). Calls may read a file: one thread at a time, and
/// not the window's. Rows are sorted by rank, lane, track and sub-lane.
class TimelineSource {
public:
    virtual ~TimelineSource() = default;
    /// The run without its events; ranks have names and tracks.
    [[nodiscard]] const Run& header() const { return m_header; }
    [[nodiscard]] const std::vector<TimelineRow>& rows() const { return m_rows; }
    [[nodiscard]] TimeWindow extent() const { return m_extent; }
    /// In order; at least one.
    [[nodiscard]] const std::vector<TimeWindow>& steps() const { return m_steps; }
    /// What each rank holds over time: [rank of the header] where the run lies in memory, else
    /// empty; readMemory() gives those of a file.
    [[nodiscard]] const std::vector<MemoryCurve>& memory() const { return m_memory; }
    /// No more than some blocks a pixel and row. Errors: those of reading.
    [[nodiscard]] virtual Result<TimelineView> view(TimeWindow window, std::int64_t pixel_ns) = 0;
    /// By label over `rows`, most time first. Exact at any size of the window.
    [[nodiscard]] virtual Result<std::vector<SelectionTotal>> totals(
        TimeWindow window, std::span<const std::size_t> rows) = 0;
    [[nodiscard]] virtual Result<std::optional<FoundEvent>> find(const EventQuery& query) = 0;
    /// The same of one rank, by its index in the header; empty where it recorded none.
    [[nodiscard]] virtual Result<MemoryCurve> readMemory(std::size_t rank) {
        return m_memory[rank];
    }
    /// What of the run could not be read so far, one sentence each; the calls above go on without
    /// it. By the thread that makes them.
    [[nodiscard]] virtual std::vector<std::string> damage() const { return {}; }

protected:
    /// On the common clock from those of each rank of the header, from the first begin to the last
    /// end; the whole extent without any. Called once the extent is known.
    void setSteps(const std::vector<StepWindows>& ranks);

    Run m_header;
    std::vector<TimelineRow> m_rows;
    std::vector<MemoryCurve> m_memory;
    TimeWindow m_extent{INT64_MAX, INT64_MIN};  ///< of no event

private:
    std::vector<TimeWindow> m_steps;
};

/// Over a run in memory; it need not outlive the source.
[[nodiscard]] std::shared_ptr<TimelineSource> makeRunTimeline(const Run& run);

/// Every row with its events and busy time, one a line: for tests and for copying.
[[nodiscard]] Result<std::string> dumpTimeline(TimelineSource& source);

}  // namespace piper
