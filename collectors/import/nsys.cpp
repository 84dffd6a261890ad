// SPDX-License-Identifier: Apache-2.0
// The export changes from version to version: tables are made only when they have rows, columns
// come and go. So a table is read by the columns it has, and what is not known is counted.
#include <algorithm>
#include <set>

#include "collectors/import/imported.h"
#include "collectors/import/trace_builder.h"
#include "collectors/store/database.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

using sqlite::Database;
using sqlite::Statement;

/// A table of records and how its rows become events.
struct TableShape {
    std::string_view table;
    EventCategory category;
    std::string_view name_column;  ///< a number of StringIds or of `names`
    std::string_view names;        ///< an ENUM_ table; empty: StringIds
};

constexpr TableShape kShapes[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", EventCategory::Kernel, "demangledName", ""},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", EventCategory::Memcpy, "copyKind", "ENUM_CUDA_MEMCPY_OPER"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", EventCategory::Memset, "memKind", "ENUM_CUDA_MEM_KIND"},
    {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", EventCategory::Synchronization, "syncType",
     "ENUM_CUPTI_SYNC_TYPE"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", EventCategory::Runtime, "nameId", ""},
    {"CUPTI_ACTIVITY_KIND_DRIVER", EventCategory::Runtime, "nameId", ""},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", EventCategory::DeviceAnnotation, "graphId", "graph"},
    {"NVTX_EVENTS", EventCategory::Annotation, "textId", ""},
    {"NVTX_EVENTS_V2", EventCategory::Annotation, "textId", ""},
    {"NVTX_EVENTS_V3", EventCategory::Annotation, "textId", ""},
};

constexpr std::int64_t kPidShift = 0x1000000;

std::int64_t pidOf(std::int64_t global) {
    return (global / kPidShift) % kPidShift;
}

class NsysReader {
public:
    explicit NsysReader(Database& database) : m_database(database) {}

    Status read();
    [[nodiscard]] ImportedRun finish();

private:
    /// The columns of one table, by number in its SELECT; -1 for one it does not have.
    struct Columns {
        int start = -1, end = -1, global = -1, correlation = -1, device = -1, stream = -1;
        int bytes = -1, name = -1, other_name = -1, text = -1;
    };

    void forEach(const std::string& sql, const std::function<void(const Statement&)>& row);
    void readTables();
    void readStrings();
    void readSchema();
    void findRanks();
    void readTable(const std::string& table, const TableShape& shape);
    void readRow(const Statement& row, const Columns& c, const TableShape& shape,
                 const std::map<std::int64_t, std::string>& names);
    [[nodiscard]] std::string select(const std::string& table, const TableShape& shape,
                                     Columns& columns) const;
    [[nodiscard]] std::string nameOf(const Statement& row, const Columns& c,
                                     const TableShape& shape,
                                     const std::map<std::int64_t, std::string>& names) const;
    [[nodiscard]] bool has(const std::string& table, std::string_view column) const;
    TraceBuilder& builderOf(std::int64_t pid);
    void nameThreads();

    Database& m_database;
    std::map<std::string, std::set<std::string, std::less<>>> m_tables;  ///< table -> columns
    std::map<std::int64_t, std::string> m_strings;
    std::vector<std::int64_t> m_pids;  ///< [rank], of the processes that used a device
    std::vector<TraceBuilder> m_builders{1};
    ImportCounters m_counters;
    std::string m_schema;
    std::int64_t m_rows = 0;
};

void NsysReader::forEach(const std::string& sql, const std::function<void(const Statement&)>& row) {
    Statement statement = m_database.prepare(sql);
    int code = 0;
    while ((code = statement.step()) == SQLITE_ROW) row(statement);
    if (code != SQLITE_DONE)
        m_counters.add("source_damaged", ImportSeverity::Error, 1,
                       fmt::format("{}: {}", sql, m_database.error(code).message));
}

bool NsysReader::has(const std::string& table, std::string_view column) const {
    const auto found = m_tables.find(table);
    return found != m_tables.end() && found->second.contains(column);
}

void NsysReader::readTables() {
    std::vector<std::string> names;
    // No view and no virtual table: what they run is the file's to say.
    forEach("SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
            [&](const Statement& row) { names.emplace_back(row.text(0)); });
    for (const std::string& name : names) {
        if (name.find('"') != std::string::npos) continue;
        forEach(fmt::format("PRAGMA table_info(\"{}\")", name),
                [&](const Statement& row) { m_tables[name].insert(std::string(row.text(1))); });
    }
}

void NsysReader::readStrings() {
    if (!has("StringIds", "id") || !has("StringIds", "value")) return;
    forEach("SELECT id, value FROM StringIds",
            [&](const Statement& row) { m_strings[row.integer(0)] = std::string(row.text(1)); });
}

void NsysReader::readSchema() {
    if (has("META_DATA_EXPORT", "name") && has("META_DATA_EXPORT", "value"))
        forEach("SELECT value FROM META_DATA_EXPORT WHERE name='EXPORT_SCHEMA_VERSION'",
                [&](const Statement& row) { m_schema = std::string(row.text(0)); });
    if (m_schema.empty()) {
        m_schema = "unknown";
        m_counters.add("schema_version_missing", ImportSeverity::Info, 1,
                       "META_DATA_EXPORT does not say EXPORT_SCHEMA_VERSION");
    }
}

/// Each process that used a device is a rank, in the order of devices.
void NsysReader::findRanks() {
    std::map<std::int64_t, std::int64_t> least_device;
    for (const TableShape& shape : kShapes) {
        const std::string table(shape.table);
        if (!isDeviceWork(shape.category) || !has(table, "globalPid") || !has(table, "deviceId"))
            continue;
        forEach(fmt::format("SELECT globalPid, min(deviceId) FROM \"{}\" GROUP BY 1", table),
                [&](const Statement& row) {
                    const auto [it, fresh] =
                        least_device.try_emplace(pidOf(row.integer(0)), row.integer(1));
                    if (!fresh) it->second = std::min(it->second, row.integer(1));
                });
    }
    for (const auto& [pid, device] : least_device) m_pids.push_back(pid);
    std::stable_sort(m_pids.begin(), m_pids.end(), [&](std::int64_t a, std::int64_t b) {
        return least_device[a] < least_device[b];
    });
    m_builders = std::vector<TraceBuilder>(std::max<std::size_t>(1, m_pids.size()));
}

/// Records of a process without a device go to the first rank.
TraceBuilder& NsysReader::builderOf(std::int64_t pid) {
    const auto found = std::find(m_pids.begin(), m_pids.end(), pid);
    return m_builders[found == m_pids.end() ? 0 : static_cast<std::size_t>(found - m_pids.begin())];
}

std::string NsysReader::select(const std::string& table, const TableShape& shape,
                               Columns& columns) const {
    std::string list;
    int next = 0;
    const auto want = [&](int& at, std::initializer_list<std::string_view> candidates) {
        for (std::string_view column : candidates) {
            if (!has(table, column)) continue;
            at = next++;
            list += fmt::format("{}\"{}\"", at > 0 ? "," : "", column);
            return;
        }
    };
    want(columns.start, {"start"});
    want(columns.end, {"end"});
    want(columns.global, {"globalTid", "globalPid"});
    want(columns.correlation, {"correlationId"});
    want(columns.device, {"deviceId"});
    want(columns.stream, {"streamId"});
    want(columns.bytes, {"bytes"});
    want(columns.name, {shape.name_column, "nameId", "textId"});
    if (shape.category == EventCategory::Kernel)
        want(columns.other_name, {"shortName", "mangledName"});
    want(columns.text, {"text"});
    return fmt::format("SELECT {} FROM \"{}\"", list, table);
}

std::string NsysReader::nameOf(const Statement& row, const Columns& c, const TableShape& shape,
                               const std::map<std::int64_t, std::string>& names) const {
    if (c.text >= 0 && !row.isNull(c.text)) return std::string(row.text(c.text));
    for (const int column : {c.name, c.other_name}) {
        if (column < 0 || row.isNull(column)) continue;
        const std::int64_t number = row.integer(column);
        const auto& from = shape.names.empty() ? m_strings : names;
        if (const auto found = from.find(number); found != from.end()) return found->second;
        if (shape.names.empty() && column == c.name && c.other_name >= 0) continue;
        return shape.names == "graph" ? fmt::format("graph {}", number)
                                      : fmt::format("{} {}", toText(shape.category), number);
    }
    return std::string(toText(shape.category));
}

void NsysReader::readRow(const Statement& row, const Columns& c, const TableShape& shape,
                         const std::map<std::int64_t, std::string>& names) {
    ++m_rows;
    const std::int64_t pid = c.global < 0 ? 0 : pidOf(row.integer(c.global));
    TraceBuilder& builder = builderOf(pid);
    Event e;
    e.category = shape.category;
    const bool ends = c.end >= 0 && !row.isNull(c.end);
    if (row.isNull(c.start)) {
        // An NVTX category or domain; any other record lacks what it needs.
        e.category = EventCategory::Metadata;
        if (shape.category != EventCategory::Annotation)
            m_counters.add("no_timestamp", ImportSeverity::DataLoss, 1, shape.table);
    } else {
        const std::int64_t start = row.integer(c.start), end = ends ? row.integer(c.end) : start;
        if (!inTimeRange(start) || !inTimeRange(end)) {
            m_counters.add("bad_timestamp", ImportSeverity::DataLoss, 1, shape.table);
            return;
        }
        e.start_ns = start;
        e.duration_ns = end - start;
        if (!ends && isDeviceWork(shape.category))
            m_counters.add("no_duration", ImportSeverity::Info, 1, shape.table);
        else if (!ends)
            e.category = EventCategory::Instant;
    }
    if (e.duration_ns < 0)
        m_counters.add("negative_duration", ImportSeverity::Info, 1, shape.table);
    if (c.correlation >= 0 && !row.isNull(c.correlation))
        e.correlation = row.integer(c.correlation);
    if (c.bytes >= 0) e.bytes = row.integer(c.bytes);
    const bool on_device = c.device >= 0 && c.stream >= 0;
    e.lane = on_device ? Lane::Stream : Lane::Host;
    const std::string process = fmt::format("{}", pid);
    if (on_device) {
        const auto device = static_cast<std::int32_t>(row.integer(c.device));
        e.track = builder.track(process, "", device, row.integer(c.stream));
    } else {
        const std::int64_t thread = c.global < 0 ? 0 : row.integer(c.global) % kPidShift;
        e.track = builder.track(process, fmt::format("{}", thread));
    }
    e.name = builder.name(nameOf(row, c, shape, names));
    builder.add(e);
}

void NsysReader::readTable(const std::string& table, const TableShape& shape) {
    std::map<std::int64_t, std::string> names;
    const std::string enumeration(shape.names);
    if (has(enumeration, "id")) {
        const std::string_view column = has(enumeration, "label") ? "label" : "name";
        forEach(fmt::format("SELECT id, {} FROM \"{}\"", column, enumeration),
                [&](const Statement& row) {
                    names[row.integer(0)] =
                        fmt::format("{} {}", toText(shape.category), row.text(1));
                });
    }
    Columns columns;
    const std::string sql = select(table, shape, columns);
    if (columns.start < 0) {
        m_counters.add(fmt::format("table_without_start_{}", table), ImportSeverity::DataLoss, 1,
                       fmt::format("schema {}", m_schema));
        return;
    }
    forEach(sql, [&](const Statement& row) { readRow(row, columns, shape, names); });
}

void NsysReader::nameThreads() {
    if (has("PROCESSES", "globalPid") && has("PROCESSES", "name"))
        forEach("SELECT globalPid, name FROM PROCESSES", [&](const Statement& row) {
            const std::int64_t pid = pidOf(row.integer(0));
            builderOf(pid).nameProcess(fmt::format("{}", pid), row.text(1));
        });
    if (has("ThreadNames", "globalTid") && has("ThreadNames", "nameId"))
        forEach("SELECT globalTid, nameId FROM ThreadNames", [&](const Statement& row) {
            const std::int64_t global = row.integer(0), pid = pidOf(global);
            const auto found = m_strings.find(row.integer(1));
            if (found != m_strings.end())
                builderOf(pid).nameThread(fmt::format("{}", pid),
                                          fmt::format("{}", global % kPidShift), found->second);
        });
}

bool isRecordTable(const std::string& name) {
    return !name.starts_with("ENUM_") && !name.starts_with("TARGET_INFO") &&
           !name.starts_with("sqlite_") && !name.starts_with("META_DATA");
}

Status NsysReader::read() {
    readTables();
    const bool known = std::any_of(std::begin(kShapes), std::end(kShapes), [&](const auto& shape) {
        return m_tables.contains(std::string(shape.table));
    });
    if (!known) {
        Error error = fail(ErrorCode::InvalidInput,
                           "is an SQLite database, but no export of Nsight Systems: none of its {} "
                           "tables is CUPTI_ACTIVITY_KIND_* or NVTX_EVENTS",
                           m_tables.size());
        error.hint = "export with: nsys export --type sqlite REPORT.nsys-rep";
        return error;
    }
    readSchema();
    readStrings();
    findRanks();
    for (const auto& entry : m_tables) {
        const auto& [table, columns] = entry;
        const auto shape =
            std::find_if(std::begin(kShapes), std::end(kShapes),
                         [&](const TableShape& s) { return s.table == entry.first; });
        if (shape != std::end(kShapes)) {
            readTable(table, *shape);
        } else if (columns.contains("start") && columns.contains("end") && isRecordTable(table)) {
            readTable(table, {table, EventCategory::Other, "nameId", ""});
        } else if ((columns.contains("timestamp") || columns.contains("start")) &&
                   isRecordTable(table)) {
            std::int64_t rows = 0;
            forEach(fmt::format("SELECT count(*) FROM \"{}\"", table),
                    [&](const Statement& row) { rows = row.integer(0); });
            m_counters.add(fmt::format("table_not_read_{}", table), ImportSeverity::Info, rows);
        }
    }
    nameThreads();
    return {};
}

ImportedRun NsysReader::finish() {
    ImportedRun out;
    out.format = "nsys";
    out.counters = m_counters;
    std::vector<std::int64_t> origins;
    for (std::size_t r = 0; r < m_builders.size(); ++r) {
        TraceBuilder::Built built = m_builders[r].finish();
        built.rank.rank = RankId(r);
        // Processes of one file that name the same device mean the same one.
        built.rank.counters["devices_shared"] = "1";
        origins.push_back(built.origin_ns);
        out.counters.merge(built.counters);
        out.run.ranks.push_back(std::move(built.rank));
    }
    out.origin_ns = *std::min_element(origins.begin(), origins.end());
    for (std::size_t r = 0; r < origins.size(); ++r)
        out.run.ranks[r].offset_ns = origins[r] - out.origin_ns;
    out.run.ranks.front().counters["trace_events"] = fmt::format("{}", m_rows);
    for (std::size_t r = 1; r < origins.size(); ++r)
        out.run.ranks[r].counters["trace_events"] = "0";  // counted with the file's first rank
    out.run.notes["nsys_schema"] = m_schema;
    return out;
}

}  // namespace

Result<ImportedRun> importNsys(const std::filesystem::path& path) {
    PIPER_ASSIGN(Database database, Database::open(path.string(), Database::Mode::ReadOnly));
    if (const Result<std::int64_t> tables = database.integer("SELECT count(*) FROM sqlite_master");
        !tables.ok())
        return fail(ErrorCode::InvalidInput, "cannot be read: {}", tables.error().message)
            .at(path.string());
    PIPER_TRY(database.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"));
    NsysReader reader(database);
    if (Status read = reader.read(); !read.ok()) return std::move(read).error().at(path.string());
    return reader.finish();
}

}  // namespace piper
