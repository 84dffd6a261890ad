// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/import.h"

#include <memory>

#include "app/piperctl/command.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct ImportArguments {
    std::vector<std::string> traces;
    std::string output;
    std::string run;
};

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

Outcome runImport(const ImportArguments& arguments, bool json) {
    const std::vector<std::filesystem::path> paths(arguments.traces.begin(),
                                                   arguments.traces.end());
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
    PIPER_TRY(into.close());
    if (json) printJson(documentOf(*imported, arguments.output));
    for (const ImportSummary::Written& w : imported->written)
        if (!json) fmt::print("{}: {} events of {} ({})\n", w.run, w.events, w.file, w.format);
    for (const auto& [name, entry] : imported->counters.entries()) {
        const bool lost = entry.severity != ImportSeverity::Info;
        if (lost || name == "no_device_work" || !json)
            printMessage(fmt::format("{} {}: {}{}{}", toText(entry.severity), name, entry.count,
                                     entry.first.empty() ? "" : ": ", entry.first));
    }
    return imported->counters.lostData() ? 1 : 0;
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
}

}  // namespace piper::app
