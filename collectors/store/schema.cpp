// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/schema.h"

#include <map>

namespace piper::sqlite {
namespace {

constexpr const char* kSchema = R"(
CREATE TABLE vocabulary(
    enumeration TEXT NOT NULL, code INTEGER NOT NULL, word TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE run(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, outcome TEXT NOT NULL,
    outcome_reason TEXT NOT NULL, plan_json TEXT NOT NULL, started_at TEXT NOT NULL,
    program_version TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE note(
    id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    checksum INTEGER NOT NULL, UNIQUE(run_id, name));
CREATE TABLE source(
    id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, rank INTEGER NOT NULL, stage INTEGER NOT NULL,
    host TEXT NOT NULL, offset_ns INTEGER NOT NULL, chunks INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL,
    UNIQUE(run_id, rank));
CREATE TABLE counter(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    checksum INTEGER NOT NULL, UNIQUE(source_id, name));
CREATE TABLE chunk(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, stream INTEGER NOT NULL,
    lane INTEGER NOT NULL, track INTEGER NOT NULL, sub_lane INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,
    count INTEGER NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX chunk_range ON chunk(source_id, stream, lane, track, sub_lane, begin_ns, end_ns);
CREATE TABLE name(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, number INTEGER NOT NULL,
    text TEXT NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX name_source ON name(source_id, number);
CREATE TABLE track(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, number INTEGER NOT NULL,
    name TEXT NOT NULL, process TEXT NOT NULL, thread TEXT NOT NULL, device INTEGER NOT NULL,
    stream INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX track_source ON track(source_id, number);
CREATE TABLE document(
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, json TEXT NOT NULL,
    checksum INTEGER NOT NULL, UNIQUE(kind, name));
)";

/// Since version 2.
constexpr const char* kTiles = R"(
CREATE TABLE tile(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, lane INTEGER NOT NULL,
    track INTEGER NOT NULL, sub_lane INTEGER NOT NULL, level INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, count INTEGER NOT NULL,
    checksum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX tile_range ON tile(source_id, level, begin_ns);
)";

/// Since version 3: rows with what they hold, levels of half steps, sums by label; columns of
/// chunks may be packed.
constexpr const char* kRows = R"(
DROP TABLE tile;
CREATE TABLE row(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, lane INTEGER NOT NULL,
    track INTEGER NOT NULL, sub_lane INTEGER NOT NULL, count INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, span_ns INTEGER NOT NULL,
    levels INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX row_source ON row(source_id);
CREATE TABLE tile(
    id INTEGER PRIMARY KEY, row_id INTEGER NOT NULL, level INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, count INTEGER NOT NULL,
    checksum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX tile_range ON tile(row_id, level, begin_ns);
CREATE TABLE total(
    id INTEGER PRIMARY KEY, row_id INTEGER NOT NULL, begin_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, next_ns INTEGER NOT NULL, count INTEGER NOT NULL,
    checksum INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX total_range ON total(row_id, begin_ns, end_ns);
)";

/// Since version 4: steps by events; blobs are summed by words.
constexpr const char* kSteps = R"(
CREATE TABLE step_window(
    id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, step INTEGER NOT NULL,
    begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE INDEX step_window_source ON step_window(source_id);
)";

/// [i] leads from version i + 1 to i + 2. An entry never changes once files were written with it.
constexpr const char* kMigrations[] = {kTiles, kRows, kSteps};
static_assert(std::size(kMigrations) == kSchemaVersion - 1);

/// The intact words of an enumeration by number; rows of the others count as damaged.
Result<std::map<std::int64_t, std::string>> wordsOf(Database& database,
                                                    std::string_view enumeration) {
    std::map<std::int64_t, std::string> words;
    Statement select =
        database.prepare("SELECT code, word, checksum FROM vocabulary WHERE enumeration=?");
    select.bind(enumeration);
    int result = SQLITE_DONE;
    while ((result = select.step()) == SQLITE_ROW) {
        const std::int64_t code = select.integer(0);
        const std::string word(select.text(1));
        const bool intact =
            Checksum().add(enumeration).add(code).add(word).value() == select.integer(2);
        if (intact && code >= 0 && code <= 255) words[code] = word;
    }
    if (result != SQLITE_DONE) return database.error(result);
    return words;
}

/// Adds the words that the file lacks.
template <class E>
Status writeVocabulary(Database& database, std::string_view enumeration) {
    PIPER_ASSIGN(const auto words, wordsOf(database, enumeration));
    Statement insert = database.prepare("INSERT INTO vocabulary VALUES(?,?,?,?)");
    for (const EnumName<E>& row : enumNames<E>()) {
        const auto code = static_cast<std::int64_t>(row.value);
        if (const auto found = words.find(code); found != words.end()) {
            if (found->second == row.name) continue;
            Error error = fail(ErrorCode::InvalidInput,
                               "{} {} is '{}' in this file and '{}' in this version of the "
                               "program, which cannot add to it",
                               enumeration, code, found->second, row.name);
            error.hint = "import it into a new file: piperctl import FILE -o NEW.piper";
            return std::move(error).at(database.path());
        }
        insert.reset();
        insert.bind(enumeration).bind(code).bind(row.name);
        insert.bind(Checksum().add(enumeration).add(code).add(row.name).value());
        const int result = insert.step();
        if (result != SQLITE_DONE) return database.error(result);
    }
    return {};
}

template <class E>
Result<std::vector<int>> readVocabulary(Database& database, std::string_view enumeration) {
    std::vector<int> table;
    PIPER_ASSIGN(const auto words, wordsOf(database, enumeration));
    for (const auto& [code, word] : words) {
        table.resize(static_cast<std::size_t>(code) + 1, -1);
        for (const EnumName<E>& row : enumNames<E>())
            if (row.name == word) table.back() = static_cast<int>(row.value);
    }
    return table;
}

}  // namespace

Status prepareForWriting(Database& database) {
    PIPER_TRY(database.execute("PRAGMA journal_mode=WAL"));
    PIPER_TRY(database.execute("PRAGMA synchronous=NORMAL"));
    return database.execute("PRAGMA cache_size=-16384");
}

Status createSchema(Database& database) {
    PIPER_TRY(database.execute("PRAGMA page_size=16384"));
    PIPER_TRY(prepareForWriting(database));
    Transaction transaction(database);
    PIPER_TRY(transaction.status());
    PIPER_TRY(database.execute(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}",
                                           kApplicationId, kSchemaVersion)
                                   .c_str()));
    PIPER_TRY(database.execute(kSchema));
    for (const char* step : kMigrations) PIPER_TRY(database.execute(step));
    PIPER_TRY(completeVocabulary(database));
    return transaction.commit();
}

Status completeVocabulary(Database& database) {
    PIPER_TRY(writeVocabulary<OperationKind>(database, "operation_kind"));
    PIPER_TRY(writeVocabulary<Phase>(database, "phase"));
    PIPER_TRY(writeVocabulary<Pass>(database, "pass"));
    PIPER_TRY(writeVocabulary<PipelinePhase>(database, "pipeline_phase"));
    PIPER_TRY(writeVocabulary<Lane>(database, "lane"));
    PIPER_TRY(writeVocabulary<MemoryTerm>(database, "memory_term"));
    return writeVocabulary<EventCategory>(database, "event_category");
}

Status checkIdentity(Database& database) {
    PIPER_ASSIGN(const std::int64_t id, database.integer("PRAGMA application_id"));
    PIPER_ASSIGN(const std::int64_t version, database.integer("PRAGMA user_version"));
    if (id != kApplicationId) {
        Error error = fail(ErrorCode::InvalidInput,
                           "not a workspace file: a database of another program "
                           "(application_id {:#x} instead of {:#x})",
                           id, kApplicationId);
        return std::move(error).at(database.path());
    }
    if (version <= kSchemaVersion && version >= 1) return {};
    if (version == 0) {
        Error error = fail(ErrorCode::InvalidInput,
                           "written by a trial version of the program (schema 0), whose files are "
                           "not read any more");
        error.hint = "repeat the run or the prediction into a new file";
        return std::move(error).at(database.path());
    }
    Error error = fail(ErrorCode::InvalidInput,
                       "written by a newer version: schema {}, the newest known here is {}",
                       version, kSchemaVersion);
    error.hint = "open it with the version of the program that wrote it, or a newer one";
    return std::move(error).at(database.path());
}

Status migrate(Database& database, const std::function<Status(std::int64_t version)>& then) {
    PIPER_ASSIGN(const std::int64_t version, database.integer("PRAGMA user_version"));
    if (version == kSchemaVersion) return {};
    Transaction transaction(database);
    PIPER_TRY(transaction.status());
    for (std::int64_t from = version; from < kSchemaVersion; ++from)
        PIPER_TRY(database.execute(kMigrations[from - 1]));
    PIPER_TRY(database.execute(fmt::format("PRAGMA user_version={}", kSchemaVersion).c_str()));
    PIPER_TRY(then(version));
    return transaction.commit();
}

Result<CodeTables> readCodeTables(Database& database) {
    CodeTables tables;
    PIPER_ASSIGN(tables.kind, readVocabulary<OperationKind>(database, "operation_kind"));
    PIPER_ASSIGN(tables.phase, readVocabulary<Phase>(database, "phase"));
    PIPER_ASSIGN(tables.pass, readVocabulary<Pass>(database, "pass"));
    PIPER_ASSIGN(tables.pipeline_phase, readVocabulary<PipelinePhase>(database, "pipeline_phase"));
    PIPER_ASSIGN(tables.lane, readVocabulary<Lane>(database, "lane"));
    PIPER_ASSIGN(tables.term, readVocabulary<MemoryTerm>(database, "memory_term"));
    PIPER_ASSIGN(tables.category, readVocabulary<EventCategory>(database, "event_category"));
    return tables;
}

}  // namespace piper::sqlite
