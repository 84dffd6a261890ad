// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <map>

#include "core/base/enum_text.h"
#include "ui/timeline/timeline_source.h"

namespace piper::ui {
namespace {

/// Events of one row, sorted by start and not overlapping.
struct RowEvents {
    std::vector<Event> events;
};

class RunTimelineSource final : public TimelineSource {
public:
    explicit RunTimelineSource(const Run& run) {
        for (std::size_t r = 0; r < run.ranks.size(); ++r) addRank(r, run.ranks[r]);
        if (m_extent.end_ns <= m_extent.begin_ns) m_extent = {0, 1'000'000};
        collectSteps(run);
    }

    const std::vector<TimelineRow>& rows() const override { return m_rows; }
    std::string rankLabel(std::size_t rank) const override { return m_labels[rank]; }
    std::string rankHost(std::size_t rank) const override { return m_hosts[rank]; }
    TimelineSpan extent() const override { return m_extent; }
    const std::vector<TimelineSpan>& steps() const override { return m_steps; }
    std::int64_t numEvents() const override { return m_num_events; }

    Event event(std::size_t row, std::int64_t id) const override {
        return m_events[row].events[static_cast<std::size_t>(id)];
    }

    void visit(std::size_t row, TimelineSpan span, std::int64_t merge_ns,
               const std::function<void(const TimelineBlock&)>& draw) const override;

private:
    void addRank(std::size_t index, const RankTimeline& rank);
    void addLane(std::size_t index, Lane lane, std::vector<Event> events);
    void collectSteps(const Run& run);

    std::vector<TimelineRow> m_rows;
    std::vector<RowEvents> m_events;  ///< [rows]
    std::vector<std::string> m_labels;
    std::vector<std::string> m_hosts;
    std::vector<TimelineSpan> m_steps;
    TimelineSpan m_extent{INT64_MAX, INT64_MIN};
    std::int64_t m_num_events = 0;
};

void RunTimelineSource::addRank(std::size_t index, const RankTimeline& rank) {
    std::string label = fmt::format("rank {}", rank.rank.value);
    if (rank.stage.valid()) label += fmt::format(" · stage {}", rank.stage.value);
    m_labels.push_back(std::move(label));
    m_hosts.push_back(rank.host);

    std::map<Lane, std::vector<Event>> lanes;
    for (Event event : rank.events) {
        event.start_ns += rank.offset_ns;
        lanes[event.lane].push_back(event);
        m_extent.begin_ns = std::min(m_extent.begin_ns, event.start_ns);
        m_extent.end_ns = std::max(m_extent.end_ns, event.end_ns());
        ++m_num_events;
    }
    for (auto& [lane, events] : lanes) addLane(index, lane, std::move(events));
}

/// Events that overlap on one lane go to sub-lanes: first row that is free, as in a calendar.
void RunTimelineSource::addLane(std::size_t index, Lane lane, std::vector<Event> events) {
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
    });
    std::vector<std::size_t> sub_rows;
    for (const Event& event : events) {
        auto free = std::find_if(sub_rows.begin(), sub_rows.end(), [&](std::size_t row) {
            return m_events[row].events.back().end_ns() <= event.start_ns;
        });
        if (free == sub_rows.end()) {
            const int sub = static_cast<int>(sub_rows.size());
            std::string label(toText(lane));
            if (sub > 0) label += fmt::format(" {}", sub + 1);
            m_rows.push_back({index, lane, sub, std::move(label)});
            m_events.emplace_back();
            sub_rows.push_back(m_rows.size() - 1);
            free = sub_rows.end() - 1;
        }
        m_events[*free].events.push_back(event);
    }
}

void RunTimelineSource::collectSteps(const Run& run) {
    std::map<std::int32_t, TimelineSpan> steps;
    const auto widen = [&](std::int32_t step, std::int64_t begin, std::int64_t end) {
        const auto [it, fresh] = steps.try_emplace(step, TimelineSpan{begin, end});
        if (fresh) return;
        it->second.begin_ns = std::min(it->second.begin_ns, begin);
        it->second.end_ns = std::max(it->second.end_ns, end);
    };
    for (const RankTimeline& rank : run.ranks)
        for (const Event& event : rank.events)
            widen(event.step, event.start_ns + rank.offset_ns, event.end_ns() + rank.offset_ns);
    for (const auto& [step, span] : steps) m_steps.push_back(span);
    if (m_steps.empty()) m_steps.push_back(m_extent);
}

void RunTimelineSource::visit(std::size_t row, TimelineSpan span, std::int64_t merge_ns,
                              const std::function<void(const TimelineBlock&)>& draw) const {
    const std::vector<Event>& events = m_events[row].events;
    // Rows do not overlap, so the ends are sorted too.
    auto it = std::partition_point(events.begin(), events.end(),
                                   [&](const Event& e) { return e.end_ns() < span.begin_ns; });
    TimelineBlock block;
    std::int64_t longest = -1;
    const auto flush = [&] {
        if (longest >= 0) draw(block);
        longest = -1;
    };
    for (; it != events.end() && it->start_ns <= span.end_ns; ++it) {
        const bool narrow = it->duration_ns < merge_ns;
        const bool joins = longest >= 0 && narrow && longest < merge_ns &&
                           it->start_ns - block.end_ns < merge_ns &&
                           it->end_ns() - block.begin_ns < 2 * merge_ns;
        if (!joins) {
            flush();
            block = {it->start_ns, it->end_ns(), it->phase, it->pass, it - events.begin(), 0};
        }
        if (it->duration_ns > longest) {
            longest = it->duration_ns;
            block.phase = it->phase;
            block.pass = it->pass;
            block.event = it - events.begin();
        }
        block.end_ns = std::max(block.end_ns, it->end_ns());
        ++block.count;
    }
    flush();
}

}  // namespace

std::shared_ptr<const TimelineSource> makeRunTimelineSource(const Run& run) {
    return std::make_shared<RunTimelineSource>(run);
}

std::string dumpTimeline(const TimelineSource& source) {
    std::string out;
    for (std::size_t row = 0; row < source.rows().size(); ++row) {
        std::int64_t count = 0, busy = 0;
        source.visit(row, source.extent(), 0, [&](const TimelineBlock& block) {
            count += block.count;
            busy += block.end_ns - block.begin_ns;
        });
        const TimelineRow& info = source.rows()[row];
        out += fmt::format("{} | {} | {} events | {} ns busy\n", source.rankLabel(info.rank),
                           info.label, count, busy);
    }
    return out;
}

}  // namespace piper::ui
