// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/import.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>

#include "app/piperctl/child_process.h"
#include "app/piperctl/command.h"
#include "collectors/import/align.h"
#include "core/base/csv.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct ImportArguments {
    std::vector<std::string> traces;
    std::string output;
    std::string run;
    bool align = false;
    std::vector<std::string> offsets;  ///< RANK=NANOSECONDS
    std::string rule{CommunicationRule::kDefault};
};

/// Runs that were written, each once.
std::vector<std::string> runsOf(const ImportSummary& summary) {
    std::vector<std::string> out;
    for (const ImportSummary::Written& w : summary.written)
        if (std::find(out.begin(), out.end(), w.run) == out.end()) out.push_back(w.run);
    return out;
}

/// "3=-1200" sets the offset of rank 3.
Status setOffset(Workspace& into, const std::string& run, const std::string& text) {
    const std::size_t sign = text.find('=');
    std::int32_t rank = -1;
    std::int64_t offset = 0;
    const char* end = text.data() + text.size();
    bool read = sign != std::string::npos;
    if (read) {
        const auto left = std::from_chars(text.data(), text.data() + sign, rank);
        const auto right = std::from_chars(text.data() + sign + 1, end, offset);
        read = left.ec == std::errc() && left.ptr == text.data() + sign &&
               right.ec == std::errc() && right.ptr == end;
    }
    if (!read)
        return fail(ErrorCode::InvalidInput, "--offset {}: not RANK=NANOSECONDS, as in 3=-1200",
                    text);
    return into.setClock(run, RankId(rank), offset, {});
}

struct Alignment {
    Json rows = Json::array();
    bool complete = true;
};

Json clockRow(const std::string& run, const RankAlignment& r) {
    const ClockFit& fit = r.found.fit;
    return {{"run", run},
            {"rank", r.rank.value},
            {"aligned", r.found.aligned},
            {"reference", r.reference.value},
            {"collectives", r.found.matched},
            {"consistent", r.found.consistent},
            {"offset_before_ns", r.offset_before_ns},
            {"offset_ns", r.offset_ns},
            {"drift_ppm", fit.drift * 1e6},
            {"residual_rms_ns", fit.residual_rms_ns},
            {"residual_max_ns", fit.residual_max_ns},
            {"uncertainty_ns", fit.uncertainty_ns}};
}

void printClock(const std::string& run, const RankAlignment& r) {
    const ClockFit& fit = r.found.fit;
    fmt::print("{}: rank {}: ", run, r.rank.value);
    if (!r.found.aligned) {
        fmt::print("not aligned: {} of {} collectives agree\n", r.found.consistent,
                   r.found.matched);
        return;
    }
    fmt::print(
        "{} of {} collectives agree with rank {}: offset {} ns (was {}), drift {:.3f} ppm, "
        "residual "
        "{:.0f} ns rms, {:.0f} ns at most\n",
        r.found.consistent, r.found.matched, r.reference.value, r.offset_ns, r.offset_before_ns,
        fit.drift * 1e6, fit.residual_rms_ns, fit.residual_max_ns);
}

/// Clocks as asked for: by hand, then by collectives.
Result<Alignment> setClocks(Workspace& into, const ImportSummary& summary,
                            const ImportArguments& arguments, bool json) {
    Alignment out;
    const std::vector<std::string> runs = runsOf(summary);
    if (!arguments.offsets.empty() && runs.size() != 1)
        return fail(ErrorCode::InvalidInput,
                    "--offset is for the ranks of one run, the files became {}", runs.size());
    for (const std::string& offset : arguments.offsets)
        PIPER_TRY(setOffset(into, runs.front(), offset));
    if (!arguments.align) return out;
    PIPER_ASSIGN(const CommunicationRule rule, CommunicationRule::parse(arguments.rule));
    for (const std::string& run : runs) {
        PIPER_ASSIGN(const std::vector<RankAlignment> ranks, alignRun(into, run, rule));
        for (const RankAlignment& r : ranks) {
            // The first is the one that others are held against.
            const bool first = &r == ranks.data();
            out.complete = out.complete && r.found.aligned;
            out.rows.push_back(clockRow(run, r));
            if (!json && !first) printClock(run, r);
        }
    }
    return out;
}

Json documentOf(const ImportSummary& summary, const std::string& file) {
    Json runs = Json::array();
    for (const ImportSummary::Written& w : summary.written)
        runs.push_back(
            {{"run", w.run}, {"file", w.file}, {"format", w.format}, {"events", w.events}});
    Json counters = Json::array();
    for (const auto& [name, entry] : summary.counters.entries())
        counters.push_back({{"name", name},
                            {"severity", toText(entry.severity)},
                            {"count", entry.count},
                            {"first", entry.first}});
    return {{"format_version", 1},
            {"file", file},
            {"runs", std::move(runs)},
            {"counters", std::move(counters)},
            {"lost_data", summary.counters.lostData()}};
}

/// Where each rank stands on the common clock and what of its arrows finds its other end; arrows
/// are joined within a rank only.
Result<Json> ranksOf(Workspace& into, const ImportSummary& summary) {
    Json out = Json::array();
    for (const std::string& name : runsOf(summary)) {
        PIPER_ASSIGN(const Run run, into.readHeader(name));
        for (const RankTimeline& rank : run.ranks) {
            const auto counter = [&](const char* key) -> std::int64_t {
                const auto found = rank.counters.find(key);
                if (found == rank.counters.end()) return 0;
                const Result<std::int64_t> n = parseWhole(found->second);
                return n.ok() ? *n : 0;
            };
            out.push_back(
                {{"run", name},
                 {"rank", rank.rank.value},
                 {"offset_ns", rank.offset_ns},
                 {"arrows_begun", counter("import.info.flow_start")},
                 {"arrows_ended", counter("import.info.flow_end")},
                 {"arrows_without_begin", counter("import.info.flow_end_without_start")}});
        }
    }
    return out;
}

Outcome runImport(const ImportArguments& arguments, bool json) {
    const std::vector<std::filesystem::path> paths(arguments.traces.begin(),
                                                   arguments.traces.end());
    const auto begin = std::chrono::steady_clock::now();
    std::error_code ignored;
    const bool fresh = !std::filesystem::exists(arguments.output, ignored);
    PIPER_ASSIGN(Workspace into, Workspace::openOrCreate(arguments.output));
    Result<ImportSummary> imported = importTraces(paths, into, {arguments.run});
    if (!imported.ok()) {
        const Result<std::vector<RunSummary>> runs = into.runs();
        const bool empty = fresh && runs.ok() && runs->empty();
        PIPER_TRY(into.close());
        if (empty) std::filesystem::remove(arguments.output, ignored);
        return std::move(imported).error();
    }
    PIPER_ASSIGN(const Alignment clocks, setClocks(into, *imported, arguments, json));
    Json ranks;
    if (json) {
        PIPER_ASSIGN(ranks, ranksOf(into, *imported));
    }
    PIPER_TRY(into.close());
    if (json) {
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
        Json document = documentOf(*imported, arguments.output);
        document["clocks"] = clocks.rows;
        document["ranks"] = std::move(ranks);
        document["wall_seconds"] = wall.count();
        document["cpu_seconds"] = ownCpuSeconds();
        printJson(document);
    }
    for (const ImportSummary::Written& w : imported->written)
        if (!json) fmt::print("{}: {} events of {} ({})\n", w.run, w.events, w.file, w.format);
    for (const auto& [name, entry] : imported->counters.entries()) {
        const bool lost = entry.severity != ImportSeverity::Info;
        if (lost || name == "no_device_work" || !json)
            printMessage(fmt::format("{} {}: {}{}{}", toText(entry.severity), name, entry.count,
                                     entry.first.empty() ? "" : ": ", entry.first));
    }
    return imported->counters.lostData() || !clocks.complete ? 1 : 0;
}

}  // namespace

void addImport(CommandSet& commands) {
    const auto arguments = std::make_shared<ImportArguments>();
    CLI::App& app =
        commands.add("import", "Traces and logs of other programs into a workspace file",
                     [arguments, &commands] { return runImport(*arguments, commands.json()); });
    app.add_option(
           "traces", arguments->traces,
           "Nsight Systems SQLite, Chrome or Kineto JSON (.gz), nccl-tests output, training "
           "logs, rank profiles, workspace files")
        ->required();
    app.add_option("-o,--output", arguments->output, "Workspace file, made or added to")
        ->required();
    app.add_option("--run", arguments->run,
                   "Name of one run that all files belong to, a rank each");
    app.add_flag("--align", arguments->align,
                 "Set the ranks' clocks by the collectives that they share");
    app.add_option("--comm-rule", arguments->rule, "Kernels that --align takes for collectives");
    app.add_option("--offset", arguments->offsets,
                   "RANK=NANOSECONDS: added to every time of that rank, instead of its file's");
}

}  // namespace piper::app
