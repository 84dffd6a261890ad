// SPDX-License-Identifier: Apache-2.0
// Writing the records of a rank: chunks by lane, names, tracks and counters.
#include <algorithm>
#include <map>
#include <set>

#include "collectors/store/workspace_impl.h"

namespace piper {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Stream;

bool ChunkKey::read(const Statement& row, std::int64_t source, ChunkKey& out) {
    out = {source,         row.integer(0), row.integer(1), row.integer(2),
           row.integer(3), row.integer(4), row.integer(5), row.integer(6)};
    return out.count >= 0 && isIntact(out.numbers(), row.text(8), row.integer(7));
}

Status insertChunk(const Database& database, Statement& insert, const ChunkKey& key,
                   std::string_view data) {
    insert.reset();
    for (const std::int64_t v : key.numbers()) insert.bind(v);
    insert.bind(numbersChecksum(key.numbers(), data)).bindBlob(data);
    return done(database, insert);
}

std::int64_t nameChecksum(std::int64_t source, std::int64_t number, std::string_view text) {
    return Checksum().add(source).add(number).add(text).value();
}

std::int64_t trackChecksum(std::int64_t source, std::int64_t number, const Track& track) {
    return Checksum()
        .add(source)
        .add(number)
        .add(track.name)
        .add(track.process)
        .add(track.thread)
        .add(track.device)
        .add(track.stream)
        .value();
}

namespace {

/// Writes the chunks of one rank with one prepared statement.
class ChunkWriter {
public:
    ChunkWriter(Database& database, std::int64_t source)
        : m_database(database), m_source(source), m_insert(database.prepare(kInsertChunk)) {}

    /// `encode` makes the blob of a span, `range` gives the times of one row; `key` says where.
    template <class Row, class Encode, class Range>
    Status write(ChunkKey key, std::span<const Row> rows, Encode encode, Range range) {
        key.source = m_source;
        for (std::size_t at = 0; at < rows.size(); at += kChunkRows) {
            const auto part = rows.subspan(at, std::min(kChunkRows, rows.size() - at));
            Interval whole = range(part.front());
            for (const Row& row : part) {
                const Interval one = range(row);
                whole.begin = std::min(whole.begin, one.begin);
                whole.end = std::max(whole.end, one.end);
            }
            key.begin_ns = whole.begin;
            key.end_ns = whole.end;
            key.count = static_cast<std::int64_t>(part.size());
            PIPER_TRY(insertChunk(m_database, m_insert, key, encode(part)));
            ++m_written;
        }
        return {};
    }

    [[nodiscard]] std::int64_t written() const { return m_written; }

private:
    Database& m_database;
    std::int64_t m_source;
    Statement m_insert;
    std::int64_t m_written = 0;
};

Status writeRow(ChunkWriter& writer, std::span<const Event> events) {
    ChunkKey key;
    key.stream = static_cast<std::int64_t>(Stream::Event);
    key.lane = static_cast<std::int64_t>(events.front().lane);
    key.track = events.front().track;
    key.sub_lane = events.front().sub_lane;
    return writer.write(key, events, encodeEvents, [](const Event& e) {
        return Interval{e.start_ns, e.end_ns()};
    });
}

/// Ends of the spans of equal row; nothing when a row comes twice.
std::vector<std::size_t> endsOfRows(std::span<const Event> events) {
    std::set<RowKey> seen;
    std::vector<std::size_t> ends;
    for (std::size_t i = 1; i <= events.size(); ++i) {
        if (i < events.size() && rowKeyOf(events[i]) == rowKeyOf(events[i - 1])) continue;
        if (!seen.insert(rowKeyOf(events[i - 1])).second) return {};
        ends.push_back(i);
    }
    return ends;
}

/// Calls `write` for the events of one row after the other. Those that come sorted by row are
/// passed as they lie; others are gathered by row first.
template <class Write>
Status eachRow(std::span<const Event> events, Write write) {
    if (events.empty()) return {};
    std::size_t begin = 0;
    for (std::size_t end : endsOfRows(events)) {
        PIPER_TRY(write(events.subspan(begin, end - begin)));
        begin = end;
    }
    if (begin > 0) return {};
    std::map<RowKey, std::vector<Event>> rows;
    for (const Event& e : events) rows[rowKeyOf(e)].push_back(e);
    for (const auto& [row, part] : rows) PIPER_TRY(write(std::span<const Event>(part)));
    return {};
}

ChunkKey keyOf(Stream stream) {
    ChunkKey key;
    key.stream = static_cast<std::int64_t>(stream);
    return key;
}

Status writeSamples(ChunkWriter& writer, const RankTimeline& records) {
    PIPER_TRY(writer.write(keyOf(Stream::Memory), std::span<const MemorySample>(records.memory),
                           encodeMemory, [](const MemorySample& s) {
                               return Interval{s.time_ns, s.time_ns};
                           }));
    PIPER_TRY(writer.write(keyOf(Stream::Clock), std::span<const ClockSample>(records.clock),
                           encodeClock, [](const ClockSample& s) {
                               return Interval{s.time_ns, s.time_ns};
                           }));
    PIPER_TRY(writer.write(keyOf(Stream::Step), std::span<const StepRecord>(records.steps),
                           encodeSteps, [](const StepRecord& s) {
                               return Interval{s.start_ns, s.end_ns};
                           }));
    PIPER_TRY(writer.write(keyOf(Stream::ExpertLoad),
                           std::span<const ExpertLoad>(records.expert_load), encodeExpertLoad,
                           [](const ExpertLoad& l) {
                               return Interval{l.step, l.step};
                           }));
    return writer.write(keyOf(Stream::StepTotals), std::span<const StepTotals>(records.step_totals),
                        encodeStepTotals, [](const StepTotals& s) {
                            return Interval{s.step, s.step};
                        });
}

Result<std::int64_t> countOf(Database& database, const char* sql, std::int64_t source) {
    Statement count = database.prepare(sql);
    const int code = count.bind(source).step();
    if (code != SQLITE_ROW) return database.error(code);
    return count.integer(0);
}

/// Names continue the numbering of those already there.
Status writeNames(Database& database, std::int64_t source, const std::vector<std::string>& names) {
    if (names.empty()) return {};
    PIPER_ASSIGN(std::int64_t number,
                 countOf(database, "SELECT count(*) FROM name WHERE source_id=?", source));
    Statement insert =
        database.prepare("INSERT INTO name(source_id,number,text,checksum) VALUES(?,?,?,?)");
    for (const std::string& text : names) {
        insert.reset();
        insert.bind(source).bind(number).bind(text).bind(nameChecksum(source, number, text));
        PIPER_TRY(done(database, insert));
        ++number;
    }
    return {};
}

Status writeTracks(Database& database, std::int64_t source, const std::vector<Track>& tracks) {
    if (tracks.empty()) return {};
    PIPER_ASSIGN(std::int64_t number,
                 countOf(database, "SELECT count(*) FROM track WHERE source_id=?", source));
    Statement insert = database.prepare(
        "INSERT INTO track(source_id,number,name,process,thread,device,stream,checksum) "
        "VALUES(?,?,?,?,?,?,?,?)");
    for (const Track& track : tracks) {
        insert.reset();
        insert.bind(source).bind(number).bind(track.name).bind(track.process).bind(track.thread);
        insert.bind(track.device).bind(track.stream).bind(trackChecksum(source, number, track));
        PIPER_TRY(done(database, insert));
        ++number;
    }
    return {};
}

}  // namespace

Status Workspace::Impl::insertRecords(std::int64_t rank_id, const RankTimeline& records,
                                      Records what) {
    // Those there are of fewer records.
    if (!records.events.empty()) PIPER_TRY(removeSummaries(rank_id));
    ChunkWriter writer(database, rank_id);
    PIPER_TRY(eachRow(records.events, [&](std::span<const Event> row) -> Status {
        const bool digested = what == Records::Digest && row.size() > kWholeInDigest;
        if (!digested) PIPER_TRY(writeRow(writer, row));
        if (what == Records::Some) return {};
        if (std::is_sorted(row.begin(), row.end(), startsBefore))
            return insertSummary(rank_id, row, digested);
        std::vector<Event> sorted(row.begin(), row.end());
        std::stable_sort(sorted.begin(), sorted.end(), startsBefore);
        return insertSummary(rank_id, sorted, digested);
    }));
    if (what == Records::Some) {
        summed.erase(rank_id);
    } else {
        StepWindows steps;
        widen(steps, records.events);
        PIPER_TRY(insertSteps(rank_id, steps));
        summed.insert(rank_id);
    }
    PIPER_TRY(writeSamples(writer, records));
    if (writer.written() > 0) {
        Statement update = database.prepare("UPDATE source SET chunks=chunks+? WHERE id=?");
        PIPER_TRY(done(database, update.bind(writer.written()).bind(rank_id)));
        if (sqlite3_changes(database.handle()) != 1)
            return fail(ErrorCode::NotFound, "no rank with id {}", rank_id).at(database.path());
    }
    PIPER_TRY(writeNames(database, rank_id, records.names));
    PIPER_TRY(writeTracks(database, rank_id, records.tracks));
    Statement put = database.prepare(
        "INSERT OR REPLACE INTO counter(source_id,name,value,checksum) VALUES(?,?,?,?)");
    for (const auto& [name, value] : records.counters) {
        put.reset();
        put.bind(rank_id).bind(name).bind(value).bind(pairChecksum(rank_id, name, value));
        PIPER_TRY(done(database, put));
    }
    return {};
}

Status Workspace::setClock(std::string_view run_name, RankId rank, std::int64_t offset_ns,
                           std::span<const ClockSample> samples) {
    PIPER_TRY(m_impl->requireWritable());
    Database& database = m_impl->database;
    sqlite::Transaction transaction(database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(run_name));
    PIPER_ASSIGN(SourceRow source, m_impl->findSource(run_name, rank));
    Statement remove = database.prepare("DELETE FROM chunk WHERE source_id=? AND stream=?");
    PIPER_TRY(
        done(database, remove.bind(source.id).bind(static_cast<std::int64_t>(Stream::Clock))));
    const std::int64_t removed = sqlite3_changes(database.handle());
    ChunkWriter writer(database, source.id);
    PIPER_TRY(writer.write(keyOf(Stream::Clock), samples, encodeClock, [](const ClockSample& s) {
        return Interval{s.time_ns, s.time_ns};
    }));
    source.header.offset_ns = offset_ns;
    Statement update =
        database.prepare("UPDATE source SET offset_ns=?, checksum=?, chunks=chunks+? WHERE id=?");
    update.bind(offset_ns).bind(sourceChecksum(run.id, source.header));
    PIPER_TRY(done(database, update.bind(writer.written() - removed).bind(source.id)));
    return transaction.commit();
}

}  // namespace piper
