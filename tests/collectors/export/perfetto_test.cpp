// SPDX-License-Identifier: Apache-2.0
// The protobuf trace read again by a decoder of its own, from the wire format up.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "collectors/export/event_text.h"
#include "collectors/export/perfetto.h"
#include "core/run/rank_clock.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

/// One field of a message: a number, or bytes.
struct Field {
    std::uint64_t number = 0;
    std::string_view bytes;
};
using Message = std::multimap<std::uint32_t, Field>;

std::uint64_t varint(std::string_view& in) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (in.empty()) break;
        const auto byte = static_cast<unsigned char>(in.front());
        in.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    ADD_FAILURE() << "a number does not end";
    return 0;
}

Message decode(std::string_view in) {
    Message out;
    while (!in.empty()) {
        const std::uint64_t key = varint(in);
        Field field;
        if (const auto wire = key & 7; wire == 0) {
            field.number = varint(in);
        } else {
            EXPECT_TRUE(wire == 1 || wire == 2) << wire;
            const std::size_t size = wire == 1 ? 8 : varint(in);
            if (size > in.size()) {
                ADD_FAILURE() << "a field is longer than its message";
                return out;
            }
            field.bytes = in.substr(0, size);
            for (std::size_t i = 0; wire == 1 && i < 8; ++i)
                field.number |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[i]))
                                << (8 * i);
            in.remove_prefix(size);
        }
        out.emplace(static_cast<std::uint32_t>(key >> 3), field);
    }
    return out;
}

std::uint64_t number(const Message& m, std::uint32_t field) {
    const auto found = m.find(field);
    return found == m.end() ? 0 : found->second.number;
}
std::string_view bytes(const Message& m, std::uint32_t field) {
    const auto found = m.find(field);
    return found == m.end() ? std::string_view() : found->second.bytes;
}

struct Slice {
    std::string process, name, category;
    std::int64_t start = 0, duration = 0;
    auto operator<=>(const Slice&) const = default;
};

/// A reader of the parts that ui.perfetto.dev needs.
class TraceReader {
public:
    explicit TraceReader(std::string_view text) {
        for (const auto& [field, packet] : decode(text)) {
            EXPECT_EQ(field, 1U);
            read(decode(packet.bytes));
        }
        for (const auto& [track, open] : m_open) EXPECT_TRUE(open.empty()) << m_names[track];
        std::sort(slices.begin(), slices.end());
    }

    std::vector<Slice> slices;
    std::set<std::string> tracks;
    std::map<std::string, std::vector<std::int64_t>> counters;
    std::map<std::uint64_t, std::set<std::string>> flows;  ///< id -> processes
    std::map<std::string, std::string> arguments;          ///< the last seen
    std::size_t instants = 0;

private:
    void read(const Message& packet) {
        const std::uint64_t sequence = number(packet, 10);
        if ((number(packet, 13) & 1) != 0) m_texts.erase(sequence);
        const Message interned = decode(bytes(packet, 12));
        for (const std::uint32_t kind : {1U, 2U, 3U})
            for (auto [at, end] = interned.equal_range(kind); at != end; ++at) {
                const Message entry = decode(at->second.bytes);
                auto& slot = m_texts[sequence][{kind, number(entry, 1)}];
                EXPECT_TRUE(slot.empty()) << "sent twice: " << slot;
                slot = std::string(bytes(entry, 2));
            }
        if (packet.contains(60)) describe(decode(bytes(packet, 60)));
        if (packet.contains(11))
            event(decode(bytes(packet, 11)), sequence,
                  static_cast<std::int64_t>(number(packet, 8)));
    }

    void describe(const Message& track) {
        const std::uint64_t uuid = number(track, 1);
        EXPECT_TRUE(m_names.emplace(uuid, bytes(track, 2)).second) << "a uuid comes twice";
        if (track.contains(3))
            m_names[uuid] = std::string(bytes(decode(bytes(track, 3)), 6));
        else
            tracks.insert(m_names[uuid]);
        m_parent[uuid] = track.contains(5) ? number(track, 5) : uuid;
        EXPECT_TRUE(m_names.contains(m_parent[uuid]));
    }

    void event(const Message& e, std::uint64_t sequence, std::int64_t time) {
        const std::uint64_t track = number(e, 11);
        ASSERT_TRUE(m_names.contains(track));
        EXPECT_GE(time, 0);
        const std::string process = m_names[m_parent[track]];
        const auto text = [&](std::uint32_t kind, std::uint64_t id) {
            const auto found = m_texts[sequence].find({kind, id});
            EXPECT_NE(found, m_texts[sequence].end());
            return found == m_texts[sequence].end() ? std::string() : found->second;
        };
        for (const std::uint32_t field : {47U, 48U})
            if (e.contains(field)) flows[number(e, field)].insert(process);
        if (const std::uint64_t type = number(e, 9); type == 4) {
            counters[m_names[track]].push_back(static_cast<std::int64_t>(number(e, 30)));
            return;
        } else if (type == 3) {
            ++instants;
            return;
        } else if (type == 2) {
            ASSERT_FALSE(m_open[track].empty());
            Slice slice = m_open[track].back();
            m_open[track].pop_back();
            slice.duration = time - slice.start;
            EXPECT_GE(slice.duration, 0);
            if (!m_open[track].empty()) {
                EXPECT_GE(slice.start, m_open[track].back().start);
            }
            slices.push_back(slice);
        } else {
            m_open[track].push_back({process, text(2, number(e, 10)), text(1, number(e, 3)), time});
            for (auto [at, end] = e.equal_range(4); at != end; ++at) {
                const Message argument = decode(at->second.bytes);
                arguments[text(3, number(argument, 1))] =
                    argument.contains(4)
                        ? fmt::format("{}", static_cast<std::int64_t>(number(argument, 4)))
                        : std::string(bytes(argument, 6));
            }
        }
        EXPECT_GE(time, m_last[track]) << "a track goes back in time";
        m_last[track] = time;
    }

    std::map<std::uint64_t, std::map<std::pair<std::uint32_t, std::uint64_t>, std::string>> m_texts;
    std::map<std::uint64_t, std::string> m_names;
    std::map<std::uint64_t, std::uint64_t> m_parent;
    std::map<std::uint64_t, std::vector<Slice>> m_open;
    std::map<std::uint64_t, std::int64_t> m_last;
};

std::string perfettoOf(const piper::Run& run) {
    std::ostringstream out;
    EXPECT_TRUE(writePerfetto(run, out).ok());
    return out.str();
}

TEST(Perfetto, EveryEventComesBackWithItsNameTimeAndProcess) {
    const piper::Run run = test::syntheticRun(3, 2000, 3);
    std::vector<Slice> expected;
    std::int64_t first = 0;
    std::size_t marks = 0;
    for (const RankTimeline& rank : run.ranks) {
        const RankClock clock(rank);
        for (const Event& e : rank.events) first = std::min(first, clock.toCommon(e.start_ns));
        for (const MemorySample& m : rank.memory)
            first = std::min(first, clock.toCommon(m.time_ns));
    }
    ASSERT_LT(first, 0);
    for (const RankTimeline& rank : run.ranks)
        for (const Event& e : rank.events) {
            if (isMark(e.category)) {
                marks +=
                    e.category == EventCategory::Counter || e.category == EventCategory::Metadata
                        ? 0
                        : 1;
                continue;
            }
            expected.push_back(
                {fmt::format("rank {} (stage {}) {}", rank.rank.value, rank.stage.value, rank.host),
                 nameOf(e, rank), std::string(categoryOf(e)),
                 RankClock(rank).toCommon(e.start_ns) - first, e.duration_ns});
        }
    std::sort(expected.begin(), expected.end());
    const std::string text = perfettoOf(run);
    const TraceReader trace(text);
    EXPECT_EQ(trace.slices, expected);
    EXPECT_EQ(trace.instants, marks);
    for (const auto& [id, processes] : trace.flows) EXPECT_EQ(processes.size(), 1U) << id;
    EXPECT_TRUE(trace.counters.contains("memory weights"));
    EXPECT_TRUE(trace.arguments.contains("pipeline_phase"));
    EXPECT_LT(text.size(), 160 * expected.size());
}

TEST(Perfetto, OverlapsGetTracksOfTheirOwnAndNestedRangesDoNot) {
    piper::Run run;
    run.ranks.resize(1);
    RankTimeline& rank = run.ranks[0];
    rank.rank = RankId(0);
    rank.tracks = {{"stream 7", "0", "7", 0, 7}, {"python", "1", "1", -1, -1}};
    const auto add = [&](std::int32_t track, std::int64_t begin, std::int64_t end) {
        Event e;
        e.category = EventCategory::Kernel;
        e.track = track;
        e.start_ns = begin;
        e.duration_ns = end - begin;
        rank.events.push_back(e);
    };
    for (const std::int32_t track : {0, 1}) {
        add(track, 0, 10);
        add(track, 2, 5);
        add(track, 5, 5);
        add(track, 8, 12);
        add(track, 12, 12);
    }
    const TraceReader trace(perfettoOf(run));
    EXPECT_THAT(trace.tracks,
                testing::ElementsAre("python", "python (row 2)", "stream 7", "stream 7 (row 2)"));
    EXPECT_EQ(trace.slices.size(), 10U);
}

TEST(Perfetto, AnEmptyRunAndAFullDisk) {
    EXPECT_EQ(perfettoOf({}), "");
    const piper::Run run = test::syntheticRun(1, 5000, 2);
    const Status full = exportPerfetto(run, "/dev/full");
    ASSERT_FALSE(full.ok());
    EXPECT_EQ(full.error().code, ErrorCode::Io);
}

}  // namespace
}  // namespace piper
