// SPDX-License-Identifier: Apache-2.0
// Reading a workspace file, damaged or not. Rows are fetched so that one bad page costs only what
// it holds: small tables by their row order, chunks one by one through their ids.
#include <algorithm>
#include <limits>

#include "collectors/store/stored_row.h"
#include "collectors/store/workspace_impl.h"
#include "core/run/time_range.h"

namespace piper {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Stream;

namespace {

constexpr std::size_t kMostDamageSentences = 100;
constexpr std::int64_t kMostSalvageLookups = 200000;
constexpr std::int32_t kNoStep = -1;

bool isDamaged(const Database& database) {
    return (sqlite3_errcode(database.handle()) & 0xff) == SQLITE_CORRUPT;
}

Error notFound(const std::string& path, std::string_view what, std::string_view name,
               const std::vector<std::string>& known) {
    Error error = fail(ErrorCode::NotFound, "no {} named '{}'", what, name);
    if (known.empty())
        error.hint = fmt::format("the file has no {}", what);
    else
        error.hint = fmt::format("it has: {}", fmt::join(known, ", "));
    return std::move(error).at(path);
}

constexpr std::string_view kChunkById =
    "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data, source_id "
    "FROM chunk WHERE id=?";

/// Windows are read from front to back and the system keeps the file: pages kept here would only be
/// memory to fetch.
constexpr const char* kReaderCache = "PRAGMA cache_size=-320";

/// A writer killed in the middle of a commit leaves a journal beside the file; only a connection
/// that may write can play it back, after which the file reads as it was before that commit.
Status playBackJournal(const std::filesystem::path& path) {
    PIPER_ASSIGN(Database writer, Database::open(path.string(), Database::Mode::ReadWrite));
    return writer.execute("SELECT count(*) FROM sqlite_master");
}

bool hasJournalToPlayBack(const Database& database) {
    return (sqlite3_errcode(database.handle()) & 0xff) == SQLITE_READONLY;
}

}  // namespace

Result<Workspace> Workspace::open(const std::filesystem::path& path, Mode mode) {
    const bool write = mode == Mode::ReadWrite;
    PIPER_ASSIGN(Database database,
                 Database::open(path.string(),
                                write ? Database::Mode::ReadWrite : Database::Mode::ReadOnly));
    auto impl = std::make_unique<Impl>(std::move(database));
    PIPER_TRY(impl->database.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"));
    Status identity = sqlite::checkIdentity(impl->database);
    if (!identity.ok() && !write && hasJournalToPlayBack(impl->database)) {
        PIPER_TRY(playBackJournal(path));
        identity = sqlite::checkIdentity(impl->database);
    }
    if (!identity.ok() && !write && isDamaged(impl->database)) {
        // A truncated file: SQLite reads what is there once told so.
        impl->addDamage("the file is shorter than it says or its first page is damaged");
        PIPER_TRY(impl->database.execute("PRAGMA writable_schema=ON"));
        identity = sqlite::checkIdentity(impl->database);
    }
    PIPER_TRY(identity);
    if (write) PIPER_TRY(sqlite::completeVocabulary(impl->database));
    Result<CodeTables> codes = sqlite::readCodeTables(impl->database);
    if (codes.ok())
        impl->codes = std::move(codes).value();
    else if (!write && isDamaged(impl->database)) {
        impl->addDamage("the vocabulary cannot be read; this program's own is used");
        impl->codes = CodeTables::own();
    } else
        return std::move(codes).error();
    impl->writable = write;
    if (!write) (void)impl->database.execute(kReaderCache);
    if (write) {
        PIPER_TRY(sqlite::prepareForWriting(impl->database));
        PIPER_TRY(sqlite::migrate(impl->database, [&](std::int64_t from) -> Status {
            return from < sqlite::kSchemaOfSteps ? impl->summarizeEnded() : Status();
        }));
    }
    PIPER_ASSIGN(impl->version, impl->database.integer("PRAGMA user_version"));
    return Workspace(std::move(impl));
}

void Workspace::Impl::addDamage(std::string sentence) {
    if (damage.size() >= kMostDamageSentences) return;
    if (std::find(damage.begin(), damage.end(), sentence) == damage.end())
        damage.push_back(std::move(sentence));
}

Status Workspace::Impl::unreadable(int code, std::string_view what) {
    switch (code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
        case SQLITE_NOMEM:
        case SQLITE_CANTOPEN:
        case SQLITE_MISUSE:
            return database.error(code);
        default:
            break;
    }
    addDamage(fmt::format("{}: {}", what, sqlite3_errmsg(database.handle())));
    return {};
}

Result<std::vector<RunRow>> Workspace::Impl::runRows() {
    std::vector<RunRow> rows;
    const auto read = [&](const Statement& row) {
        RunRow out;
        out.id = row.integer(0);
        out.header.name = row.text(1);
        const Result<RunKind> kind = parseEnum<RunKind>(row.text(2), "kind");
        const Result<RunOutcome> outcome = parseEnum<RunOutcome>(row.text(3), "outcome");
        if (kind.ok()) out.header.kind = *kind;
        if (outcome.ok()) out.header.outcome = *outcome;
        out.header.outcome_reason = row.text(4);
        out.header.plan_json = row.text(5);
        out.header.started_at = row.text(6);
        out.header.program_version = row.text(7);
        if (!kind.ok() || !outcome.ok() || runChecksum(out.header) != row.integer(8))
            addDamage(fmt::format("the header of run '{}' is damaged", out.header.name));
        rows.push_back(std::move(out));
    };
    PIPER_TRY(query(
        "the list of runs",
        "SELECT id,name,kind,outcome,outcome_reason,plan_json,started_at,program_version,checksum "
        "FROM run NOT INDEXED ORDER BY id",
        [](Statement&) {}, read));
    return rows;
}

Result<RunRow> Workspace::Impl::findRun(std::string_view name) {
    PIPER_ASSIGN(std::vector<RunRow> rows, runRows());
    std::vector<std::string> known;
    for (RunRow& row : rows) {
        if (row.header.name == name) return std::move(row);
        known.push_back(row.header.name);
    }
    return notFound(database.path(), "run", name, known);
}

Status Workspace::Impl::readNotes(RunRow& run) {
    return query(
        fmt::format("notes of run '{}'", run.header.name),
        "SELECT name, value, checksum FROM note NOT INDEXED WHERE run_id=?",
        [&](Statement& s) { s.bind(run.id); },
        [&](const Statement& row) {
            const std::string name(row.text(0)), value(row.text(1));
            if (pairChecksum(run.id, name, value) != row.integer(2))
                addDamage(fmt::format("note '{}' of run '{}' is damaged", name, run.header.name));
            else
                run.header.notes[name] = value;
        });
}

Result<std::vector<SourceRow>> Workspace::Impl::sourceRows(std::int64_t run_id) {
    std::vector<SourceRow> rows;
    PIPER_TRY(query(
        "the ranks of a run",
        "SELECT id, rank, stage, host, offset_ns, chunks, checksum FROM source NOT INDEXED "
        "WHERE run_id=?",
        [&](Statement& s) { s.bind(run_id); },
        [&](const Statement& row) {
            SourceRow out;
            out.id = row.integer(0);
            out.header.rank = RankId(static_cast<std::int32_t>(row.integer(1)));
            out.header.stage = StageId(static_cast<std::int32_t>(row.integer(2)));
            out.header.host = row.text(3);
            out.header.offset_ns = row.integer(4);
            out.chunks = row.integer(5);
            if (sourceChecksum(run_id, out.header) != row.integer(6))
                addDamage(fmt::format("the header of rank {} is damaged", out.header.rank.value));
            rows.push_back(std::move(out));
        }));
    std::stable_sort(rows.begin(), rows.end(), [](const SourceRow& a, const SourceRow& b) {
        return a.header.rank < b.header.rank;
    });
    return rows;
}

Status Workspace::Impl::readCounters(const SourceRow& source, RankTimeline& out) {
    return query(
        fmt::format("counters of rank {}", out.rank.value),
        "SELECT name, value, checksum FROM counter WHERE source_id=?",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            const std::string name(row.text(0)), value(row.text(1));
            if (pairChecksum(source.id, name, value) != row.integer(2))
                addDamage(fmt::format("counter '{}' of rank {} is damaged", name, out.rank.value));
            else
                out.counters[name] = value;
        });
}

bool Workspace::Impl::decodeChunk(const Statement& row, std::int64_t source_id,
                                  RankTimeline& out) const {
    ChunkKey key;
    if (!ChunkKey::read(row, source_id, key)) return false;
    const std::string_view data = row.text(8);
    const auto count = static_cast<std::size_t>(key.count);
    switch (static_cast<Stream>(key.stream)) {
        case Stream::Event:
            return decodeEvents(data, count, codes, out.events);
        case Stream::Memory:
            return decodeMemory(data, count, codes, out.memory);
        case Stream::Clock:
            return decodeClock(data, count, out.clock);
        case Stream::Step:
            return decodeSteps(data, count, out.steps);
        case Stream::ExpertLoad:
            return decodeExpertLoad(data, count, out.expert_load);
        case Stream::StepTotals:
            return decodeStepTotals(data, count, codes, out.step_totals);
    }
    return false;
}

std::int64_t Workspace::Impl::mostRows() {
    // A row of any table takes more: its id, its checksum, the lengths of its columns.
    static constexpr std::int64_t kLeastRow = 16;
    const Result<std::int64_t> pages = database.integer("PRAGMA page_count");
    const Result<std::int64_t> size = database.integer("PRAGMA page_size");
    return pages.ok() && size.ok() ? *pages * *size / kLeastRow : 0;
}

Status Workspace::Impl::readNames(const SourceRow& source, RankTimeline& out) {
    const std::int64_t most = mostRows();
    return query(
        fmt::format("names of rank {}", out.rank.value),
        "SELECT number, text, checksum FROM name WHERE source_id=? ORDER BY number",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            const std::int64_t number = row.integer(0);
            if (number < 0 || number >= most ||
                nameChecksum(source.id, number, row.text(1)) != row.integer(2)) {
                addDamage(fmt::format("name {} of rank {} is damaged", number, out.rank.value));
                return;
            }
            out.names.resize(static_cast<std::size_t>(number) + 1);
            out.names.back() = row.text(1);
        });
}

Status Workspace::Impl::readTracks(const SourceRow& source, RankTimeline& out) {
    const std::int64_t most = mostRows();
    return query(
        fmt::format("tracks of rank {}", out.rank.value),
        "SELECT number, name, process, thread, device, stream, checksum FROM track "
        "WHERE source_id=? ORDER BY number",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            const std::int64_t number = row.integer(0);
            Track track{std::string(row.text(1)), std::string(row.text(2)),
                        std::string(row.text(3)), static_cast<std::int32_t>(row.integer(4)),
                        row.integer(5)};
            if (number < 0 || number >= most ||
                trackChecksum(source.id, number, track) != row.integer(6)) {
                addDamage(fmt::format("track {} of rank {} is damaged", number, out.rank.value));
                return;
            }
            out.tracks.resize(static_cast<std::size_t>(number) + 1);
            out.tracks.back() = std::move(track);
        });
}

Status Workspace::Impl::readSteps(const SourceRow& source, StepWindows& out) {
    if (version < sqlite::kSchemaOfSteps) return {};
    return query(
        fmt::format("steps of rank {}", source.header.rank.value),
        "SELECT step, begin_ns, end_ns, checksum FROM step_window WHERE source_id=?",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            const std::array<std::int64_t, 4> numbers{source.id, row.integer(0), row.integer(1),
                                                      row.integer(2)};
            if (!isIntact(numbers, {}, row.integer(3)))
                addDamage(fmt::format("a step of rank {} is damaged", source.header.rank.value));
            else if (inTimeRange(numbers[2]) && inTimeRange(numbers[3]))
                out[static_cast<std::int32_t>(numbers[1])] = {numbers[2], numbers[3]};
        });
}

Status Workspace::Impl::eachChunk(const SourceRow& source, std::string_view run_name,
                                  const std::function<bool(const Statement&)>& visit) {
    std::vector<std::int64_t> ids;
    const std::string what = fmt::format("rank {} of run '{}'", source.header.rank.value, run_name);
    PIPER_TRY(query(
        what, "SELECT id FROM chunk WHERE source_id=?", [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) { ids.push_back(row.integer(0)); }));
    const bool salvage = static_cast<std::int64_t>(ids.size()) != source.chunks;
    if (salvage) {
        // The index lost some: look for every id that the file can hold.
        const Result<std::int64_t> pages = database.integer("PRAGMA page_count");
        const std::int64_t last = std::min(kMostSalvageLookups, (pages.ok() ? *pages : 0) * 64);
        ids.resize(static_cast<std::size_t>(last));
        for (std::int64_t i = 0; i < last; ++i) ids[static_cast<std::size_t>(i)] = i + 1;
    }
    std::sort(ids.begin(), ids.end());
    std::int64_t intact = 0;
    Statement fetch = database.prepare(kChunkById);
    for (std::int64_t id : ids) {
        fetch.reset();
        if (fetch.bind(id).step() != SQLITE_ROW) continue;
        if (fetch.integer(9) == source.id && visit(fetch)) ++intact;
    }
    if (salvage || intact != source.chunks)
        addDamage(
            fmt::format("{}: {} of {} chunks of records are intact", what, intact, source.chunks));
    return {};
}

Status Workspace::Impl::readChunks(const SourceRow& source, std::string_view run_name,
                                   RankTimeline& out) {
    PIPER_TRY(eachChunk(source, run_name,
                        [&](const Statement& row) { return decodeChunk(row, source.id, out); }));
    std::stable_sort(out.events.begin(), out.events.end(), startsBefore);
    return {};
}

Status Workspace::Impl::readSamples(const SourceRow& source, std::initializer_list<Stream> streams,
                                    RankTimeline& out) {
    for (const Stream stream : streams)
        PIPER_TRY(query(
            "samples of a rank",
            "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data "
            "FROM chunk WHERE source_id=? AND stream=? ORDER BY id",
            [&](Statement& s) { s.bind(source.id).bind(static_cast<std::int64_t>(stream)); },
            [&](const Statement& row) {
                if (!decodeChunk(row, source.id, out))
                    addDamage(fmt::format("rank {}: a chunk is damaged", out.rank.value));
            }));
    return {};
}

Result<SourceRow> Workspace::Impl::findSource(std::string_view run_name, RankId rank) {
    PIPER_ASSIGN(const RunRow run, findRun(run_name));
    PIPER_ASSIGN(std::vector<SourceRow> sources, sourceRows(run.id));
    for (SourceRow& source : sources)
        if (source.header.rank == rank) return std::move(source);
    return fail(ErrorCode::NotFound, "run '{}' has no rank {}", run_name, rank.value)
        .at(database.path());
}

Result<Run> Workspace::Impl::readRun(std::string_view name, bool with_events) {
    const Snapshot snapshot(database);
    const std::size_t damage_before = damage.size();
    PIPER_ASSIGN(RunRow run, findRun(name));
    PIPER_TRY(readNotes(run));
    PIPER_ASSIGN(std::vector<SourceRow> sources, sourceRows(run.id));
    for (SourceRow& source : sources) {
        RankTimeline rank = source.header;
        PIPER_TRY(readCounters(source, rank));
        PIPER_TRY(readNames(source, rank));
        PIPER_TRY(readTracks(source, rank));
        if (with_events)
            PIPER_TRY(readChunks(source, name, rank));
        else
            PIPER_TRY(readSamples(source,
                                  {Stream::Memory, Stream::Clock, Stream::Step, Stream::ExpertLoad,
                                   Stream::StepTotals},
                                  rank));
        // A digest whose sums are damaged is none the less one: of no step it knows any.
        PIPER_ASSIGN(const std::vector<StoredRow> rows, storedRows(source));
        if (lacksEvents(rows) && rank.step_totals.empty())
            rank.step_totals.emplace_back().step = kNoStep;
        run.header.ranks.push_back(std::move(rank));
    }
    if (damage.size() > damage_before)
        run.header.notes["damage"] = fmt::format("{}", fmt::join(damage, "; "));
    return std::move(run.header);
}

Result<Run> Workspace::readRun(std::string_view name) {
    return m_impl->readRun(name, true);
}

Result<Run> Workspace::readWithoutEvents(std::string_view name) {
    return m_impl->readRun(name, false);
}

Result<Run> Workspace::readHeader(std::string_view name) {
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(RunRow run, m_impl->findRun(name));
    PIPER_TRY(m_impl->readNotes(run));
    PIPER_ASSIGN(std::vector<SourceRow> sources, m_impl->sourceRows(run.id));
    for (SourceRow& source : sources) {
        PIPER_TRY(m_impl->readCounters(source, source.header));
        PIPER_TRY(m_impl->readNames(source, source.header));
        PIPER_TRY(m_impl->readTracks(source, source.header));
        run.header.ranks.push_back(std::move(source.header));
    }
    return std::move(run.header);
}

Result<std::vector<RunSummary>> Workspace::runs() {
    // Counting chunks reads a page each: rows know their sum.
    constexpr std::string_view kOfRows = "(SELECT sum(count) FROM row WHERE source_id=s.id)";
    constexpr std::string_view kOfChunks =
        "(SELECT sum(count) FROM chunk WHERE source_id=s.id AND stream=0)";
    const Snapshot snapshot(m_impl->database);
    PIPER_ASSIGN(std::vector<RunRow> rows, m_impl->runRows());
    std::vector<RunSummary> out;
    for (RunRow& row : rows) {
        PIPER_TRY(m_impl->readNotes(row));
        RunSummary summary{row.id,
                           row.header.name,
                           row.header.kind,
                           row.header.outcome,
                           row.header.outcome_reason,
                           row.header.started_at};
        summary.labels = labelsOf(row.header);
        PIPER_TRY(m_impl->query(
            "the ranks of a run",
            fmt::format("SELECT {},"
                        " (SELECT sum(count) FROM chunk WHERE source_id=s.id AND stream=3)"
                        " FROM source s WHERE run_id=?",
                        m_impl->version >= sqlite::kSchemaOfRows
                            ? fmt::format("ifnull({}, {})", kOfRows, kOfChunks)
                            : std::string(kOfChunks)),
            [&](Statement& s) { s.bind(row.id); },
            [&](const Statement& r) {
                ++summary.ranks;
                summary.events += r.integer(0);
                summary.steps = std::max(summary.steps, r.integer(1));
            }));
        out.push_back(std::move(summary));
    }
    return out;
}

Result<std::string> Workspace::freeRunName(std::string_view name) {
    PIPER_ASSIGN(const std::vector<RunRow> rows, m_impl->runRows());
    const auto taken = [&](const std::string& wanted) {
        return std::any_of(rows.begin(), rows.end(),
                           [&](const RunRow& r) { return r.header.name == wanted; });
    };
    std::string candidate(name);
    for (int i = 2; taken(candidate); ++i) candidate = fmt::format("{} {}", name, i);
    return candidate;
}

Result<std::string> Workspace::getDocument(std::string_view kind, std::string_view name) {
    std::optional<std::string> found;
    std::vector<std::string> known;
    PIPER_TRY(m_impl->query(
        "documents", "SELECT name, json, checksum FROM document NOT INDEXED WHERE kind=?",
        [&](Statement& s) { s.bind(kind); },
        [&](const Statement& row) {
            const std::string row_name(row.text(0));
            known.push_back(row_name);
            if (row_name != name) return;
            if (Checksum().add(kind).add(name).add(row.text(1)).value() != row.integer(2))
                m_impl->addDamage(fmt::format("{} '{}' is damaged", kind, name));
            else
                found = std::string(row.text(1));
        }));
    if (found) return std::move(*found);
    return notFound(path(), kind, name, known);
}

Result<std::vector<std::string>> Workspace::documents(std::string_view kind) {
    std::vector<std::string> names;
    PIPER_TRY(m_impl->query(
        "documents", "SELECT name FROM document NOT INDEXED WHERE kind=? ORDER BY name",
        [&](Statement& s) { s.bind(kind); },
        [&](const Statement& row) { names.emplace_back(row.text(0)); }));
    return names;
}

const std::vector<std::string>& Workspace::damage() const {
    return m_impl->damage;
}

Result<std::vector<std::string>> Workspace::check() {
    PIPER_TRY(m_impl->query(
        "structure", "PRAGMA integrity_check(20)", [](Statement&) {},
        [&](const Statement& row) {
            if (row.text(0) != "ok") m_impl->addDamage(fmt::format("structure: {}", row.text(0)));
        }));
    PIPER_ASSIGN(const std::vector<RunRow> rows, m_impl->runRows());
    for (const RunRow& row : rows) {
        PIPER_TRY([&]() -> Status {
            const Result<Run> run = readRun(row.header.name);
            return run.ok() ? Status() : Status(run.error());
        }());
        PIPER_ASSIGN(const std::vector<SourceRow> sources, m_impl->sourceRows(row.id));
        for (const SourceRow& source : sources) PIPER_TRY(m_impl->checkSummaries(source));
    }
    std::vector<std::pair<std::string, std::string>> names;
    PIPER_TRY(m_impl->query(
        "documents", "SELECT kind, name FROM document NOT INDEXED", [](Statement&) {},
        [&](const Statement& row) { names.emplace_back(row.text(0), row.text(1)); }));
    for (const auto& [kind, name] : names)
        if (const Result<std::string> read = getDocument(kind, name); !read.ok())
            m_impl->addDamage(fmt::format("{} '{}' cannot be read", kind, name));
    return m_impl->damage;
}

}  // namespace piper
