// SPDX-License-Identifier: Apache-2.0
// Numbers of fields: protos/perfetto/trace/{trace_packet,interned_data}.proto and
// protos/perfetto/trace/track_event/*.proto of github.com/google/perfetto.
#include "collectors/export/perfetto.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "collectors/export/event_text.h"
#include "collectors/export/file_output.h"
#include "collectors/export/protobuf.h"
#include "core/run/name_table.h"
#include "core/run/rank_clock.h"

namespace piper {
namespace {

namespace field {
constexpr std::uint32_t kPacket = 1;
// TracePacket
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12,
                        kSequenceFlags = 13, kTrackDescriptor = 60;
// TrackEvent
constexpr std::uint32_t kCategoryIds = 3, kAnnotations = 4, kType = 9, kNameId = 10,
                        kTrackUuid = 11, kCounterValue = 30, kFlowIds = 47, kEndingFlowIds = 48;
// InternedData, each entry with an id and a name
constexpr std::uint32_t kCategories = 1, kNames = 2, kArgumentNames = 3, kEntryId = 1,
                        kEntryName = 2;
// DebugAnnotation
constexpr std::uint32_t kArgumentId = 1, kInteger = 4, kReal = 5, kText = 6;
// TrackDescriptor, ProcessDescriptor
constexpr std::uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kParent = 5, kCounter = 8,
                        kPid = 1, kProcessName = 6;
}  // namespace field

enum EventType : std::uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCounterType = 4 };
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

/// Texts of one kind, each sent once; ids from 1.
class Interned {
public:
    explicit Interned(std::uint32_t field) : m_field(field) {}
    std::uint64_t id(std::string_view text, ProtoMessage& interned) {
        const std::size_t before = m_table.size();
        const auto id = static_cast<std::uint64_t>(m_table.intern(text)) + 1;
        if (m_table.size() > before)
            interned.message(
                m_field, ProtoMessage().number(field::kEntryId, id).text(field::kEntryName, text));
        return id;
    }

private:
    NameTable m_table;
    std::uint32_t m_field;
};

/// Writes the packets of one rank: a sequence with interned texts of its own.
class RankWriter {
public:
    RankWriter(const RankTimeline& rank, std::int64_t shift_ns, std::ostream& out)
        : m_rank(rank),
          m_clock(rank),
          m_shift_ns(shift_ns),
          m_process(static_cast<std::uint64_t>(rank.rank.value + 1) << 32),
          m_next_track(m_process + 1),
          m_out(out) {}

    void write() {
        describeProcess();
        std::map<std::pair<Lane, std::int32_t>, std::vector<const Event*>> places;
        for (const Event& e : m_rank.events) {
            const Track* track = m_rank.trackOf(e);
            if (e.category == EventCategory::Counter)
                count(nameOf(e, m_rank), e.start_ns, e.bytes);
            else if (e.category != EventCategory::Metadata)
                places[{track == nullptr ? e.lane : Lane::Stream, track == nullptr ? -1 : e.track}]
                    .push_back(&e);
        }
        for (auto& [place, events] : places) writeTrack(place.second, events);
        for (const MemorySample& m : m_rank.memory)
            count(fmt::format("memory {}", toText(m.term)), m.time_ns, m.bytes);
    }

private:
    /// A row of a track with the ends of the events that are open on it, innermost last.
    struct Row {
        std::uint64_t track = 0;
        std::vector<std::int64_t> open;
    };

    void describeProcess() {
        std::string name = fmt::format("rank {}", m_rank.rank.value);
        if (m_rank.stage.valid()) name += fmt::format(" (stage {})", m_rank.stage.value);
        if (!m_rank.host.empty()) name += " " + m_rank.host;
        ProtoMessage process, descriptor, packet;
        // Process 0 is that of the idle processor.
        process.integer(field::kPid, m_rank.rank.value + 1).text(field::kProcessName, name);
        descriptor.number(field::kUuid, m_process).message(field::kProcess, process);
        packet.message(field::kTrackDescriptor, descriptor)
            .number(field::kSequence, sequence())
            .number(field::kSequenceFlags, kStateCleared);
        send(packet);
    }

    std::uint64_t describeTrack(std::string_view name, bool counter) {
        ProtoMessage descriptor, packet;
        descriptor.number(field::kUuid, m_next_track)
            .number(field::kParent, m_process)
            .text(field::kTrackName, name);
        if (counter) descriptor.message(field::kCounter, {});
        packet.message(field::kTrackDescriptor, descriptor).number(field::kSequence, sequence());
        send(packet);
        return m_next_track++;
    }

    void writeTrack(std::int32_t track, std::vector<const Event*>& events) {
        std::stable_sort(events.begin(), events.end(), [](const Event* a, const Event* b) {
            if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns;
            return a->duration_ns > b->duration_ns;
        });
        const bool nests = track >= 0 && m_rank.tracks[static_cast<std::size_t>(track)].stream < 0;
        const std::string name = trackName(*events.front(), m_rank);
        std::vector<Row> rows;
        for (const Event* e : events) {
            if (isMark(e->category)) {
                if (rows.empty()) rows.push_back({describeTrack(name, false), {}});
                instant(*e, rows.front().track);
                continue;
            }
            Row& row = rowFor(*e, nests, name, rows);
            begin(*e, row.track);
            row.open.push_back(endOf(*e));
        }
        for (Row& row : rows) close(row, std::numeric_limits<std::int64_t>::max());
    }

    static std::int64_t endOf(const Event& e) { return std::max(e.start_ns, e.end_ns()); }

    /// The first row on which the event is free, or nested where that means something.
    Row& rowFor(const Event& e, bool nests, const std::string& name, std::vector<Row>& rows) {
        for (Row& row : rows) {
            close(row, e.start_ns);
            if (row.open.empty() || (nests && endOf(e) <= row.open.back())) return row;
        }
        const std::string own =
            rows.empty() ? name : fmt::format("{} (row {})", name, rows.size() + 1);
        rows.push_back({describeTrack(own, false), {}});
        return rows.back();
    }

    /// Sends the ends of what ends at or before a time, the innermost first.
    void close(Row& row, std::int64_t time) {
        while (!row.open.empty() && row.open.back() <= time) {
            ProtoMessage event;
            event.number(field::kType, kEnd).number(field::kTrackUuid, row.track);
            sendEvent(row.open.back(), event, {});
            row.open.pop_back();
        }
    }

    void begin(const Event& e, std::uint64_t track) {
        ProtoMessage interned, event;
        event.number(field::kCategoryIds, m_categories.id(categoryOf(e), interned));
        for (const EventArgument& argument : argumentsOf(e, m_rank)) {
            ProtoMessage annotation;
            annotation.number(field::kArgumentId, m_arguments.id(argument.name, interned));
            if (const auto* whole = std::get_if<std::int64_t>(&argument.value))
                annotation.integer(field::kInteger, *whole);
            else if (const auto* real = std::get_if<double>(&argument.value))
                annotation.real(field::kReal, *real);
            else
                annotation.text(field::kText, std::get<std::string_view>(argument.value));
            event.message(field::kAnnotations, annotation);
        }
        event.number(field::kType, kBegin)
            .number(field::kNameId, m_names.id(nameOf(e, m_rank), interned))
            .number(field::kTrackUuid, track);
        sendEvent(e.start_ns, event, interned);
    }

    void instant(const Event& e, std::uint64_t track) {
        ProtoMessage interned, event;
        event.number(field::kCategoryIds, m_categories.id(categoryOf(e), interned))
            .number(field::kType, kInstant)
            .number(field::kNameId, m_names.id(nameOf(e, m_rank), interned))
            .number(field::kTrackUuid, track);
        if (e.category == EventCategory::FlowStart || e.category == EventCategory::FlowStep)
            event.fixed64(field::kFlowIds, flowId(e));
        if (e.category == EventCategory::FlowEnd) event.fixed64(field::kEndingFlowIds, flowId(e));
        sendEvent(e.start_ns, event, interned);
    }

    /// Arrows are known by name and number within a rank; a file has one numbering.
    std::uint64_t flowId(const Event& e) {
        const std::string key = fmt::format("{} {}", e.name, e.correlation);
        return m_process + static_cast<std::uint64_t>(m_flows.intern(key));
    }

    void count(const std::string& name, std::int64_t time_ns, std::int64_t value) {
        const auto found = m_counters.find(name);
        const std::uint64_t track =
            found != m_counters.end() ? found->second : describeTrack(name, true);
        m_counters[name] = track;
        ProtoMessage event;
        event.number(field::kType, kCounterType)
            .number(field::kTrackUuid, track)
            .integer(field::kCounterValue, value);
        sendEvent(time_ns, event, {});
    }

    void sendEvent(std::int64_t own_ns, const ProtoMessage& event, const ProtoMessage& interned) {
        ProtoMessage packet;
        packet.integer(field::kTimestamp, m_clock.toCommon(own_ns) + m_shift_ns)
            .number(field::kSequence, sequence())
            .message(field::kTrackEvent, event);
        if (!interned.empty()) packet.message(field::kInterned, interned);
        packet.number(field::kSequenceFlags, kNeedsState);
        send(packet);
    }

    void send(const ProtoMessage& packet) {
        m_whole.clear();
        m_whole.message(field::kPacket, packet);
        m_out.write(m_whole.bytes().data(), static_cast<std::streamsize>(m_whole.bytes().size()));
    }

    [[nodiscard]] std::uint64_t sequence() const {
        return static_cast<std::uint64_t>(m_rank.rank.value) + 1;
    }

    const RankTimeline& m_rank;
    RankClock m_clock;
    std::int64_t m_shift_ns;
    std::uint64_t m_process, m_next_track;
    Interned m_categories{field::kCategories}, m_names{field::kNames},
        m_arguments{field::kArgumentNames};
    NameTable m_flows;
    std::map<std::string, std::uint64_t> m_counters;
    ProtoMessage m_whole;
    std::ostream& m_out;
};

/// What is added to every time so that the first is not negative.
std::int64_t shiftOf(const Run& run) {
    std::int64_t first = 0;
    for (const RankTimeline& rank : run.ranks) {
        const RankClock clock(rank);
        for (const Event& e : rank.events) first = std::min(first, clock.toCommon(e.start_ns));
        for (const MemorySample& m : rank.memory)
            first = std::min(first, clock.toCommon(m.time_ns));
    }
    return -first;
}

}  // namespace

Status writePerfetto(const Run& run, std::ostream& out) {
    const std::int64_t shift = shiftOf(run);
    for (const RankTimeline& rank : run.ranks) {
        RankWriter(rank, shift, out).write();
        if (!out) break;
    }
    out.flush();
    if (!out) return fail(ErrorCode::Io, "writing failed; is the disk full?");
    return {};
}

Status exportPerfetto(const Run& run, const std::filesystem::path& path) {
    return writeFile(path, [&](std::ostream& out) { return writePerfetto(run, out); });
}

}  // namespace piper
