// SPDX-License-Identifier: Apache-2.0
// Windows of a run: events by the chunks they lie in, or sums by the pyramid over each row.
#include <algorithm>
#include <array>
#include <map>

#include "collectors/store/workspace_impl.h"
#include "core/run/time_range.h"

namespace piper {

using sqlite::Statement;
using sqlite::Stream;

namespace {

RowView& rowOf(std::vector<RowView>& rows, RankId rank, const RowKey& key) {
    const auto& [lane, track, sub_lane] = key;
    for (RowView& row : rows)
        if (row.rank == rank && row.lane == lane && row.track == track && row.sub_lane == sub_lane)
            return row;
    RowView fresh;
    fresh.rank = rank;
    fresh.lane = lane;
    fresh.track = track;
    fresh.sub_lane = sub_lane;
    rows.push_back(std::move(fresh));
    return rows.back();
}

bool touches(const Event& e, TimeWindow window) {
    if (e.duration_ns <= 0) return e.start_ns >= window.begin_ns && e.start_ns < window.end_ns;
    return e.start_ns < window.end_ns && e.end_ns() > window.begin_ns;
}

/// The coarsest level whose buckets are no wider than a pixel; -1 when none is that fine.
int levelFor(std::int64_t pixel_ns) {
    int level = -1;
    while (level + 1 < kMostLevels && bucketWidth(level + 1) <= pixel_ns) ++level;
    return level;
}

}  // namespace

Status Workspace::visitEvents(std::string_view run_name, RankId rank,
                              const std::function<void(std::span<const Event>)>& visit) {
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(const SourceRow source, m_impl->findSource(run_name, rank));
    RankTimeline part;
    return m_impl->eachChunk(source, run_name, [&](const Statement& row) {
        part.events.clear();
        if (row.integer(0) != static_cast<std::int64_t>(Stream::Event)) return true;
        if (!m_impl->decodeChunk(row, source.id, part)) return false;
        visit(part.events);
        return true;
    });
}

Result<std::vector<Event>> Workspace::events(std::string_view run_name, RankId rank,
                                             TimeWindow window, std::optional<Lane> lane) {
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(const SourceRow source, m_impl->findSource(run_name, rank));
    RankTimeline found;
    const auto read = [&](const Statement& row) {
        if (!m_impl->decodeChunk(row, source.id, found))
            m_impl->addDamage(
                fmt::format("rank {} of run '{}': a chunk is damaged", rank.value, run_name));
    };
    for (const EnumName<Lane>& name : enumNames<Lane>()) {
        if (lane && *lane != name.value) continue;
        const auto& codes = m_impl->codes.lane;
        const auto code = std::find(codes.begin(), codes.end(), static_cast<int>(name.value));
        if (code == codes.end()) continue;
        PIPER_TRY(m_impl->query(
            "events of a window",
            "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data "
            "FROM chunk WHERE source_id=? AND stream=0 AND lane=? AND begin_ns<? AND end_ns>=? "
            "ORDER BY id",
            [&](Statement& s) {
                s.bind(source.id).bind(code - codes.begin());
                s.bind(window.end_ns).bind(window.begin_ns);
            },
            read));
    }
    std::erase_if(found.events, [&](const Event& e) { return !touches(e, window); });
    std::stable_sort(found.events.begin(), found.events.end(), startsBefore);
    return std::move(found.events);
}

Status Workspace::Impl::buildTiles(const SourceRow& source, std::string_view run_name) {
    Statement remove = database.prepare("DELETE FROM tile WHERE source_id=?");
    PIPER_TRY(done(database, remove.bind(source.id)));
    std::map<RowKey, std::vector<Event>> rows;
    RankTimeline part;
    PIPER_TRY(eachChunk(source, run_name, [&](const Statement& row) {
        if (row.integer(0) != static_cast<std::int64_t>(Stream::Event)) return true;
        part.events.clear();
        if (!decodeChunk(row, source.id, part)) return false;
        for (const Event& e : part.events) rows[rowKeyOf(e)].push_back(e);
        return true;
    }));
    for (auto& [key, events] : rows) {
        std::stable_sort(events.begin(), events.end(), startsBefore);
        PIPER_TRY(insertTiles(source.id, events));
    }
    return {};
}

Status Workspace::Impl::insertTiles(std::int64_t source, std::span<const Event> row) {
    Statement insert = database.prepare(
        "INSERT INTO tile(source_id,lane,track,sub_lane,level,begin_ns,end_ns,count,checksum,data) "
        "VALUES(?,?,?,?,?,?,?,?,?,?)");
    const auto& [lane, track, sub_lane] = rowKeyOf(row.front());
    for (const Level& level : buildLevels(row))
        for (std::size_t at = 0; at < level.buckets.size(); at += kChunkRows) {
            const auto tile = std::span(level.buckets)
                                  .subspan(at, std::min(kChunkRows, level.buckets.size() - at));
            const std::int64_t width = bucketWidth(level.level);
            const ChunkKey chunk{source,
                                 level.level,
                                 static_cast<std::int64_t>(lane),
                                 track,
                                 sub_lane,
                                 tile.front().index * width,
                                 (tile.back().index + 1) * width,
                                 static_cast<std::int64_t>(tile.size())};
            const std::string data = encodeBuckets(tile);
            insert.reset();
            for (std::int64_t v :
                 {chunk.source, chunk.lane, chunk.track, chunk.sub_lane, chunk.stream,
                  chunk.begin_ns, chunk.end_ns, chunk.count, chunk.checksum(data)})
                insert.bind(v);
            PIPER_TRY(done(database, insert.bindBlob(data)));
        }
    return {};
}

Status Workspace::Impl::readTiles(const SourceRow& source, TimeWindow window, int level,
                                  std::vector<RowView>& rows) {
    const std::int64_t width = bucketWidth(level);
    return query(
        "the summary of a rank",
        "SELECT lane, track, sub_lane, begin_ns, end_ns, count, checksum, data FROM tile "
        "WHERE source_id=? AND level=? AND begin_ns<? AND end_ns>? ORDER BY begin_ns",
        [&](Statement& s) {
            s.bind(source.id).bind(level).bind(window.end_ns).bind(window.begin_ns);
        },
        [&](const Statement& row) {
            const ChunkKey key{source.id,      level,          row.integer(0), row.integer(1),
                               row.integer(2), row.integer(3), row.integer(4), row.integer(5)};
            const std::string_view data = row.text(7);
            std::vector<Bucket> buckets;
            if (key.count < 0 || key.checksum(data) != row.integer(6) || key.lane < 0 ||
                key.lane >= std::ssize(codes.lane) ||
                codes.lane[static_cast<std::size_t>(key.lane)] < 0 ||
                !decodeBuckets(data, static_cast<std::size_t>(key.count), codes, buckets)) {
                addDamage(fmt::format("a summary of rank {} is damaged", source.header.rank.value));
                return;
            }
            // No bucket is where an event cannot be.
            std::erase_if(buckets, [&](const Bucket& b) {
                return b.index < -kLargestTime / width || b.index >= kLargestTime / width;
            });
            std::erase_if(buckets, [&](const Bucket& b) {
                return b.index * width >= window.end_ns || (b.index + 1) * width <= window.begin_ns;
            });
            RowView& view = rowOf(
                rows, source.header.rank,
                {static_cast<Lane>(codes.lane[static_cast<std::size_t>(key.lane)]),
                 static_cast<std::int32_t>(key.track), static_cast<std::uint16_t>(key.sub_lane)});
            view.bucket_ns = width;
            view.buckets.insert(view.buckets.end(), buckets.begin(), buckets.end());
        });
}

/// Events of the rows that have no summary in `rows` yet.
Status Workspace::Impl::readWindow(const SourceRow& source, TimeWindow window,
                                   std::vector<RowView>& rows) {
    std::vector<std::array<std::int64_t, 3>> missing;
    PIPER_TRY(query(
        "the rows of a rank",
        "SELECT DISTINCT lane, track, sub_lane FROM chunk WHERE source_id=? AND stream=0",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            const std::array key{row.integer(0), row.integer(1), row.integer(2)};
            if (key[0] < 0 || key[0] >= std::ssize(codes.lane)) return;
            const int lane = codes.lane[static_cast<std::size_t>(key[0])];
            const bool summed = std::any_of(rows.begin(), rows.end(), [&](const RowView& v) {
                return v.bucket_ns > 0 && v.rank == source.header.rank && v.track == key[1] &&
                       v.sub_lane == key[2] && static_cast<int>(v.lane) == lane;
            });
            if (!summed) missing.push_back(key);
        }));
    RankTimeline part;
    for (const auto& key : missing)
        PIPER_TRY(query(
            "events of a window",
            "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data "
            "FROM chunk WHERE source_id=? AND stream=0 AND lane=? AND track=? AND sub_lane=? "
            "AND begin_ns<? AND end_ns>=?",
            [&](Statement& s) {
                s.bind(source.id).bind(key[0]).bind(key[1]).bind(key[2]);
                s.bind(window.end_ns).bind(window.begin_ns);
            },
            [&](const Statement& row) {
                part.events.clear();
                if (!decodeChunk(row, source.id, part))
                    addDamage(fmt::format("rank {}: a chunk is damaged", source.header.rank.value));
                RowView* view = nullptr;
                for (const Event& e : part.events) {
                    if (!touches(e, window)) continue;
                    if (view == nullptr ||
                        rowKeyOf(e) != RowKey{view->lane, view->track, view->sub_lane})
                        view = &rowOf(rows, source.header.rank, rowKeyOf(e));
                    view->events.push_back(e);
                }
            }));
    return {};
}

Result<std::vector<RowView>> Workspace::viewport(std::string_view run_name, TimeWindow window,
                                                 std::int64_t pixel_ns) {
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(run_name));
    PIPER_ASSIGN(const std::vector<SourceRow> sources, m_impl->sourceRows(run.id));
    const Result<std::int64_t> version = m_impl->database.integer("PRAGMA user_version");
    std::vector<RowView> rows;
    for (const SourceRow& source : sources) {
        const int level = levelFor(pixel_ns);
        if (level >= 0 && version.ok() && *version >= 2)
            PIPER_TRY(m_impl->readTiles(source, window, level, rows));
        PIPER_TRY(m_impl->readWindow(source, window, rows));
    }
    for (RowView& row : rows)
        if (!std::is_sorted(row.events.begin(), row.events.end(), startsBefore))
            std::stable_sort(row.events.begin(), row.events.end(), startsBefore);
    std::stable_sort(rows.begin(), rows.end(), [](const RowView& a, const RowView& b) {
        return std::tuple(a.rank, a.lane, a.track, a.sub_lane) <
               std::tuple(b.rank, b.lane, b.track, b.sub_lane);
    });
    return rows;
}

}  // namespace piper
