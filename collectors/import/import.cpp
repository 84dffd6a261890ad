// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/import.h"

#include <algorithm>
#include <array>
#include <set>

#include "collectors/import/byte_source.h"
#include "collectors/import/text_lines.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

constexpr std::size_t kProbedBytes = std::size_t{1} << 18;

enum class Format { Workspace, Nsys, Chrome, RankProfile, NcclTests, Log };

bool holds(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

Format formatOfDatabase(std::string_view head) {
    // Bytes 68..71 of an SQLite file: application_id.
    return head.size() >= 72 && head.substr(68, 4) == "PIPR" ? Format::Workspace : Format::Nsys;
}

Result<Format> formatOf(const std::filesystem::path& path) {
    PIPER_ASSIGN(ByteSource source, ByteSource::open(path));
    std::string head(kProbedBytes, '\0');
    std::size_t size = 0;
    while (const std::size_t got = source.read(head.data() + size, head.size() - size)) size += got;
    head.resize(size);
    if (head.empty())
        return fail(ErrorCode::InvalidInput, "the file is empty{}{}",
                    source.fault().empty() ? "" : ": ", source.fault())
            .at(path.string());
    if (head.starts_with("SQLite format 3")) return formatOfDatabase(head);
    if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
        Error error = fail(ErrorCode::InvalidInput, "is text in UTF-16, which is not read");
        error.hint = "iconv -f UTF-16 -t UTF-8 FILE > FILE.utf8";
        return std::move(error).at(path.string());
    }
    const std::string_view text = trimmed(head);
    if (text.starts_with('{'))
        return holds(text, "avg_1st_a2a_per_layer") || holds(text, "avg_experts_per_layer") ||
                       holds(text, "avg_qkv_gemm")
                   ? Format::RankProfile
                   : Format::Chrome;
    if (holds(text, "nccl-tests version") || holds(text, "Collective test starting") ||
        (holds(text, "out-of-place") && holds(text, "busbw")))
        return Format::NcclTests;
    if (text.starts_with('[')) {
        const std::string_view inside = trimmed(text.substr(1));
        if (inside.empty() || inside.front() == '{' || inside.front() == ']') return Format::Chrome;
    }
    return Format::Log;
}

template <class T>
Result<std::vector<ImportedRun>> asList(Result<T> one) {
    if (!one.ok()) return std::move(one).error();
    std::vector<ImportedRun> out;
    out.push_back(std::move(one).value());
    return out;
}

Result<std::vector<ImportedRun>> importWorkspace(const std::filesystem::path& path) {
    PIPER_ASSIGN(Workspace file, Workspace::open(path));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    std::vector<ImportedRun> out;
    for (const RunSummary& summary : runs) {
        ImportedRun one;
        one.format = "workspace";
        PIPER_ASSIGN(one.run, file.readRun(summary.name));
        one.counters.add(
            "events_not_fetched", ImportSeverity::DataLoss, one.run.numDigests(),
            "a rank of run '" + summary.name + "' came as a digest: fetch its job first");
        out.push_back(std::move(one));
    }
    if (out.empty())
        return fail(ErrorCode::InvalidInput, "the workspace file holds no run").at(path.string());
    for (const std::string& damage : file.damage())
        out.front().counters.add("source_damaged", ImportSeverity::Error, 1, damage);
    return out;
}

Result<std::vector<ImportedRun>> readTrace(const std::filesystem::path& path) {
    PIPER_ASSIGN(const Format format, formatOf(path));
    switch (format) {
        case Format::Workspace:
            return importWorkspace(path);
        case Format::Nsys:
            return asList(importNsys(path));
        case Format::Chrome:
            return asList(importChrome(path));
        case Format::RankProfile:
            return asList(importRankProfile(path));
        case Format::NcclTests:
            return importNcclTests(path);
        case Format::Log:
            break;
    }
    Result<ImportedRun> log = importTrainingLog(path);
    if (log.ok() || log.error().code != ErrorCode::InvalidInput) return asList(std::move(log));
    // Its table may stand behind much other output.
    Result<std::vector<ImportedRun>> tests = importNcclTests(path);
    if (tests.ok()) return tests;
    return std::move(log).error();
}

/// All of a run but its ranks.
Run headerOf(ImportedRun& imported) {
    std::vector<RankTimeline> ranks;
    ranks.swap(imported.run.ranks);
    Run header = imported.run;
    ranks.swap(imported.run.ranks);
    return header;
}

/// A run that is being put together from several files.
struct OpenRun {
    std::string name;
    std::int64_t id = 0;
    std::int64_t world = 0;
    std::int64_t origin_ns = 0;
    std::filesystem::path folder;
    std::set<RankId> ranks;
    std::vector<std::string> files;
    std::map<std::string, std::string> notes;
    std::string failure;  ///< why records of it could not be stored
};

class Importer {
public:
    Importer(Workspace& into, const ImportOptions& options) : m_into(into), m_options(options) {}

    Status add(const std::filesystem::path& path) {
        PIPER_ASSIGN(std::vector<ImportedRun> runs, readTrace(path));
        for (ImportedRun& run : runs) PIPER_TRY(addRun(run, path));
        return {};
    }

    Result<ImportSummary> finish() {
        for (const OpenRun& open : m_open) PIPER_TRY(end(open));
        return std::move(m_summary);
    }

    /// Ends what was begun and tells with `fault` what was imported before it.
    Error finishAfter(Error fault) {
        for (const OpenRun& open : m_open)
            if (const Status ended = end(open); !ended.ok())
                fault.message += fmt::format("; run '{}' could not be ended: {}", open.name,
                                             ended.error().message);
        std::string done = m_summary.counters.text();
        if (!done.empty() && done.back() == '\n') done.pop_back();
        if (!done.empty())
            fault.hint +=
                fmt::format("{}of the files before:\n{}", fault.hint.empty() ? "" : "; ", done);
        return fault;
    }

private:
    Status end(const OpenRun& open) {
        PIPER_TRY(m_into.setNote(open.id, "files", fmt::format("{}", fmt::join(open.files, "\n"))));
        if (open.world > std::ssize(open.ranks))
            PIPER_TRY(m_into.setNote(
                open.id, "problems",
                fmt::format("{} of {} ranks are loaded", open.ranks.size(), open.world)));
        return m_into.endRun(open.id,
                             open.failure.empty() ? RunOutcome::Finished : RunOutcome::Failed,
                             open.failure);
    }

    Status addRun(ImportedRun& imported, const std::filesystem::path& path) {
        if (imported.format == "workspace") return addWhole(imported, path);
        PIPER_ASSIGN(OpenRun * open, runFor(imported, path));
        open->files.push_back(path.filename().string());
        PIPER_TRY(addNotes(*open, imported, path));
        numberRanks(*open, imported, path);
        putOnClock(*open, imported);
        for (const auto& [name, entry] : imported.counters.entries())
            imported.run.ranks.front()
                .counters[fmt::format("import.{}.{}", toText(entry.severity), name)] =
                fmt::format("{}", entry.count);
        std::int64_t events = 0;
        for (RankTimeline& rank : imported.run.ranks) {
            events += std::ssize(rank.events);
            if (const auto stored = m_into.addWholeRank(open->id, rank); !stored.ok()) {
                open->failure =
                    fmt::format("{}: {}", path.filename().string(), stored.error().message);
                m_summary.counters.merge(imported.counters);
                return stored.error();
            }
            rank = {};
        }
        record(open->name, imported, path, events);
        return {};
    }

    /// A note that another file of the run words differently keeps this file's name.
    Status addNotes(OpenRun& open, const ImportedRun& imported, const std::filesystem::path& path) {
        std::map<std::string, std::string> notes = imported.run.notes;
        notes["format"] = imported.format;
        for (auto& [name, value] : notes) {
            const auto found = open.notes.find(name);
            if (found != open.notes.end() && found->second == value) continue;
            const std::string key = found == open.notes.end()
                                        ? name
                                        : fmt::format("{} of {}", name, path.filename().string());
            PIPER_TRY(m_into.setNote(open.id, key, value));
            open.notes[key] = value;
        }
        return {};
    }

    /// Ranks that are there already get the next free number; devices the number of their file.
    static void numberRanks(OpenRun& open, ImportedRun& imported,
                            const std::filesystem::path& path) {
        for (RankTimeline& rank : imported.run.ranks) {
            if (rank.counters.contains("devices_shared"))
                rank.counters["devices_shared"] = fmt::format("{}", open.files.size());
            if (open.ranks.insert(rank.rank).second) continue;
            const RankId free(open.ranks.rbegin()->value + 1);
            imported.counters.add("rank_renumbered", ImportSeverity::Info, 1,
                                  fmt::format("rank {} of {} is rank {}", rank.rank.value,
                                              path.filename().string(), free.value));
            rank.rank = free;
            open.ranks.insert(free);
        }
    }

    /// Offsets on the clock of the run's first file, where that can be.
    static void putOnClock(const OpenRun& open, ImportedRun& imported) {
        for (RankTimeline& rank : imported.run.ranks) {
            std::int64_t offset = 0;
            if (!__builtin_sub_overflow(imported.origin_ns, open.origin_ns, &offset) &&
                !__builtin_add_overflow(offset, rank.offset_ns, &offset) && inTimeRange(offset))
                rank.offset_ns = offset;
            else
                imported.counters.add("clock_too_far", ImportSeverity::Info);
        }
    }

    /// A run of a workspace file comes as it is.
    Status addWhole(ImportedRun& imported, const std::filesystem::path& path) {
        PIPER_ASSIGN(imported.run.name, m_into.freeRunName(imported.run.name));
        std::int64_t events = 0;
        for (const RankTimeline& rank : imported.run.ranks) events += std::ssize(rank.events);
        PIPER_TRY([&]() -> Status {
            const Result<std::int64_t> id = m_into.addRun(imported.run);
            return id.ok() ? Status() : Status(id.error());
        }());
        record(imported.run.name, imported, path, events);
        return {};
    }

    void record(const std::string& run, const ImportedRun& imported,
                const std::filesystem::path& path, std::int64_t events) {
        m_summary.written.push_back({run, path.string(), imported.format, events});
        m_summary.counters.merge(imported.counters);
    }

    [[nodiscard]] OpenRun* find(const ImportedRun& imported, const std::filesystem::path& path) {
        for (OpenRun& open : m_open) {
            if (!m_options.run_name.empty()) return &open;
            if (imported.world < 2 || open.world != imported.world) continue;
            if (open.folder != path.parent_path() || imported.run.ranks.size() != 1) continue;
            if (!open.ranks.contains(imported.run.ranks.front().rank)) return &open;
        }
        return nullptr;
    }

    Result<OpenRun*> runFor(ImportedRun& imported, const std::filesystem::path& path) {
        if (OpenRun* open = find(imported, path)) return open;
        std::string name = m_options.run_name;
        if (name.empty()) name = imported.run.name.empty() ? traceStem(path) : imported.run.name;
        Run header = headerOf(imported);
        PIPER_ASSIGN(header.name, m_into.freeRunName(name));
        header.kind = RunKind::Measured;
        header.outcome = RunOutcome::Running;
        header.notes["format"] = imported.format;
        if (imported.world > 0) header.notes["world"] = fmt::format("{}", imported.world);
        OpenRun open{
            header.name,  0, imported.world, imported.origin_ns, path.parent_path(), {}, {},
            header.notes, {}};
        PIPER_ASSIGN(open.id, m_into.beginRun(header));
        m_open.push_back(std::move(open));
        return &m_open.back();
    }

    Workspace& m_into;
    const ImportOptions& m_options;
    std::vector<OpenRun> m_open;
    ImportSummary m_summary;
};

}  // namespace

std::string traceStem(const std::filesystem::path& path) {
    std::string name = path.filename().string();
    for (const std::string_view suffix :
         {".gz", ".json", ".trace", ".pt", ".sqlite", ".db", ".log", ".txt"})
        if (name.size() > suffix.size() && name.ends_with(suffix))
            name.resize(name.size() - suffix.size());
    return name;
}

Result<ImportSummary> importTraces(const std::vector<std::filesystem::path>& paths, Workspace& into,
                                   const ImportOptions& options) {
    Importer importer(into, options);
    for (const std::filesystem::path& path : paths) {
        Status added = importer.add(path);
        if (added.ok()) continue;
        return importer.finishAfter(std::move(added).error());  // what came before is complete
    }
    return importer.finish();
}

}  // namespace piper
