// SPDX-License-Identifier: Apache-2.0
// What is stored beside the events of a row, so that windows and selections need few of them.
#include <algorithm>

#include "collectors/store/stored_row.h"
#include "collectors/store/workspace_impl.h"
#include "core/run/time_range.h"

namespace piper {

using sqlite::Statement;
using sqlite::Stream;

namespace {

constexpr std::string_view kChunksOfRow =
    "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data FROM chunk "
    "WHERE source_id=? AND stream=0 AND lane=? AND track=? AND sub_lane=? ORDER BY begin_ns";

/// Inserts rows of one table with one prepared statement: numbers, checksum, blob.
class SummaryWriter {
public:
    SummaryWriter(sqlite::Database& database, std::string_view sql)
        : m_database(database), m_insert(database.prepare(sql)) {}

    Status write(std::initializer_list<std::int64_t> numbers, std::string_view blob) {
        m_insert.reset();
        for (const std::int64_t v : numbers) m_insert.bind(v);
        m_insert.bind(numbersChecksum(numbers, blob)).bindBlob(blob);
        return done(m_database, m_insert);
    }

private:
    sqlite::Database& m_database;
    Statement m_insert;
};

Status insertLevels(sqlite::Database& database, const StoredRow& row,
                    const std::vector<Level>& levels) {
    SummaryWriter writer(database,
                         "INSERT INTO tile(row_id,level,begin_ns,end_ns,count,checksum,data) "
                         "VALUES(?,?,?,?,?,?,?)");
    for (const Level& level : levels)
        for (std::size_t at = 0; at < level.buckets.size(); at += kChunkRows) {
            const auto tile = std::span(level.buckets)
                                  .subspan(at, std::min(kChunkRows, level.buckets.size() - at));
            const std::int64_t width = bucketWidth(level.level);
            PIPER_TRY(writer.write({row.id, level.level, tile.front().index * width,
                                    (tile.back().index + 1) * width, std::ssize(tile)},
                                   encodeBuckets(tile)));
        }
    return {};
}

/// A segment of more labels than a blob holds: of a digest it takes several blobs, else none, for
/// its events are there.
Status insertSegments(sqlite::Database& database, const StoredRow& row,
                      const std::vector<Segment>& segments) {
    SummaryWriter writer(database,
                         "INSERT INTO total(row_id,begin_ns,end_ns,next_ns,count,checksum,data) "
                         "VALUES(?,?,?,?,?,?,?)");
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Segment& s = segments[i];
        const std::int64_t next =
            i + 1 < segments.size() ? segments[i + 1].begin_ns : kLargestTime + 1;
        const auto put = [&](std::span<const LabelSums::value_type> sums) {
            return writer.write({row.id, s.begin_ns, s.end_ns, next, std::ssize(sums)},
                                encodeSums(sums));
        };
        if (row.hasChunks() && s.sums.size() > kChunkRows) {
            PIPER_TRY(put({}));
            continue;
        }
        for (std::size_t at = 0; at < s.sums.size(); at += kChunkRows)
            PIPER_TRY(put(std::span(s.sums).subspan(at, std::min(kChunkRows, s.sums.size() - at))));
    }
    return {};
}

/// The finest level of a digest has at most so many buckets: about the pixels of a wide window.
constexpr std::size_t kMostDigestBuckets = 2048;

/// Levels too fine for a digest go; the coarsest stays in any case.
void keepForDigest(std::vector<Level>& levels) {
    while (levels.size() > 1 && levels.front().buckets.size() > kMostDigestBuckets)
        levels.erase(levels.begin());
}

}  // namespace

Status Workspace::Impl::insertRow(StoredRow& row) {
    Statement insert = database.prepare(
        "INSERT INTO row(source_id,lane,track,sub_lane,count,begin_ns,end_ns,span_ns,levels,"
        "checksum) VALUES(?,?,?,?,?,?,?,?,?,?)");
    for (const std::int64_t v : row.numbers()) insert.bind(v);
    PIPER_TRY(done(database, insert.bind(numbersChecksum(row.numbers(), {}))));
    row.id = sqlite3_last_insert_rowid(database.handle());
    return {};
}

Result<std::vector<StoredRow>> Workspace::Impl::storedRows(const SourceRow& source) {
    std::vector<StoredRow> out;
    if (version < sqlite::kSchemaOfRows) return out;
    PIPER_TRY(query(
        "the rows of a rank",
        "SELECT id, lane, track, sub_lane, count, begin_ns, end_ns, span_ns, levels, checksum "
        "FROM row WHERE source_id=?",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& r) {
            StoredRow row{r.integer(0), source.id,    r.integer(1), r.integer(2), r.integer(3),
                          r.integer(4), r.integer(5), r.integer(6), r.integer(7), r.integer(8)};
            if (isIntact(row.numbers(), {}, r.integer(9)))
                out.push_back(row);
            else
                addDamage(fmt::format("a row of rank {} is damaged", source.header.rank.value));
        }));
    return out;
}

Status Workspace::Impl::insertSummary(std::int64_t source, std::span<const Event> events,
                                      bool digested) {
    StoredRow row;
    row.source = source;
    row.lane = static_cast<std::int64_t>(events.front().lane);
    row.track = events.front().track;
    row.sub_lane = events.front().sub_lane;
    std::vector<Level> levels = buildLevels(events);
    if (digested) {
        keepForDigest(levels);
        row.takeRange(events);
    } else {
        PIPER_TRY(query(
            "chunks of a row",
            fmt::format("{} AND lane=? AND track=? AND sub_lane=?", kRowOfChunks),
            [&](Statement& s) { s.bind(source).bind(row.lane).bind(row.track).bind(row.sub_lane); },
            [&](const Statement& found) { row.takeRange(found); }));
    }
    for (const Level& level : levels) row.levels |= std::int64_t{1} << level.level;
    PIPER_TRY(insertRow(row));
    PIPER_TRY(insertLevels(database, row, levels));
    return insertSegments(database, row, buildSegments(events));
}

Status Workspace::Impl::insertSteps(std::int64_t source, const StepWindows& steps) {
    Statement insert = database.prepare(
        "INSERT INTO step_window(source_id,step,begin_ns,end_ns,checksum) VALUES(?,?,?,?,?)");
    for (const auto& [step, window] : steps) {
        const std::array<std::int64_t, 4> numbers{source, step, window.begin, window.end};
        insert.reset();
        for (const std::int64_t v : numbers) insert.bind(v);
        PIPER_TRY(done(database, insert.bind(numbersChecksum(numbers, {}))));
    }
    return {};
}

Status Workspace::Impl::removeSummaries(std::int64_t source) {
    for (const char* sql :
         {"DELETE FROM step_window WHERE source_id=?",
          "DELETE FROM tile WHERE row_id IN (SELECT id FROM row WHERE source_id=?)",
          "DELETE FROM total WHERE row_id IN (SELECT id FROM row WHERE source_id=?)",
          "DELETE FROM row WHERE source_id=?"}) {
        Statement remove = database.prepare(sql);
        PIPER_TRY(done(database, remove.bind(source)));
    }
    return {};
}

Status Workspace::Impl::checkSummaries(const SourceRow& source) {
    const auto check = [&](std::string_view table, std::string_view numbers, const StoredRow& row,
                           auto decode) {
        return query(
            fmt::format("table {}", table),
            fmt::format("SELECT {}, count, checksum, data FROM {} WHERE row_id=?", numbers, table),
            [&](Statement& s) { s.bind(row.id); },
            [&](const Statement& r) {
                const std::array<std::int64_t, 5> key{row.id, r.integer(0), r.integer(1),
                                                      r.integer(2), r.integer(3)};
                if (key.back() < 0 || !isIntact(key, r.text(5), r.integer(4)) ||
                    !decode(r.text(5), static_cast<std::size_t>(key.back())))
                    addDamage(fmt::format("table {}: a row of rank {} is damaged", table,
                                          source.header.rank.value));
            });
    };
    PIPER_ASSIGN(const std::vector<StoredRow> rows, storedRows(source));
    for (const StoredRow& row : rows) {
        PIPER_TRY(check("tile", "level, begin_ns, end_ns", row,
                        [&](std::string_view blob, std::size_t count) {
                            std::vector<Bucket> buckets;
                            return decodeBuckets(blob, count, codes, buckets);
                        }));
        PIPER_TRY(check("total", "begin_ns, end_ns, next_ns", row,
                        [&](std::string_view blob, std::size_t count) {
                            LabelSums sums;
                            return decodeSums(blob, count, codes, sums);
                        }));
    }
    StepWindows steps;
    return readSteps(source, steps);
}

Status Workspace::Impl::buildSummaries(const SourceRow& source) {
    PIPER_ASSIGN(const std::vector<StoredRow> before, storedRows(source));
    // A digest has nothing to make them of.
    if (lacksEvents(before)) return {};
    PIPER_TRY(removeSummaries(source.id));
    const std::string what = fmt::format("the summary of rank {}", source.header.rank.value);
    std::vector<std::array<std::int64_t, 3>> rows;
    PIPER_TRY(query(
        what, "SELECT DISTINCT lane, track, sub_lane FROM chunk WHERE source_id=? AND stream=0",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& r) {
            rows.push_back({r.integer(0), r.integer(1), r.integer(2)});
        }));
    StepWindows steps;
    RankTimeline part;  // one row at a time: a rank may not fit into memory
    for (const std::array<std::int64_t, 3>& place : rows) {
        part.events.clear();
        PIPER_TRY(query(
            what, kChunksOfRow,
            [&](Statement& s) { s.bind(source.id).bind(place[0]).bind(place[1]).bind(place[2]); },
            [&](const Statement& row) {
                if (!decodeChunk(row, source.id, part))
                    addDamage(fmt::format("{}: a chunk is damaged", what));
            }));
        if (part.events.empty()) continue;
        if (!std::is_sorted(part.events.begin(), part.events.end(), startsBefore))
            std::stable_sort(part.events.begin(), part.events.end(), startsBefore);
        PIPER_TRY(insertSummary(source.id, part.events, false));
        widen(steps, part.events);
    }
    return insertSteps(source.id, steps);
}

Status Workspace::Impl::summarizeEnded() {
    PIPER_ASSIGN(const std::vector<RunRow> runs, runRows());
    for (const RunRow& run : runs) {
        if (run.header.outcome == RunOutcome::Running) continue;
        PIPER_ASSIGN(const std::vector<SourceRow> sources, sourceRows(run.id));
        for (const SourceRow& source : sources) PIPER_TRY(buildSummaries(source));
    }
    return {};
}

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

}  // namespace piper
