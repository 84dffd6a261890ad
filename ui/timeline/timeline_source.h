// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run/run.h"

namespace piper::ui {

/// One horizontal strip of a timeline: a lane of a rank, or one sub-lane of it where events of a
/// lane overlap in time.
struct TimelineRow {
    std::size_t rank = 0;  ///< index in Run::ranks
    Lane lane = Lane::Compute;
    int sub_lane = 0;
    std::string label;  ///< "ep", "compute", "ep 2"
};

/// What is drawn: one event, or several merged because each is narrower than a pixel.
struct TimelineBlock {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    Phase phase = Phase::Idle;  ///< of the longest event inside
    Pass pass = Pass::Forward;
    std::int64_t event = -1;  ///< of that event: an argument for event()
    std::int64_t count = 1;
};

struct TimelineSpan {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
    [[nodiscard]] std::int64_t length() const { return end_ns - begin_ns; }
};

/// Where the canvas gets its rows and blocks. A source over a workspace file's pyramid answers the
/// same questions without holding the events. Immutable: read from any thread.
class TimelineSource {
public:
    virtual ~TimelineSource() = default;
    [[nodiscard]] virtual const std::vector<TimelineRow>& rows() const = 0;
    /// "rank 3 · stage 1".
    [[nodiscard]] virtual std::string rankLabel(std::size_t rank) const = 0;
    /// Where it ran, empty for a modelled rank.
    [[nodiscard]] virtual std::string rankHost(std::size_t rank) const = 0;
    [[nodiscard]] virtual TimelineSpan extent() const = 0;
    /// Steps of the run, in order; at least one.
    [[nodiscard]] virtual const std::vector<TimelineSpan>& steps() const = 0;
    /// Blocks of a row that touch [span), left to right. Every event of the span is inside one:
    /// events closer together than `merge_ns` and shorter than it may share a block, none is
    /// dropped.
    virtual void visit(std::size_t row, TimelineSpan span, std::int64_t merge_ns,
                       const std::function<void(const TimelineBlock&)>& draw) const = 0;
    /// The event behind a block, with times on the common clock.
    [[nodiscard]] virtual Event event(std::size_t row, std::int64_t id) const = 0;
    [[nodiscard]] virtual std::int64_t numEvents() const = 0;
};

/// A source over a run in memory. Rank offsets are applied here.
[[nodiscard]] std::shared_ptr<const TimelineSource> makeRunTimelineSource(const Run& run);

/// Every row with its number of events and busy time, one a line: for tests and for copying.
[[nodiscard]] std::string dumpTimeline(const TimelineSource& source);

/// Lines of the hover text: operation, layer, micro-batch, start, duration, bytes, FLOPs.
[[nodiscard]] std::vector<std::string> describeEvent(const Event& event);
/// "dispatch" / "expert input grad": what the block is called when it is wide enough.
[[nodiscard]] std::string eventName(const Event& event);

}  // namespace piper::ui
