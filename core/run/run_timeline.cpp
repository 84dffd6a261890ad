// SPDX-License-Identifier: Apache-2.0
// A timeline over a run that lies in memory.
#include <algorithm>
#include <map>
#include <tuple>

#include "core/run/rank_clock.h"
#include "core/run/sub_lanes.h"
#include "core/run/timeline_blocks.h"

namespace piper {
namespace {

class RunTimeline final : public TimelineSource {
public:
    explicit RunTimeline(const Run& run) {
        m_header = run;
        for (std::size_t r = 0; r < m_header.ranks.size(); ++r) takeEvents(r);
        for (const RankTimeline& rank : m_header.ranks) m_memory.emplace_back(rank);
        setSteps(stepWindows(run));
    }

    Result<TimelineView> view(TimeWindow window, std::int64_t pixel_ns) override;
    Result<std::vector<SelectionTotal>> totals(TimeWindow window,
                                               std::span<const std::size_t> rows) override;
    Result<std::optional<FoundEvent>> find(const EventQuery& query) override;

private:
    void takeEvents(std::size_t index);
    /// The events of a row that touch the window: rows do not overlap, so ends are sorted too.
    [[nodiscard]] std::span<const Event> eventsIn(std::size_t row, TimeWindow window) const;

    std::vector<std::vector<Event>> m_events;  ///< [row] on the common clock, by start
};

void RunTimeline::takeEvents(std::size_t index) {
    RankTimeline& rank = m_header.ranks[index];
    const RankClock clock(rank);
    assignSubLanes(rank);
    std::map<std::tuple<Lane, std::int32_t, std::uint16_t>, std::vector<Event>> rows;
    for (Event& e : rank.events) {
        e.start_ns = clock.toCommon(e.start_ns);
        m_extent.begin_ns = std::min(m_extent.begin_ns, e.start_ns);
        m_extent.end_ns = std::max(m_extent.end_ns, e.end_ns());
        rows[{e.lane, e.track, e.sub_lane}].push_back(e);
    }
    rank.events = {};
    for (auto& [key, events] : rows) {
        std::stable_sort(events.begin(), events.end(), startsBeforeOrLonger);
        m_rows.push_back(
            {index, std::get<0>(key), std::get<1>(key), std::get<2>(key), std::ssize(events)});
        m_events.push_back(std::move(events));
    }
}

std::span<const Event> RunTimeline::eventsIn(std::size_t row, TimeWindow window) const {
    const std::vector<Event>& events = m_events[row];
    auto first = std::partition_point(events.begin(), events.end(),
                                      [&](const Event& e) { return e.end_ns() < window.begin_ns; });
    auto last = std::partition_point(first, events.end(),
                                     [&](const Event& e) { return e.start_ns < window.end_ns; });
    while (first != last && !touches(*first, window)) ++first;
    return {first, last};
}

Result<TimelineView> RunTimeline::view(TimeWindow window, std::int64_t pixel_ns) {
    TimelineView out{window, pixel_ns, {}, {}};
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        BlockMerger merger(pixel_ns, out.blocks);
        for (const Event& e : eventsIn(row, window))
            if (touches(e, window)) merger.add(e);
        out.row_ends.push_back(out.blocks.size());
    }
    return out;
}

Result<std::vector<SelectionTotal>> RunTimeline::totals(TimeWindow window,
                                                        std::span<const std::size_t> rows) {
    SelectionSums sums;
    for (const std::size_t row : rows)
        for (const Event& e : eventsIn(row, window)) sums.add(m_rows[row].rank, e, window);
    return sums.take(m_header);
}

Result<std::optional<FoundEvent>> RunTimeline::find(const EventQuery& query) {
    LabelMatcher matcher(m_header, query.text);
    std::optional<FoundEvent> best;
    const auto look = [&](std::size_t row) {
        const std::span<const Event> events = eventsIn(row, query.window);
        for (std::size_t i = 0; i < events.size(); ++i) {
            const Event& e = query.forward ? events[i] : events[events.size() - 1 - i];
            if (isBeaten(query, best, e.start_ns)) return;
            if (!isWanted(query, e) || !matcher.matches(m_rows[row].rank, labelOf(e))) continue;
            best = FoundEvent{row, e};
            return;
        }
    };
    if (query.rows.empty())
        for (std::size_t row = 0; row < m_rows.size(); ++row) look(row);
    else
        for (const std::size_t row : query.rows) look(row);
    return best;
}

}  // namespace

std::shared_ptr<TimelineSource> makeRunTimeline(const Run& run) {
    return std::make_shared<RunTimeline>(run);
}

}  // namespace piper
