// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/workspace.h"

#include <algorithm>

#include "collectors/store/workspace_impl.h"

namespace piper {

using sqlite::Database;
using sqlite::Statement;
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

Status done(const Database& database, Statement& statement) {
    const int code = statement.step();
    if (code != SQLITE_DONE) return database.error(code);
    return {};
}

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

Result<std::int64_t> Workspace::addRun(const Run& run) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    std::int64_t run_id = 0;
    PIPER_TRY(m_impl->insertRun(run, run_id));
    const auto what =
        run.outcome == RunOutcome::Running ? Impl::Records::Some : Impl::Records::Whole;
    for (const RankTimeline& rank : run.ranks) {
        std::int64_t rank_id = 0;
        PIPER_TRY(m_impl->insertRank(run_id, rank, rank_id));
        PIPER_TRY(m_impl->insertRecords(rank_id, rank, what));
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

Result<std::int64_t> Workspace::addWholeRank(std::int64_t run_id, const RankTimeline& rank) {
    return m_impl->addRecords(run_id, rank, Impl::Records::Whole);
}

Result<std::int64_t> Workspace::Impl::addRecords(std::int64_t run_id, const RankTimeline& rank,
                                                 Records what) {
    PIPER_TRY(requireWritable());
    Transaction transaction(database);
    PIPER_TRY(transaction.status());
    std::int64_t id = 0;
    PIPER_TRY(insertRank(run_id, rank, id));
    PIPER_TRY(insertRecords(id, rank, what));
    PIPER_TRY(transaction.commit());
    return id;
}

Status Workspace::append(std::int64_t rank_id, const RankTimeline& records) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_TRY(m_impl->insertRecords(rank_id, records, Impl::Records::Some));
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
    PIPER_ASSIGN(const std::vector<SourceRow> sources, m_impl->sourceRows(run_id));
    for (const SourceRow& source : sources)
        if (!m_impl->summed.contains(source.id)) PIPER_TRY(m_impl->buildSummaries(source));
    return transaction.commit();
}

Status Workspace::setNote(std::int64_t run_id, std::string_view name, std::string_view value) {
    PIPER_TRY(m_impl->requireWritable());
    return m_impl->putNote(run_id, name, value);
}

Status Workspace::removeNote(std::int64_t run_id, std::string_view name) {
    PIPER_TRY(m_impl->requireWritable());
    Statement remove = m_impl->database.prepare("DELETE FROM note WHERE run_id=? AND name=?");
    return done(m_impl->database, remove.bind(run_id).bind(name));
}

Status Workspace::setLabels(std::string_view run_name, const RunLabels& labels) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(run_name));
    for (const auto& [name, value] :
         {std::pair{kUserNote, labels.note}, std::pair{kUserTags, tagsText(labels.tags)}}) {
        if (value.empty())
            PIPER_TRY(removeNote(run.id, name));
        else
            PIPER_TRY(setNote(run.id, name, value));
    }
    return transaction.commit();
}

Status Workspace::removeRun(std::string_view name) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(name));
    PIPER_ASSIGN(const std::vector<SourceRow> sources, m_impl->sourceRows(run.id));
    for (const SourceRow& source : sources) PIPER_TRY(m_impl->removeRank(source.id));
    for (const char* sql : {"DELETE FROM note WHERE run_id=?", "DELETE FROM run WHERE id=?"}) {
        Statement remove = m_impl->database.prepare(sql);
        PIPER_TRY(done(m_impl->database, remove.bind(run.id)));
    }
    return transaction.commit();
}

Status Workspace::Impl::removeRank(std::int64_t source) {
    PIPER_TRY(removeSummaries(source));
    for (const char* sql :
         {"DELETE FROM chunk WHERE source_id=?", "DELETE FROM name WHERE source_id=?",
          "DELETE FROM track WHERE source_id=?", "DELETE FROM counter WHERE source_id=?",
          "DELETE FROM source WHERE id=?"}) {
        Statement remove = database.prepare(sql);
        PIPER_TRY(done(database, remove.bind(source)));
    }
    return {};
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
