// SPDX-License-Identifier: Apache-2.0
#include "collectors/export/nsys_sqlite.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "collectors/export/event_text.h"
#include "collectors/store/database.h"
#include "core/run/name_table.h"
#include "core/run/rank_clock.h"

namespace piper {
namespace {

using sqlite::Database;
using sqlite::Statement;

constexpr std::int64_t kPidShift = 0x1000000;
constexpr std::int64_t kFirstPid = 1000;  ///< of ranks that name no process
constexpr std::int64_t kMark = 34, kPushPop = 59;

constexpr const char* kTables = R"(
CREATE TABLE StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT(name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE ANALYSIS_DETAILS(globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,
  startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE PROCESSES(globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames(nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE TARGET_INFO_GPU(vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT,
  cuDevice INTEGER);
CREATE TABLE ENUM_NSYS_EVENT_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUPTI_SYNC_TYPE(id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
  shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET(start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start INTEGER NOT NULL, end INTEGER NOT NULL,
  deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL,
  correlationId INTEGER, globalPid INTEGER, syncType INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL,
  eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
  returnValue INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS(start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
  rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
  endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION','3.16.1'),
  ('EXPORT_PRODUCT','Piper Workbench');
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(0,NULL,NULL);
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES(34,'NvtxMark','NVTX mark'),
  (59,'NvtxPushPopRange','NVTX push/pop range');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES(0,'CUDA_MEMCPY_OPER_UNKNOWN','Unknown'),
  (1,'CUDA_MEMCPY_OPER_HTOD','Host-to-Device'),(2,'CUDA_MEMCPY_OPER_DTOH','Device-to-Host'),
  (8,'CUDA_MEMCPY_OPER_DTOD','Device-to-Device'),(9,'CUDA_MEMCPY_OPER_HTOH','Host-to-Host'),
  (10,'CUDA_MEMCPY_OPER_PTOP','Peer-to-Peer');
)";

/// The numbers of an ENUM_ table: those of the vendor, then own ones for words it does not have.
class Enumeration {
public:
    Enumeration(std::string table, std::map<std::string, std::int64_t> known)
        : m_table(std::move(table)), m_numbers(std::move(known)) {}

    Result<std::int64_t> number(Database& database, const std::string& label) {
        if (const auto found = m_numbers.find(label); found != m_numbers.end())
            return found->second;
        const std::int64_t next = kFirstOwn + std::ssize(m_numbers);
        Statement insert = database.prepare(fmt::format("INSERT INTO {} VALUES(?,?,?)", m_table));
        const int code = insert.bind(next).bind(label).bind(label).step();
        if (code != SQLITE_DONE) return database.error(code);
        m_numbers[label] = next;
        return next;
    }

private:
    static constexpr std::int64_t kFirstOwn = 1000;
    std::string m_table;
    std::map<std::string, std::int64_t> m_numbers;
};

std::int64_t wholeNumber(const std::string& text) {
    std::int64_t value = -1;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc() && end == text.data() + text.size() ? value : -1;
}

/// The label of the vendor's list where the name says the same in another way.
std::string copyLabel(std::string_view name) {
    for (const auto& [part, label] :
         {std::pair{"HtoD", "Host-to-Device"}, std::pair{"DtoH", "Device-to-Host"},
          std::pair{"DtoD", "Device-to-Device"}, std::pair{"HtoH", "Host-to-Host"},
          std::pair{"PtoP", "Peer-to-Peer"}})
        if (name.find(part) != std::string_view::npos) return label;
    const std::string_view prefix = "memcpy ";
    return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

std::string labelOf(std::string_view name, EventCategory category) {
    const std::string prefix = std::string(toText(category)) + " ";
    return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

constexpr std::string_view kOfProcess = " · ";

/// The name of a thread without what its importer put around it: "process · NAME number".
std::string bareThreadName(const Track& track) {
    std::string_view name = track.name;
    if (const std::size_t at = name.find(kOfProcess); at != std::string_view::npos)
        name.remove_prefix(at + kOfProcess.size());
    if (name == track.thread) return {};
    if (name.ends_with(" " + track.thread)) name.remove_suffix(track.thread.size() + 1);
    return std::string(name);
}

/// "rank 3 (stage 1)", or what the trace called the process.
std::string processName(const RankTimeline& rank) {
    for (const Track& track : rank.tracks)
        if (const std::size_t at = track.name.find(kOfProcess); at != std::string::npos)
            return track.name.substr(0, at);
    std::string name = fmt::format("rank {}", rank.rank.value);
    if (rank.stage.valid()) name += fmt::format(" (stage {})", rank.stage.value);
    return name;
}

class NsysWriter {
public:
    NsysWriter(Database& database, const Run& run) : m_database(database), m_run(run) {}

    Result<LeftOut> write() {
        PIPER_TRY(m_database.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF"));
        PIPER_TRY(m_database.execute("BEGIN"));
        PIPER_TRY(m_database.execute(kTables));
        findBounds();
        PIPER_TRY(row("INSERT INTO ANALYSIS_DETAILS VALUES(0,?,0,?)", {m_last, m_last}));
        for (const RankTimeline& rank : m_run.ranks) PIPER_TRY(writeRank(rank));
        for (const auto& [device, own] : m_devices)
            PIPER_TRY(row("INSERT INTO TARGET_INFO_GPU VALUES(0,?,NULL,?)", {own, own}));
        PIPER_TRY(m_database.execute("COMMIT"));
        return std::move(m_left_out);
    }

private:
    Status step(Statement& statement) {
        const int code = statement.step();
        statement.reset();
        if (code == SQLITE_DONE) return {};
        return m_database.error(code);
    }

    /// One row of numbers; negative correlations and the like are NULL where -1 means none.
    Status row(const std::string& sql, std::initializer_list<std::int64_t> values) {
        Statement& statement = prepared(sql);
        for (const std::int64_t value : values) statement.bind(value);
        return step(statement);
    }

    Statement& prepared(const std::string& sql) {
        const auto found = m_statements.find(sql);
        if (found != m_statements.end()) return found->second;
        return m_statements.emplace(sql, m_database.prepare(sql)).first->second;
    }

    void findBounds() {
        for (const RankTimeline& rank : m_run.ranks) {
            const RankClock clock(rank);
            for (const Event& e : rank.events) {
                const std::int64_t start = clock.toCommon(e.start_ns);
                m_shift = std::max(m_shift, -start);
                m_last = std::max(m_last, start + e.duration_ns);
            }
        }
        m_last += m_shift;
    }

    Result<std::int64_t> stringId(std::string_view text) {
        const std::size_t before = m_strings.size();
        const std::int64_t id = m_strings.intern(text);
        if (m_strings.size() == before) return id;
        Statement& insert = prepared("INSERT INTO StringIds VALUES(?,?)");
        PIPER_TRY(step(insert.bind(id).bind(text)));
        return id;
    }

    /// The number of a process: that of the trace where it is one and no other rank has it.
    std::int64_t processOf(const RankTimeline& rank) {
        std::set<std::int64_t> found;
        for (const Track& track : rank.tracks)
            if (track.device >= 0) found.insert(wholeNumber(track.process));
        std::int64_t pid = found.size() == 1 ? *found.begin() : -1;
        if (pid <= 0 || pid >= kPidShift || !m_pids.insert(pid).second) {
            pid = kFirstPid + rank.rank.value;
            while (!m_pids.insert(pid).second) ++pid;
        }
        return pid;
    }

    std::int64_t deviceOf(const RankTimeline& rank, std::int32_t device) {
        const auto shared = rank.counters.find("devices_shared");
        const std::string owner = shared == rank.counters.end()
                                      ? fmt::format("rank {}", rank.rank.value)
                                      : fmt::format("file {}", shared->second);
        const auto [it, fresh] = m_devices.try_emplace({owner, device}, device);
        if (!fresh) return it->second;
        while (!m_taken.insert(it->second).second) ++it->second;
        return it->second;
    }

    Status writeRank(const RankTimeline& rank) {
        const std::int64_t global = processOf(rank) * kPidShift;
        const std::string name = processName(rank);
        Statement& process = prepared("INSERT INTO PROCESSES VALUES(?,?,?)");
        PIPER_TRY(step(process.bind(global).bind(global / kPidShift).bind(name)));
        const ExportRows rows(rank);
        const RankClock clock(rank);
        PIPER_ASSIGN(const auto threads, writeThreads(rank, rows, global));
        for (const Event& e : rank.events)
            PIPER_TRY(writeEvent(e, rank, clock, global, threads.at(rows.of(e).id)));
        return {};
    }

    /// [row] -> globalTid: the thread's own number where it is one, else the row's.
    Result<std::map<std::int32_t, std::int64_t>> writeThreads(const RankTimeline& rank,
                                                              const ExportRows& rows,
                                                              std::int64_t global) {
        std::map<std::int32_t, std::int64_t> out;
        std::set<std::int64_t> taken;
        for (const ExportRow& row : rows.all()) {
            std::int64_t tid =
                row.track < 0
                    ? -1
                    : wholeNumber(rank.tracks[static_cast<std::size_t>(row.track)].thread);
            if (tid < 0 || tid >= kPidShift || taken.contains(tid)) {
                tid = row.id + 1;
                while (taken.contains(tid)) ++tid;
            }
            taken.insert(tid);
            out[row.id] = global + tid;
            const std::string text =
                row.track < 0 ? row.name
                              : bareThreadName(rank.tracks[static_cast<std::size_t>(row.track)]);
            if (text.empty()) continue;
            PIPER_ASSIGN(const std::int64_t name, stringId(text));
            PIPER_TRY(this->row("INSERT INTO ThreadNames VALUES(?,0,?)", {name, global + tid}));
        }
        return out;
    }

    Status writeEvent(const Event& e, const RankTimeline& rank, const RankClock& clock,
                      std::int64_t global, std::int64_t thread) {
        const std::int64_t start = clock.toCommon(e.start_ns) + m_shift;
        const std::int64_t end = start + e.duration_ns;
        const std::string name = nameOf(e, rank);
        const Track* track = rank.trackOf(e);
        if (track != nullptr &&
            (isDeviceWork(e.category) ||
             (e.category == EventCategory::Synchronization && track->device >= 0)))
            return writeDevice(e, name, start, end, deviceOf(rank, std::max(0, track->device)),
                               std::max<std::int64_t>(0, track->stream), global);
        if (e.category == EventCategory::Runtime) {
            PIPER_ASSIGN(const std::int64_t id, stringId(name));
            return row("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(?,?,0,?,NULLIF(?,-1),?,0)",
                       {start, end, thread, e.correlation, id});
        }
        const bool instant = e.category == EventCategory::Instant;
        if (isMark(e.category) && !instant) {
            if (e.category != EventCategory::Metadata)
                ++m_left_out[std::string(toText(e.category))];
            return {};
        }
        PIPER_ASSIGN(const std::int64_t id, stringId(name));
        if (instant)
            return row("INSERT INTO NVTX_EVENTS VALUES(?,NULL,?,NULL,NULL,NULL,NULL,?,NULL,?,0)",
                       {start, kMark, thread, id});
        return row("INSERT INTO NVTX_EVENTS VALUES(?,?,?,NULL,NULL,NULL,NULL,?,NULL,?,0)",
                   {start, end, kPushPop, thread, id});
    }

    Status writeDevice(const Event& e, const std::string& name, std::int64_t start,
                       std::int64_t end, std::int64_t device, std::int64_t stream,
                       std::int64_t global) {
        switch (e.category) {
            case EventCategory::Kernel: {
                PIPER_ASSIGN(const std::int64_t id, stringId(name));
                return row(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(?,?,?,1,?,NULLIF(?,-1),?,?,?)",
                    {start, end, device, stream, e.correlation, global, id, id});
            }
            case EventCategory::Memcpy: {
                PIPER_ASSIGN(const std::int64_t kind, m_copies.number(m_database, copyLabel(name)));
                return row(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(?,?,?,1,?,NULLIF(?,-1),?,?,?)",
                    {start, end, device, stream, e.correlation, global, e.bytes, kind});
            }
            case EventCategory::Memset: {
                PIPER_ASSIGN(const std::int64_t kind,
                             m_kinds.number(m_database, labelOf(name, e.category)));
                return row(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES(?,?,?,1,?,NULLIF(?,-1),?,?,?)",
                    {start, end, device, stream, e.correlation, global, e.bytes, kind});
            }
            default: {
                PIPER_ASSIGN(const std::int64_t kind,
                             m_syncs.number(m_database, labelOf(name, e.category)));
                return row(
                    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
                    "VALUES(?,?,?,1,?,NULLIF(?,-1),?,?)",
                    {start, end, device, stream, e.correlation, global, kind});
            }
        }
    }

    Database& m_database;
    const Run& m_run;
    std::map<std::string, Statement> m_statements;
    NameTable m_strings;
    Enumeration m_copies{"ENUM_CUDA_MEMCPY_OPER",
                         {{"Unknown", 0},
                          {"Host-to-Device", 1},
                          {"Device-to-Host", 2},
                          {"Device-to-Device", 8},
                          {"Host-to-Host", 9},
                          {"Peer-to-Peer", 10}}};
    Enumeration m_kinds{"ENUM_CUDA_MEM_KIND", {}}, m_syncs{"ENUM_CUPTI_SYNC_TYPE", {}};
    std::set<std::int64_t> m_pids;
    std::map<std::pair<std::string, std::int32_t>, std::int64_t> m_devices;
    std::set<std::int64_t> m_taken;
    std::int64_t m_shift = 0, m_last = 0;
    LeftOut m_left_out;
};

}  // namespace

Result<LeftOut> exportNsysSqlite(const Run& run, const std::filesystem::path& path) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored))
        return fail(ErrorCode::Io, "exists already; choose another file").at(path.string());
    PIPER_ASSIGN(Database database, Database::open(path.string(), Database::Mode::Create));
    Result<LeftOut> written = NsysWriter(database, run).write();
    if (!written.ok()) std::filesystem::remove(path, ignored);
    return written;
}

}  // namespace piper
