// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/trace_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "collectors/store/expect_writing.h"
#include "core/run/sub_lanes.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

constexpr std::string_view kStepPrefix = "ProfilerStep#";

std::string keyOf(std::string_view process, std::string_view thread) {
    return fmt::format("{}\x1f{}", process, thread);
}

/// The row of each event of one track, in the order of SubLanes.
void assignRowsOf(std::span<Event> events, std::int64_t& overlaps) {
    SubLanes rows;
    for (Event& e : events) {
        e.sub_lane = rows.rowFor(e);
        overlaps += e.sub_lane > 0 && isDeviceWork(e.category) ? 1 : 0;
    }
}

void sortUnlessSorted(std::span<Event> events) {
    if (!std::is_sorted(events.begin(), events.end(), startsBeforeOrLonger))
        std::stable_sort(events.begin(), events.end(), startsBeforeOrLonger);
}

bool isFlow(EventCategory c) {
    return c == EventCategory::FlowStart || c == EventCategory::FlowStep ||
           c == EventCategory::FlowEnd;
}

}  // namespace

void TraceBuilder::reserve(std::size_t records) {
    m_events.reserve(records);
    expectWriting(m_events.data(), m_events.capacity() * sizeof(Event));
}

std::int32_t TraceBuilder::track(std::string_view process, std::string_view thread,
                                 std::int32_t device, std::int64_t stream) {
    m_key.assign(process).push_back('\x1f');
    m_key.append(thread);
    if (device >= 0 || stream >= 0)
        fmt::format_to(std::back_inserter(m_key), "\x1f{}\x1f{}", device, stream);
    const std::int32_t number = m_track_keys.intern(m_key);
    if (m_tracks.size() < m_track_keys.size())
        m_tracks.push_back({"", std::string(process), std::string(thread), device, stream});
    return number;
}

std::vector<Event>& TraceBuilder::openOf(std::string_view process, std::string_view thread) {
    const auto key = static_cast<std::size_t>(m_open_keys.intern(keyOf(process, thread)));
    if (m_open.size() <= key) m_open.resize(key + 1);
    return m_open[key];
}

void TraceBuilder::open(std::string_view process, std::string_view thread, const Event& event) {
    openOf(process, thread).push_back(event);
}

bool TraceBuilder::close(std::string_view process, std::string_view thread, std::int64_t end_ns) {
    std::vector<Event>& stack = openOf(process, thread);
    if (stack.empty()) return false;
    Event event = stack.back();
    stack.pop_back();
    event.duration_ns = std::max<std::int64_t>(0, end_ns - event.start_ns);
    m_events.push_back(event);
    return true;
}

void TraceBuilder::nameProcess(std::string_view process, std::string_view name) {
    m_process_names[std::string(process)] = std::string(name);
}

void TraceBuilder::nameThread(std::string_view process, std::string_view thread,
                              std::string_view name) {
    m_thread_names[keyOf(process, thread)] = std::string(name);
}

/// A range whose end is not in the file ends with it.
void TraceBuilder::closeLeftOvers() {
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (const Event& e : m_events)
        if (!isMark(e.category)) last = std::max(last, e.end_ns());
    for (const std::vector<Event>& stack : m_open)
        for (const Event& e : stack) last = std::max(last, e.start_ns);
    for (std::vector<Event>& stack : m_open)
        for (Event& e : stack) {
            e.duration_ns = std::max<std::int64_t>(0, last - e.start_ns);
            m_events.push_back(e);
            m_counters.add("range_without_end", ImportSeverity::Info);
        }
    m_open.clear();
}

void TraceBuilder::countFlows() {
    // [name, id] of each start, to see which ends have one.
    std::vector<std::pair<std::int32_t, std::int64_t>> starts;
    std::int64_t ends = 0, unmatched = 0;
    for (const Event& e : m_events)
        if (e.category == EventCategory::FlowStart) starts.emplace_back(e.name, e.correlation);
    std::sort(starts.begin(), starts.end());
    for (const Event& e : m_events) {
        if (!isFlow(e.category) || e.category == EventCategory::FlowStart) continue;
        ++ends;
        if (!std::binary_search(starts.begin(), starts.end(), std::pair(e.name, e.correlation)))
            ++unmatched;
    }
    m_counters.add("flow_start", ImportSeverity::Info, std::ssize(starts));
    m_counters.add("flow_end", ImportSeverity::Info, ends);
    m_counters.add("flow_end_without_start", ImportSeverity::Info, unmatched);
}

std::int64_t TraceBuilder::originOf() const {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), first_mark = first;
    for (const Event& e : m_events) {
        if (e.category == EventCategory::Metadata) continue;
        std::int64_t& least = isMark(e.category) ? first_mark : first;
        least = std::min(least, e.start_ns);
    }
    if (first == std::numeric_limits<std::int64_t>::max()) first = first_mark;
    return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

/// Times from the origin; what is further from it than any time can be is left out.
void TraceBuilder::fromOrigin(std::int64_t origin_ns) {
    for (Event& e : m_events)
        // Metadata often carries no time or a wrong one.
        e.start_ns = e.category == EventCategory::Metadata ? 0 : e.start_ns - origin_ns;
    const std::size_t lost = std::erase_if(m_events, [](const Event& e) {
        return !inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns);
    });
    m_counters.add("bad_timestamp", ImportSeverity::DataLoss, static_cast<std::int64_t>(lost),
                   "too far from the first record");
}

/// By track, on each ranges before marks, both in the order they came: sorted by counting, for a
/// trace has few tracks and its events mostly come by time; in place, for it may fill the memory.
void TraceBuilder::sortByTrack() {
    const auto groupOf = [](const Event& e) {
        return 2 * static_cast<std::size_t>(std::max(0, e.track)) + (isMark(e.category) ? 1 : 0);
    };
    std::vector<std::size_t> next(2 * std::max<std::size_t>(1, m_tracks.size()) + 1, 0);
    for (const Event& e : m_events) ++next[groupOf(e) + 1];
    for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    std::vector<std::size_t> places(m_events.size());
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = next[groupOf(m_events[i])]++;
    for (std::size_t i = 0; i < places.size(); ++i)
        while (places[i] != i) {
            const std::size_t to = places[i];
            std::swap(m_events[i], m_events[to]);
            std::swap(places[i], places[to]);
        }
}

void TraceBuilder::assignRows() {
    sortByTrack();
    std::int64_t overlaps = 0;
    for (std::size_t begin = 0; begin < m_events.size();) {
        std::size_t end = begin, marks = begin;
        while (end < m_events.size() && m_events[end].track == m_events[begin].track) {
            if (isMark(m_events[end].category))
                m_events[end].sub_lane = kMarkRow;
            else
                marks = end + 1;
            ++end;
        }
        const std::span<Event> ranges = std::span(m_events).subspan(begin, marks - begin);
        sortUnlessSorted(ranges);
        sortUnlessSorted(std::span(m_events).subspan(marks, end - marks));
        assignRowsOf(ranges, overlaps);
        const auto by_row = [](const Event& a, const Event& b) { return a.sub_lane < b.sub_lane; };
        if (!std::is_sorted(ranges.begin(), ranges.end(), by_row))
            std::stable_sort(ranges.begin(), ranges.end(), by_row);
        begin = end;
    }
    m_counters.add("overlapping_device_work", ImportSeverity::Info, overlaps);
}

void TraceBuilder::nameTracks() {
    const auto text = [](const auto& names, const std::string& key) {
        const auto found = names.find(key);
        return found == names.end() ? std::string() : found->second;
    };
    for (Track& t : m_tracks) {
        const std::string process = text(m_process_names, t.process);
        const std::string thread = text(m_thread_names, keyOf(t.process, t.thread));
        if (t.device >= 0 || t.stream >= 0)
            t.name = fmt::format("device {} stream {}", t.device, t.stream);
        else
            t.name = thread.empty() ? t.thread : fmt::format("{} {}", thread, t.thread);
        if (!process.empty() && t.device < 0) t.name = fmt::format("{} · {}", process, t.name);
    }
}

/// The user's step ranges become steps, numbered as the trace numbers them.
void TraceBuilder::findSteps(RankTimeline& rank) const {
    for (const Event& e : rank.events) {
        const std::string_view text = rank.nameOf(e);
        if (e.category != EventCategory::Annotation || !text.starts_with(kStepPrefix)) continue;
        StepRecord step;
        const char* begin = text.data() + kStepPrefix.size();
        const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), step.step);
        if (fault != std::errc()) continue;
        step.start_ns = e.start_ns;
        step.end_ns = e.end_ns();
        rank.steps.push_back(step);
    }
    std::sort(rank.steps.begin(), rank.steps.end(),
              [](const StepRecord& a, const StepRecord& b) { return a.start_ns < b.start_ns; });
}

TraceBuilder::Built TraceBuilder::finish() {
    closeLeftOvers();
    countFlows();
    Built out;
    out.origin_ns = originOf();
    fromOrigin(out.origin_ns);
    assignRows();
    nameTracks();
    out.rank.events = std::move(m_events);
    out.rank.tracks = std::move(m_tracks);
    out.rank.names = m_names.take();
    findSteps(out.rank);
    out.rank.counters["first_timestamp_ns"] = fmt::format("{}", out.origin_ns);
    out.counters = std::move(m_counters);
    return out;
}

}  // namespace piper
