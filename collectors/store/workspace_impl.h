// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <set>
#include <tuple>

#include "collectors/store/pyramid.h"
#include "collectors/store/schema.h"
#include "collectors/store/workspace.h"

namespace piper {

/// One snapshot for several statements while others write.
class Snapshot {
public:
    explicit Snapshot(sqlite::Database& database)
        : m_database(database),
          m_open(sqlite3_exec(database.handle(), "BEGIN", nullptr, nullptr, nullptr) == SQLITE_OK) {
    }
    ~Snapshot() {
        if (m_open) sqlite3_exec(m_database.handle(), "COMMIT", nullptr, nullptr, nullptr);
    }
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;

private:
    sqlite::Database& m_database;
    bool m_open;
};

/// Rows of up to so many events stand in a digest with all of them.
inline constexpr std::size_t kWholeInDigest = 1024;

struct StoredRow;

/// A row of table run with its id.
struct RunRow {
    std::int64_t id = 0;
    Run header;
};

/// A row of table source.
struct SourceRow {
    std::int64_t id = 0;
    std::int64_t chunks = 0;
    RankTimeline header;
};

struct Workspace::Impl {
    sqlite::Database database;
    CodeTables codes;
    std::vector<std::string> damage;
    bool writable = false;
    std::int64_t version = sqlite::kSchemaVersion;  ///< of the file when it was opened
    /// Ranks whose summaries were made from the records as they came.
    std::set<std::int64_t> summed;

    explicit Impl(sqlite::Database opened) : database(std::move(opened)) {}

    /// Runs a query and calls `row` for each row. What cannot be read is noted as damage of `what`
    /// and left out. Errors: only faults that are not the file's (busy, memory).
    template <class Bind, class Row>
    Status query(std::string_view what, std::string_view sql, Bind bind, Row row) {
        sqlite::Statement statement = database.prepare(sql);
        bind(statement);
        int code = SQLITE_DONE;
        while ((code = statement.step()) == SQLITE_ROW) row(statement);
        return code == SQLITE_DONE ? Status() : unreadable(code, what);
    }
    Status unreadable(int code, std::string_view what);
    void addDamage(std::string sentence);
    Status requireWritable() const;

    Result<std::vector<RunRow>> runRows();
    Result<RunRow> findRun(std::string_view name);
    Result<std::vector<SourceRow>> sourceRows(std::int64_t run_id);
    Status readNotes(RunRow& run);
    Status readCounters(const SourceRow& source, RankTimeline& out);
    /// Names and tracks of a rank.
    Status readNames(const SourceRow& source, RankTimeline& out);
    Status readTracks(const SourceRow& source, RankTimeline& out);
    Result<Run> readRun(std::string_view name, bool with_events);
    Status readChunks(const SourceRow& source, std::string_view run_name, RankTimeline& out);
    /// Reads no chunk of events, and so does not count whether all chunks are there.
    Status readSamples(const SourceRow& source, std::initializer_list<sqlite::Stream> streams,
                       RankTimeline& out);
    /// How many rows of any table the file can hold at most, by its size.
    [[nodiscard]] std::int64_t mostRows();
    /// Calls `visit` for every chunk that can be fetched; it says whether the chunk was intact.
    Status eachChunk(const SourceRow& source, std::string_view run_name,
                     const std::function<bool(const sqlite::Statement&)>& visit);
    Result<SourceRow> findSource(std::string_view run_name, RankId rank);
    /// Adds the rows of one chunk; false when the chunk is damaged.
    bool decodeChunk(const sqlite::Statement& row, std::int64_t source_id, RankTimeline& out) const;

    /// Replaces the summaries of every row of a rank by those of its chunks.
    Status buildSummaries(const SourceRow& source);
    Status removeSummaries(std::int64_t source);
    /// Reads them all; damage() says what is wrong.
    Status checkSummaries(const SourceRow& source);
    /// Rows of table row; none in a file of a version without.
    Result<std::vector<StoredRow>> storedRows(const SourceRow& source);
    Status insertRow(StoredRow& row);
    /// Adds the summary of one row from all its events, sorted by start. Without `digested` its
    /// chunks are there; with it only levels of few buckets are kept.
    Status insertSummary(std::int64_t source, std::span<const Event> row, bool digested);
    /// When a rank was in which step, by its events.
    Status insertSteps(std::int64_t source, const StepWindows& steps);
    Status readSteps(const SourceRow& source, StepWindows& out);
    /// Summarizes every run that has ended: after a file was brought to this version.
    Status summarizeEnded();
    Status insertRun(const Run& header, std::int64_t& id);
    Status insertRank(std::int64_t run_id, const RankTimeline& header, std::int64_t& id);
    /// What is known of the records of a rank: of Whole ones and for a Digest these are all, and
    /// the summary is made at once. A digest keeps no events of long rows.
    enum class Records { Some, Whole, Digest };
    Status insertRecords(std::int64_t rank_id, const RankTimeline& records, Records what);
    /// Adds a rank in a transaction of its own.
    Result<std::int64_t> addRecords(std::int64_t run_id, const RankTimeline& rank, Records what);
    /// What a lane of this file is in this program; -1 when it is not known.
    [[nodiscard]] std::int64_t ownLane(std::int64_t lane) const;
    /// Adds events and summaries of another file's rank, as they are stored there.
    Status copyEvents(Impl& from, const SourceRow& source, std::int64_t rank_id);
    Status copySummaries(Impl& from, const SourceRow& source, std::int64_t rank_id);
    Status removeRank(std::int64_t source);
    Status putNote(std::int64_t run_id, std::string_view name, std::string_view value);
};

[[nodiscard]] std::int64_t runChecksum(const Run& run);
[[nodiscard]] std::int64_t sourceChecksum(std::int64_t run_id, const RankTimeline& header);
[[nodiscard]] std::int64_t trackChecksum(std::int64_t source, std::int64_t number,
                                         const Track& track);
[[nodiscard]] std::int64_t nameChecksum(std::int64_t source, std::int64_t number,
                                        std::string_view text);
/// Steps a statement that gives no row.
[[nodiscard]] Status done(const sqlite::Database& database, sqlite::Statement& statement);
[[nodiscard]] std::int64_t pairChecksum(std::int64_t owner, std::string_view name,
                                        std::string_view value);
/// The row of a timeline that an event stands on.
using RowKey = std::tuple<Lane, std::int32_t, std::uint16_t>;
[[nodiscard]] inline RowKey rowKeyOf(const Event& e) {
    return {e.lane, e.track, e.sub_lane};
}
/// What a chunk's checksum covers.
struct ChunkKey {
    std::int64_t source = 0, stream = 0, lane = -1, track = -1, sub_lane = 0;
    std::int64_t begin_ns = 0, end_ns = 0, count = 0;
    [[nodiscard]] std::array<std::int64_t, 8> numbers() const {
        return {source, stream, lane, track, sub_lane, begin_ns, end_ns, count};
    }
    /// The first columns of a row of table chunk, stream to data; false when it is damaged.
    [[nodiscard]] static bool read(const sqlite::Statement& row, std::int64_t source,
                                   ChunkKey& out);
};
/// Adds a chunk with a statement of kInsertChunk.
[[nodiscard]] Status insertChunk(const sqlite::Database& database, sqlite::Statement& insert,
                                 const ChunkKey& key, std::string_view data);
inline constexpr std::string_view kInsertChunk =
    "INSERT INTO chunk(source_id,stream,lane,track,sub_lane,begin_ns,end_ns,count,checksum,data) "
    "VALUES(?,?,?,?,?,?,?,?,?,?)";

}  // namespace piper
