// SPDX-License-Identifier: Apache-2.0
#include "core/export/export.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "collectors/export/chrome.h"
#include "collectors/export/csv.h"
#include "collectors/export/nsys_sqlite.h"
#include "collectors/export/perfetto.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct ExportOptions {
    std::string plan;  ///< plan file, or a workspace file together with `run`
    std::string run;
    std::string target;
    std::string output;
};

Status writeFiles(const std::vector<ExportedFile>& files, const std::filesystem::path& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error)
        return fail(ErrorCode::Io, "cannot make the directory: {}", error.message())
            .at(directory.string());
    for (const ExportedFile& file : files) {
        const std::filesystem::path path = directory / file.name;
        PIPER_TRY(writeTextFile(path, file.content));
        if (!file.executable) continue;
        using Perms = std::filesystem::perms;
        std::filesystem::permissions(path,
                                     Perms::owner_exec | Perms::group_exec | Perms::others_exec,
                                     std::filesystem::perm_options::add, error);
        if (error)
            return fail(ErrorCode::Io, "cannot be made executable: {}", error.message())
                .at(path.string());
    }
    return {};
}

Json documentOf(const Export& exported, const ExportOptions& options, const OptionSource& source) {
    Json files = Json::array();
    for (const ExportedFile& file : exported.files)
        files.push_back((std::filesystem::path(options.output) / file.name).string());
    return {{"target", options.target},
            {"files", std::move(files)},
            {"not_expressed", exported.not_expressed},
            {"options",
             {{"name", source.name},
              {"repository", source.repository},
              {"commit", source.commit},
              {"source", source.files},
              {"count", source.options}}}};
}

/// Writes the run; what the target has no place for.
Result<LeftOut> writeTrace(const Run& run, const ExportOptions& options) {
    if (options.target == "nsys-sqlite") return exportNsysSqlite(run, options.output);
    using Exporter = Status (*)(const Run&, const std::filesystem::path&);
    for (const auto& [target, exporter] :
         {std::pair{"chrome", Exporter(exportChromeTrace)},
          std::pair{"perfetto", Exporter(exportPerfetto)}, std::pair{"csv", Exporter(exportCsv)}}) {
        if (options.target != target) continue;
        PIPER_TRY(exporter(run, options.output));
        return LeftOut{};
    }
    Error error = fail(ErrorCode::InvalidInput, "a run is not exported to '{}'", options.target);
    error.hint =
        "a run: chrome, perfetto, nsys-sqlite or csv; a plan: megatron, deepspeed, ... without a "
        "run's name";
    return error;
}

/// A run of a workspace file as a trace other tools read.
Outcome exportRun(const ExportOptions& options, bool json) {
    PIPER_ASSIGN(Workspace workspace, Workspace::open(options.plan));
    PIPER_ASSIGN(const Run run, workspace.readRun(options.run));
    if (run.numDigests() > 0) {
        Error error = fail(ErrorCode::InvalidInput,
                           "run '{}': {} of its {} ranks are here without most events", run.name,
                           run.numDigests(), run.ranks.size());
        error.hint = "piperctl fetch JOB without --digest brings them";
        return std::move(error).at(options.plan);
    }
    PIPER_ASSIGN(const LeftOut left_out, writeTrace(run, options));
    for (const std::string& damage : workspace.damage()) printMessage("damaged: " + damage);
    if (json) {
        printJson({{"run", options.run},
                   {"target", options.target},
                   {"file", options.output},
                   {"not_expressed", left_out}});
    } else {
        fmt::print("{}\n", options.output);
        for (const auto& [kind, count] : left_out)
            fmt::print("not expressed: {} records of kind {}\n", count, kind);
    }
    return workspace.damage().empty() ? 0 : 1;
}

Outcome runExport(const ExportOptions& options, bool json) {
    if (!options.run.empty()) return exportRun(options, json);
    PIPER_ASSIGN(const ExportTarget target, parseEnum<ExportTarget>(options.target, "target"));
    PIPER_ASSIGN(const Plan plan, loadPlan(options.plan));
    PIPER_ASSIGN(const Export exported, exportPlan(plan, target));
    PIPER_TRY(writeFiles(exported.files, options.output));
    const OptionSource source = optionSource(target);
    if (json) {
        printJson(documentOf(exported, options, source));
        return 0;
    }
    for (const ExportedFile& file : exported.files)
        fmt::print("{}\n", (std::filesystem::path(options.output) / file.name).string());
    fmt::print("every option is one of the {} of {} ({} {})\n", source.options, source.name,
               source.repository, source.commit);
    for (const std::string& sentence : exported.not_expressed)
        fmt::print("not expressed: {}\n", sentence);
    return 0;
}

}  // namespace

void addExport(CommandSet& commands) {
    const auto options = std::make_shared<ExportOptions>();
    CLI::App& app =
        commands.add("export", "A plan as a framework's files, a run as a trace",
                     [options, &commands] { return runExport(*options, commands.json()); });
    app.add_option("file", options->plan, "Plan file, or a workspace file and a run's name")
        ->required();
    app.add_option("run", options->run, "Run of the workspace file");
    app.add_option("--to", options->target,
                   "A plan: megatron, megatron-yaml, deepspeed, xmoe, torchtitan, slurm; "
                   "a run: chrome, perfetto, nsys-sqlite, csv")
        ->required();
    app.add_option("-o,--output", options->output, "Directory for a plan's files, file for a run")
        ->required();
}

}  // namespace piper::app
