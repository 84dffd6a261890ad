// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/workspace.h"

#include <algorithm>
#include <array>

#include "collectors/store/workspace_impl.h"

namespace piper {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Stream;
using sqlite::Transaction;

std::int64_t runChecksum(const Run& run) {
    return Checksum()
        .add(run.name)
        .add(toText(run.kind))
        .add(toText(run.outcome))
        .add(run.outcome_reason)
        .add(run.plan_json)
        .add(run.started_at)
        .add(run.program_version)
        .value();
}

std::int64_t sourceChecksum(std::int64_t run_id, const RankTimeline& header) {
    return Checksum()
        .add(run_id)
        .add(header.rank.value)
        .add(header.stage.value)
        .add(header.host)
        .add(header.offset_ns)
        .value();
}

std::int64_t pairChecksum(std::int64_t owner, std::string_view name, std::string_view value) {
    return Checksum().add(owner).add(name).add(value).value();
}

std::int64_t ChunkKey::checksum(std::string_view data) const {
    return Checksum()
        .add(source)
        .add(stream)
        .add(lane)
        .add(begin_ns)
        .add(end_ns)
        .add(count)
        .add(data)
        .value();
}

namespace {

Status done(const Database& database, Statement& statement) {
    const int code = statement.step();
    if (code != SQLITE_DONE) return database.error(code);
    return {};
}

/// Writes the chunks of one rank with one prepared statement.
class ChunkWriter {
public:
    ChunkWriter(Database& database, std::int64_t source)
        : m_database(database),
          m_source(source),
          m_insert(database.prepare("INSERT INTO chunk(source_id,stream,lane,begin_ns,end_ns,count,"
                                    "checksum,data) VALUES(?,?,?,?,?,?,?,?)")) {}

    /// `encode` makes the blob of a span, `range` gives the times of one row.
    template <class Row, class Encode, class Range>
    Status write(Stream stream, std::int64_t lane, std::span<const Row> rows, Encode encode,
                 Range range) {
        for (std::size_t at = 0; at < rows.size(); at += kChunkRows) {
            const auto part = rows.subspan(at, std::min(kChunkRows, rows.size() - at));
            Interval whole = range(part.front());
            for (const Row& row : part) {
                const Interval one = range(row);
                whole.begin = std::min(whole.begin, one.begin);
                whole.end = std::max(whole.end, one.end);
            }
            const ChunkKey key{m_source,  static_cast<std::int64_t>(stream),     lane, whole.begin,
                               whole.end, static_cast<std::int64_t>(part.size())};
            PIPER_TRY(insert(key, encode(part)));
        }
        return {};
    }

    [[nodiscard]] std::int64_t written() const { return m_written; }

private:
    Status insert(const ChunkKey& key, const std::string& data) {
        m_insert.reset();
        m_insert.bind(key.source).bind(key.stream).bind(key.lane).bind(key.begin_ns);
        m_insert.bind(key.end_ns).bind(key.count).bind(key.checksum(data)).bindBlob(data);
        ++m_written;
        return done(m_database, m_insert);
    }

    Database& m_database;
    std::int64_t m_source;
    Statement m_insert;
    std::int64_t m_written = 0;
};

Status writeEvents(ChunkWriter& writer, const std::vector<Event>& events) {
    std::array<std::vector<Event>, static_cast<std::size_t>(Lane::Stream) + 1> lanes;
    for (const Event& e : events) lanes[static_cast<std::size_t>(e.lane)].push_back(e);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        PIPER_TRY(writer.write(Stream::Event, static_cast<std::int64_t>(lane),
                               std::span<const Event>(lanes[lane]), encodeEvents,
                               [](const Event& e) {
                                   return Interval{e.start_ns, e.end_ns()};
                               }));
    return {};
}

Status writeSamples(ChunkWriter& writer, const RankTimeline& records) {
    PIPER_TRY(writer.write(Stream::Memory, -1, std::span<const MemorySample>(records.memory),
                           encodeMemory, [](const MemorySample& s) {
                               return Interval{s.time_ns, s.time_ns};
                           }));
    PIPER_TRY(writer.write(Stream::Clock, -1, std::span<const ClockSample>(records.clock),
                           encodeClock, [](const ClockSample& s) {
                               return Interval{s.time_ns, s.time_ns};
                           }));
    PIPER_TRY(writer.write(Stream::Step, -1, std::span<const StepRecord>(records.steps),
                           encodeSteps, [](const StepRecord& s) {
                               return Interval{s.start_ns, s.end_ns};
                           }));
    return writer.write(Stream::ExpertLoad, -1, std::span<const ExpertLoad>(records.expert_load),
                        encodeExpertLoad, [](const ExpertLoad& l) {
                            return Interval{l.step, l.step};
                        });
}

}  // namespace

Workspace::Workspace(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;
Workspace::~Workspace() {
    if (m_impl) (void)close();
}

std::string Workspace::path() const {
    return m_impl->database.path();
}

Result<Workspace> Workspace::create(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored))
        return fail(ErrorCode::Io, "exists already").at(path.string());
    PIPER_ASSIGN(Database database, Database::open(path.string(), Database::Mode::Create));
    auto impl = std::make_unique<Impl>(std::move(database));
    PIPER_TRY(sqlite::createSchema(impl->database));
    impl->codes = CodeTables::own();
    impl->writable = true;
    return Workspace(std::move(impl));
}

Result<Workspace> Workspace::openOrCreate(const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return open(path, Mode::ReadWrite);
    return create(path);
}

Status Workspace::Impl::requireWritable() const {
    if (writable) return {};
    return fail(ErrorCode::InvalidInput, "opened for reading only").at(database.path());
}

Status Workspace::Impl::insertRun(const Run& header, std::int64_t& id) {
    Statement taken = database.prepare("SELECT 1 FROM run WHERE name=?");
    if (taken.bind(header.name).step() == SQLITE_ROW) {
        Error error = fail(ErrorCode::RuleBroken, "a run named '{}' exists already", header.name);
        error.hint = "choose another name or remove that run";
        return std::move(error).at(database.path());
    }
    Statement insert = database.prepare(
        "INSERT INTO run(name,kind,outcome,outcome_reason,plan_json,started_at,program_version,"
        "checksum) VALUES(?,?,?,?,?,?,?,?)");
    insert.bind(header.name).bind(toText(header.kind)).bind(toText(header.outcome));
    insert.bind(header.outcome_reason).bind(header.plan_json).bind(header.started_at);
    insert.bind(header.program_version).bind(runChecksum(header));
    PIPER_TRY(done(database, insert));
    id = sqlite3_last_insert_rowid(database.handle());
    for (const auto& [name, value] : header.notes) PIPER_TRY(putNote(id, name, value));
    return {};
}

Status Workspace::Impl::putNote(std::int64_t run_id, std::string_view name,
                                std::string_view value) {
    Statement put =
        database.prepare("INSERT OR REPLACE INTO note(run_id,name,value,checksum) VALUES(?,?,?,?)");
    put.bind(run_id).bind(name).bind(value).bind(pairChecksum(run_id, name, value));
    return done(database, put);
}

Status Workspace::Impl::insertRank(std::int64_t run_id, const RankTimeline& header,
                                   std::int64_t& id) {
    Statement insert = database.prepare(
        "INSERT INTO source(run_id,rank,stage,host,offset_ns,checksum) VALUES(?,?,?,?,?,?)");
    insert.bind(run_id).bind(header.rank.value).bind(header.stage.value).bind(header.host);
    insert.bind(header.offset_ns).bind(sourceChecksum(run_id, header));
    PIPER_TRY(done(database, insert));
    id = sqlite3_last_insert_rowid(database.handle());
    return {};
}

Status Workspace::Impl::insertRecords(std::int64_t rank_id, const RankTimeline& records) {
    ChunkWriter writer(database, rank_id);
    PIPER_TRY(writeEvents(writer, records.events));
    PIPER_TRY(writeSamples(writer, records));
    if (writer.written() > 0) {
        Statement update = database.prepare("UPDATE source SET chunks=chunks+? WHERE id=?");
        PIPER_TRY(done(database, update.bind(writer.written()).bind(rank_id)));
        if (sqlite3_changes(database.handle()) != 1)
            return fail(ErrorCode::NotFound, "no rank with id {}", rank_id).at(database.path());
    }
    Statement put = database.prepare(
        "INSERT OR REPLACE INTO counter(source_id,name,value,checksum) VALUES(?,?,?,?)");
    for (const auto& [name, value] : records.counters) {
        put.reset();
        put.bind(rank_id).bind(name).bind(value).bind(pairChecksum(rank_id, name, value));
        PIPER_TRY(done(database, put));
    }
    return {};
}

Result<std::int64_t> Workspace::addRun(const Run& run) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    std::int64_t run_id = 0;
    PIPER_TRY(m_impl->insertRun(run, run_id));
    for (const RankTimeline& rank : run.ranks) {
        std::int64_t rank_id = 0;
        PIPER_TRY(m_impl->insertRank(run_id, rank, rank_id));
        PIPER_TRY(m_impl->insertRecords(rank_id, rank));
    }
    PIPER_TRY(transaction.commit());
    return run_id;
}

Result<std::int64_t> Workspace::beginRun(const Run& header) {
    Run only_header = header;
    only_header.ranks.clear();
    return addRun(only_header);
}

Result<std::int64_t> Workspace::addRank(std::int64_t run_id, const RankTimeline& header) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    std::int64_t id = 0;
    PIPER_TRY(m_impl->insertRank(run_id, header, id));
    PIPER_TRY(transaction.commit());
    return id;
}

Status Workspace::append(std::int64_t rank_id, const RankTimeline& records) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_TRY(m_impl->insertRecords(rank_id, records));
    return transaction.commit();
}

Status Workspace::endRun(std::int64_t run_id, RunOutcome outcome, std::string_view reason) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(std::vector<RunRow> rows, m_impl->runRows());
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const RunRow& r) { return r.id == run_id; });
    if (row == rows.end()) return fail(ErrorCode::NotFound, "no run with id {}", run_id).at(path());
    row->header.outcome = outcome;
    row->header.outcome_reason = std::string(reason);
    Statement update = m_impl->database.prepare(
        "UPDATE run SET outcome=?, outcome_reason=?, checksum=? WHERE id=?");
    update.bind(toText(outcome)).bind(reason).bind(runChecksum(row->header)).bind(run_id);
    PIPER_TRY(done(m_impl->database, update));
    return transaction.commit();
}

Status Workspace::setNote(std::int64_t run_id, std::string_view name, std::string_view value) {
    PIPER_TRY(m_impl->requireWritable());
    return m_impl->putNote(run_id, name, value);
}

Status Workspace::removeRun(std::string_view name) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(name));
    for (const char* sql :
         {"DELETE FROM chunk WHERE source_id IN (SELECT id FROM source WHERE run_id=?)",
          "DELETE FROM counter WHERE source_id IN (SELECT id FROM source WHERE run_id=?)",
          "DELETE FROM source WHERE run_id=?", "DELETE FROM note WHERE run_id=?",
          "DELETE FROM run WHERE id=?"}) {
        Statement remove = m_impl->database.prepare(sql);
        PIPER_TRY(done(m_impl->database, remove.bind(run.id)));
    }
    return transaction.commit();
}

Status Workspace::putDocument(std::string_view kind, std::string_view name, std::string_view json) {
    PIPER_TRY(m_impl->requireWritable());
    Statement put = m_impl->database.prepare(
        "INSERT OR REPLACE INTO document(kind,name,json,checksum) VALUES(?,?,?,?)");
    put.bind(kind).bind(name).bind(json);
    put.bind(Checksum().add(kind).add(name).add(json).value());
    return done(m_impl->database, put);
}

Status Workspace::removeDocument(std::string_view kind, std::string_view name) {
    PIPER_TRY(m_impl->requireWritable());
    Statement remove = m_impl->database.prepare("DELETE FROM document WHERE kind=? AND name=?");
    PIPER_TRY(done(m_impl->database, remove.bind(kind).bind(name)));
    if (sqlite3_changes(m_impl->database.handle()) == 1) return {};
    return fail(ErrorCode::NotFound, "no {} named '{}'", kind, name).at(path());
}

Status Workspace::close() {
    if (!m_impl->writable) return {};
    m_impl->writable = false;
    sqlite3_busy_timeout(m_impl->database.handle(), 0);
    // Fails without harm while another program reads the file: then its log stays beside it.
    (void)m_impl->database.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    (void)m_impl->database.execute("PRAGMA journal_mode=DELETE");
    return {};
}

}  // namespace piper
