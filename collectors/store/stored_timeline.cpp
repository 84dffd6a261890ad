// SPDX-License-Identifier: Apache-2.0
// A run of a workspace file as rows of time: from the levels of its pyramid where a pixel holds
// many events, from the chunks of its events otherwise.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "collectors/store/expect_writing.h"
#include "collectors/store/stored_row.h"
#include "collectors/store/workspace_impl.h"
#include "core/run/rank_clock.h"
#include "core/run/time_range.h"
#include "core/run/timeline_blocks.h"

namespace piper {

using sqlite::Statement;
using sqlite::Stream;

namespace {

std::int64_t clampTime(std::int64_t ns) {
    return std::clamp(ns, -kLargestTime, kLargestTime);
}

constexpr std::int64_t kMostReserved = 1 << 20;  ///< blocks

constexpr std::string_view kTiles =
    "SELECT begin_ns, end_ns, count, checksum, data FROM tile WHERE row_id=?1 AND level=?2 AND "
    "begin_ns>=ifnull((SELECT max(begin_ns) FROM tile WHERE row_id=?1 AND level=?2 AND "
    "begin_ns<=?3), ?3) AND begin_ns<?4 ORDER BY begin_ns";
constexpr std::string_view kChunks =
    "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data FROM chunk "
    "WHERE source_id=? AND stream=0 AND lane=? AND track=? AND sub_lane=? AND begin_ns>=? AND "
    "begin_ns<? AND end_ns>=? ORDER BY begin_ns";
constexpr std::string_view kTotals =
    "SELECT begin_ns, end_ns, next_ns, count, checksum, data FROM total WHERE row_id=? AND "
    "begin_ns<? AND end_ns>=? ORDER BY begin_ns";

class StoredTimeline final : public TimelineSource {
public:
    explicit StoredTimeline(std::unique_ptr<Workspace::Impl> impl)
        : m_impl(std::move(impl)),
          m_tiles(m_impl->database.prepare(kTiles)),
          m_chunks(m_impl->database.prepare(kChunks)),
          m_totals(m_impl->database.prepare(kTotals)) {}

    Status load(std::string_view run_name);

    Result<TimelineView> view(TimeWindow window, std::int64_t pixel_ns) override;
    Result<std::vector<SelectionTotal>> totals(TimeWindow window,
                                               std::span<const std::size_t> rows) override;
    Result<std::optional<FoundEvent>> find(const EventQuery& query) override;
    Result<MemoryCurve> readMemory(std::size_t rank) override;
    std::vector<std::string> damage() const override { return m_impl->damage; }

private:
    /// A part of a row by its segments; all of it where there are none.
    struct Part {
        TimeWindow starts;  ///< on the common clock: events that begin in this
        std::int64_t end_ns = 0;
        bool inside = false;  ///< all of it in the window
        bool summed = false;
        LabelSums sums;
    };
    enum class Sums { None, Inside, All };  ///< of which parts

    Status loadRank(const SourceRow& source);
    void addRow(StoredRow row);
    /// -1 where the file's lane is unknown here.
    [[nodiscard]] int laneOf(const StoredRow& row) const;
    [[nodiscard]] const RankClock& clockOf(std::size_t row) const {
        return m_clocks[m_rows[row].rank];
    }
    /// The part of the rank's own time that holds what touches the window, and a little more.
    [[nodiscard]] TimeWindow ownWindow(std::size_t row, TimeWindow common) const;
    [[nodiscard]] int levelFor(std::size_t row, std::int64_t pixel_ns) const;
    Status readLevel(std::size_t row, int level, TimeWindow window,
                     std::vector<TimelineBlock>& out);
    /// Events of a row that touch the window, by start, on the common clock.
    template <class Drawn>
    Status readEvents(std::size_t row, TimeWindow window, std::vector<Drawn>& out);
    /// What of a segment without its events is in the window, taken as spread evenly over it.
    static void addShare(std::size_t rank, const Part& part, TimeWindow window,
                         SelectionSums& sums);
    /// The parts of a row that touch the window, by time.
    template <class Visit>
    Status eachPart(std::size_t row, TimeWindow window, Sums wanted, Visit visit);
    /// Of the part that m_totals stands on; false when they are damaged.
    bool readSums(std::size_t row, LabelSums& out);
    Status findOnRow(const EventQuery& query, std::size_t row, LabelMatcher& matcher,
                     std::optional<FoundEvent>& best);
    void damaged(std::string_view what, std::size_t row);
    Status finish(int code, std::string_view what);
    void reserveBlocks(std::int64_t pixels, std::vector<TimelineBlock>& out) const;

    std::unique_ptr<Workspace::Impl> m_impl;
    Statement m_tiles, m_chunks, m_totals;
    std::vector<SourceRow> m_sources;  ///< [rank]
    std::vector<RankClock> m_clocks;   ///< [rank]
    std::vector<StoredRow> m_stored;   ///< [row]
    std::vector<Bucket> m_buckets;     ///< of the tile that is read
    std::vector<DrawnEvent> m_drawn;   ///< of the row that is read
};

Status StoredTimeline::load(std::string_view run_name) {
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(RunRow run, m_impl->findRun(run_name));
    PIPER_TRY(m_impl->readNotes(run));
    m_header = std::move(run.header);
    PIPER_ASSIGN(const std::vector<SourceRow> sources, m_impl->sourceRows(run.id));
    for (const SourceRow& source : sources) PIPER_TRY(loadRank(source));
    std::vector<StepWindows> steps = stepWindows(m_header);
    const auto empty = [](const StepWindows& own) { return own.empty(); };
    if (std::all_of(steps.begin(), steps.end(), empty))  // no records: by the events
        for (std::size_t r = 0; r < steps.size(); ++r)
            PIPER_TRY(m_impl->readSteps(sources[r], steps[r]));
    setSteps(steps);
    return {};
}

Status StoredTimeline::loadRank(const SourceRow& source) {
    RankTimeline rank = source.header;
    if (!inTimeRange(rank.offset_ns)) rank.offset_ns = 0;
    PIPER_TRY(m_impl->readNames(source, rank));
    PIPER_TRY(m_impl->readTracks(source, rank));
    PIPER_TRY(m_impl->readSamples(source, {Stream::Clock, Stream::Step}, rank));
    std::erase_if(rank.clock, [](const ClockSample& s) {
        return !inTimeRange(s.time_ns) || !inTimeRange(s.offset_ns);
    });
    std::erase_if(rank.steps, [](const StepRecord& s) {
        return !inTimeRange(s.start_ns) || !inTimeRange(s.end_ns);
    });
    m_clocks.emplace_back(rank);
    m_sources.push_back(source);
    m_header.ranks.push_back(std::move(rank));

    PIPER_ASSIGN(std::vector<StoredRow> rows, m_impl->storedRows(source));
    if (rows.empty())
        PIPER_TRY(m_impl->query(
            "the rows of a rank", fmt::format("{} GROUP BY lane, track, sub_lane", kRowOfChunks),
            [&](Statement& s) { s.bind(source.id); },
            [&](const Statement& r) {
                StoredRow row;
                row.source = source.id;
                row.takeRange(r);
                row.lane = r.integer(4);
                row.track = r.integer(5);
                row.sub_lane = r.integer(6);
                rows.push_back(row);
            }));
    const auto place = [&](const StoredRow& r) {
        return std::tuple(laneOf(r), r.track, r.sub_lane);
    };
    std::sort(rows.begin(), rows.end(),
              [&](const StoredRow& a, const StoredRow& b) { return place(a) < place(b); });
    for (const StoredRow& row : rows) addRow(row);
    return {};
}

int StoredTimeline::laneOf(const StoredRow& row) const {
    return static_cast<int>(m_impl->ownLane(row.lane));
}

void StoredTimeline::addRow(StoredRow row) {
    const int lane = laneOf(row);
    if (lane < 0) return;
    row.begin_ns = clampTime(row.begin_ns);
    row.end_ns = clampTime(row.end_ns);
    row.levels &= (std::int64_t{1} << kMostLevels) - 1;
    if (row.hasChunks()) row.span_ns = std::clamp<std::int64_t>(row.span_ns, 0, kLargestTime);
    const std::size_t rank = m_clocks.size() - 1;
    m_rows.push_back({rank, static_cast<Lane>(lane), static_cast<std::int32_t>(row.track),
                      static_cast<std::uint16_t>(row.sub_lane), row.count});
    m_stored.push_back(row);
    const RankClock& clock = m_clocks.back();
    m_extent.begin_ns = std::min(m_extent.begin_ns, clock.toCommon(row.begin_ns));
    m_extent.end_ns = std::max(m_extent.end_ns, clock.toCommon(row.end_ns));
}

TimeWindow StoredTimeline::ownWindow(std::size_t row, TimeWindow common) const {
    const RankClock& clock = clockOf(row);
    // A duration is not scaled by the drift: what is long ends a little elsewhere than its end.
    const std::int64_t slack =
        2 + static_cast<std::int64_t>(std::abs(clock.fit().drift) *
                                      static_cast<double>(m_stored[row].span_ns));
    return {clock.toOwn(clampTime(common.begin_ns)) - slack,
            clock.toOwn(clampTime(common.end_ns)) + slack};
}

int StoredTimeline::levelFor(std::size_t row, std::int64_t pixel_ns) const {
    int best = -1;
    for (int level = 0; level < kMostLevels && bucketWidth(level) <= pixel_ns; ++level)
        if (m_stored[row].levels >> level & 1) best = level;
    if (best < 0 && !m_stored[row].hasChunks() && m_stored[row].levels > 0)
        best = std::countr_zero(static_cast<std::uint64_t>(m_stored[row].levels));
    return best;
}

void StoredTimeline::damaged(std::string_view what, std::size_t row) {
    m_impl->addDamage(
        fmt::format("{} of rank {} is damaged", what, m_header.ranks[m_rows[row].rank].rank.value));
}

Status StoredTimeline::finish(int code, std::string_view what) {
    return code == SQLITE_DONE ? Status() : m_impl->unreadable(code, what);
}

Status StoredTimeline::readLevel(std::size_t row, int level, TimeWindow window,
                                 std::vector<TimelineBlock>& out) {
    const std::int64_t width = bucketWidth(level);
    const TimeWindow own = ownWindow(row, window);
    const RankClock& clock = clockOf(row);
    m_tiles.reset();
    m_tiles.bind(m_stored[row].id).bind(level).bind(own.begin_ns).bind(own.end_ns);
    int code = SQLITE_DONE;
    bool continues = false;
    while ((code = m_tiles.step()) == SQLITE_ROW) {
        const std::int64_t count = m_tiles.integer(2);
        const std::string_view data = m_tiles.text(4);
        const std::array<std::int64_t, 5> numbers{m_stored[row].id, level, m_tiles.integer(0),
                                                  m_tiles.integer(1), count};
        m_buckets.clear();
        if (count < 0 || !isIntact(numbers, data, m_tiles.integer(3)) ||
            !decodeBuckets(data, static_cast<std::size_t>(count), m_impl->codes, m_buckets)) {
            damaged("a summary", row);
            continue;
        }
        for (const Bucket& b : m_buckets) {
            // No bucket is where an event cannot be.
            if (b.index < -kLargestTime / width || b.index >= kLargestTime / width) continue;
            const std::int64_t begin = b.index * width;
            if (begin >= own.end_ns || begin + width <= own.begin_ns) continue;
            const bool filled = b.busy_ns >= width;
            // The inside of a long event, bucket after bucket, is one block.
            if (continues && b.count == 0 && filled && out.back().label == b.label &&
                out.back().longest_ns == b.longest_ns) {
                out.back().end_ns = clock.toCommon(begin + width);
                out.back().busy_ns += b.busy_ns;
                continue;
            }
            out.push_back({clock.toCommon(begin),
                           clock.toCommon(begin + width),
                           b.busy_ns,
                           b.longest_ns,
                           b.label,
                           static_cast<std::int32_t>(b.count),
                           {}});
            continues = b.longest_ns > width;
        }
    }
    return finish(code, "the summary of a row");
}

template <class Drawn>
Status StoredTimeline::readEvents(std::size_t row, TimeWindow window, std::vector<Drawn>& out) {
    const StoredRow& stored = m_stored[row];
    const TimeWindow own = ownWindow(row, window);
    const RankClock& clock = clockOf(row);
    m_chunks.reset();
    m_chunks.bind(stored.source).bind(stored.lane).bind(stored.track).bind(stored.sub_lane);
    m_chunks.bind(own.begin_ns - stored.span_ns).bind(own.end_ns).bind(own.begin_ns);
    int code = SQLITE_DONE;
    while ((code = m_chunks.step()) == SQLITE_ROW) {
        ChunkKey key;
        const std::size_t before = out.size();
        if (!ChunkKey::read(m_chunks, stored.source, key) ||
            !decodeEvents(m_chunks.text(8), static_cast<std::size_t>(key.count), m_impl->codes,
                          out)) {
            damaged("a chunk", row);
            continue;
        }
        std::size_t kept = before;
        for (std::size_t i = before; i < out.size(); ++i) {
            Drawn& e = out[i];
            if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) continue;
            e.start_ns = clock.toCommon(e.start_ns);
            if (touches(e, window)) out[kept++] = e;
        }
        out.resize(kept);
    }
    const auto earlier = [](const Drawn& a, const Drawn& b) { return a.start_ns < b.start_ns; };
    if (!std::is_sorted(out.begin(), out.end(), earlier))
        std::stable_sort(out.begin(), out.end(), earlier);
    return finish(code, "events of a row");
}

/// Room for some blocks a pixel and row: growing would copy them time and again.
void StoredTimeline::reserveBlocks(std::int64_t pixels, std::vector<TimelineBlock>& out) const {
    const std::int64_t most = std::clamp<std::int64_t>(
        2 * std::min(pixels, kMostReserved) * std::ssize(m_rows), 0, kMostReserved);
    // More by a large page, so that the small ones behind the last of them stay empty.
    out.reserve(static_cast<std::size_t>(most) + kLargePage / sizeof(TimelineBlock));
    expectWriting(out.data(), out.capacity() * sizeof(TimelineBlock));
}

Result<TimelineView> StoredTimeline::view(TimeWindow window, std::int64_t pixel_ns) {
    const Snapshot snapshot(m_impl->database);
    TimelineView out{window, pixel_ns, {}, {}};
    reserveBlocks(window.length() / std::max<std::int64_t>(1, pixel_ns) + 1, out.blocks);
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        const int level = levelFor(row, pixel_ns);
        if (level >= 0) {
            PIPER_TRY(readLevel(row, level, window, out.blocks));
        } else {
            m_drawn.clear();
            PIPER_TRY(readEvents(row, window, m_drawn));
            BlockMerger merger(pixel_ns, out.blocks);
            for (const DrawnEvent& e : m_drawn) merger.add(e);
        }
        out.row_ends.push_back(out.blocks.size());
    }
    return out;
}

template <class Visit>
Status StoredTimeline::eachPart(std::size_t row, TimeWindow window, Sums wanted, Visit visit) {
    const StoredRow& stored = m_stored[row];
    Part part;
    if (stored.id == 0) {
        part.starts = {-kLargestTime, kLargestTime};
        part.end_ns = kLargestTime;
        return visit(part);
    }
    const TimeWindow own = ownWindow(row, window);
    const RankClock& clock = clockOf(row);
    // Events of a part end before its end by our clock, whichever the drift.
    const std::int64_t slack = own.end_ns - clock.toOwn(clampTime(window.end_ns));
    m_totals.reset();
    m_totals.bind(stored.id).bind(own.end_ns).bind(own.begin_ns);
    int code = SQLITE_DONE;
    while ((code = m_totals.step()) == SQLITE_ROW) {
        const std::int64_t begin = m_totals.integer(0), end = m_totals.integer(1),
                           next = m_totals.integer(2);
        part.starts = {clock.toCommon(clampTime(begin)), clock.toCommon(clampTime(next))};
        part.end_ns = clock.toCommon(clampTime(end)) + slack;
        part.inside = part.starts.begin_ns >= window.begin_ns && part.end_ns < window.end_ns;
        const bool with_sums = wanted == Sums::All || (wanted == Sums::Inside && part.inside);
        part.summed = with_sums && m_totals.integer(3) != 0 && readSums(row, part.sums);
        PIPER_TRY(visit(part));
    }
    return finish(code, "sums of a row");
}

bool StoredTimeline::readSums(std::size_t row, LabelSums& out) {
    const std::int64_t count = m_totals.integer(3);
    const std::string_view data = m_totals.text(5);
    const std::array<std::int64_t, 5> numbers{m_stored[row].id, m_totals.integer(0),
                                              m_totals.integer(1), m_totals.integer(2), count};
    out.clear();
    if (count > 0 && isIntact(numbers, data, m_totals.integer(4)) &&
        decodeSums(data, static_cast<std::size_t>(count), m_impl->codes, out))
        return true;
    damaged("a sum", row);
    return false;
}

Result<MemoryCurve> StoredTimeline::readMemory(std::size_t rank) {
    const Snapshot snapshot(m_impl->database);
    RankTimeline samples;
    samples.rank = m_header.ranks[rank].rank;
    samples.offset_ns = m_header.ranks[rank].offset_ns;
    samples.clock = m_header.ranks[rank].clock;
    PIPER_TRY(m_impl->readSamples(m_sources[rank], {Stream::Memory}, samples));
    std::erase_if(samples.memory, [](const MemorySample& s) { return !inTimeRange(s.time_ns); });
    return MemoryCurve(samples);
}

Result<std::vector<SelectionTotal>> StoredTimeline::totals(TimeWindow window,
                                                           std::span<const std::size_t> rows) {
    const Snapshot snapshot(m_impl->database);
    SelectionSums sums;
    for (const std::size_t row : rows) {
        const std::size_t rank = m_rows[row].rank;
        const Sums wanted = m_stored[row].hasChunks() ? Sums::Inside : Sums::All;
        PIPER_TRY(eachPart(row, window, wanted, [&](const Part& part) -> Status {
            if (part.inside && part.summed) {
                for (const auto& [label, sum] : part.sums) sums.add(rank, label, sum);
                return {};
            }
            const TimeWindow here{
                std::max(window.begin_ns, part.starts.begin_ns),
                std::min(window.end_ns, std::max(part.end_ns + 1, part.starts.begin_ns + 1))};
            if (!m_stored[row].hasChunks()) {
                addShare(rank, part, here, sums);
                return {};
            }
            m_drawn.clear();
            PIPER_TRY(readEvents(row, here, m_drawn));
            for (const DrawnEvent& e : m_drawn)
                if (part.starts.contains(e.start_ns)) sums.add(rank, e, window);
            return {};
        }));
    }
    return sums.take(m_header);
}

void StoredTimeline::addShare(std::size_t rank, const Part& part, TimeWindow window,
                              SelectionSums& sums) {
    const double length = static_cast<double>(part.end_ns - part.starts.begin_ns);
    const double share = length > 0 ? static_cast<double>(window.length()) / length : 1.0;
    if (!part.summed || share <= 0.0) return;
    const auto scaled = [share](std::int64_t value) {
        return static_cast<std::int64_t>(std::llround(static_cast<double>(value) * share));
    };
    for (const auto& [label, sum] : part.sums)
        if (scaled(sum.count) > 0)
            sums.add(rank, label, {scaled(sum.count), scaled(sum.sum_ns), sum.longest_ns});
}

Status StoredTimeline::findOnRow(const EventQuery& query, std::size_t row, LabelMatcher& matcher,
                                 std::optional<FoundEvent>& best) {
    if (!m_stored[row].hasChunks()) return {};
    const std::size_t rank = m_rows[row].rank;
    std::vector<Part> parts;
    const bool picky = !query.text.empty() || query.least_ns > 0;
    PIPER_TRY(eachPart(row, query.window, picky ? Sums::All : Sums::None,
                       [&](const Part& part) -> Status {
                           parts.push_back(part);
                           return {};
                       }));
    if (!query.forward) std::reverse(parts.begin(), parts.end());
    std::vector<Event> events;
    for (const Part& part : parts) {
        if (isBeaten(query, best, query.forward ? part.starts.begin_ns : part.starts.end_ns))
            return {};
        const auto may = [&](const auto& sum) {
            return sum.second.longest_ns >= query.least_ns && matcher.matches(rank, sum.first);
        };
        if (part.summed && std::none_of(part.sums.begin(), part.sums.end(), may)) continue;
        events.clear();
        const TimeWindow here{std::max(query.window.begin_ns, part.starts.begin_ns),
                              std::min(query.window.end_ns, part.end_ns + 1)};
        PIPER_TRY(readEvents(row, here, events));
        if (!query.forward) std::reverse(events.begin(), events.end());
        for (const Event& e : events) {
            if (!part.starts.contains(e.start_ns) || !isWanted(query, e) ||
                !matcher.matches(rank, labelOf(e)))
                continue;
            if (!isBeaten(query, best, e.start_ns)) best = FoundEvent{row, e};
            return {};
        }
    }
    return {};
}

Result<std::optional<FoundEvent>> StoredTimeline::find(const EventQuery& query) {
    const Snapshot snapshot(m_impl->database);
    LabelMatcher matcher(m_header, query.text);
    std::optional<FoundEvent> best;
    if (query.rows.empty())
        for (std::size_t row = 0; row < m_rows.size(); ++row)
            PIPER_TRY(findOnRow(query, row, matcher, best));
    for (const std::size_t row : query.rows) PIPER_TRY(findOnRow(query, row, matcher, best));
    return best;
}

}  // namespace

Result<std::shared_ptr<TimelineSource>> Workspace::openTimeline(const std::filesystem::path& path,
                                                                std::string_view run_name) {
    PIPER_ASSIGN(Workspace file, open(path));
    auto timeline = std::make_shared<StoredTimeline>(std::move(file.m_impl));
    PIPER_TRY(timeline->load(run_name));
    return std::shared_ptr<TimelineSource>(std::move(timeline));
}

}  // namespace piper
