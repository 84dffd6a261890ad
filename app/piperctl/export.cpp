// SPDX-License-Identifier: Apache-2.0
#include "core/export/export.h"

#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "app/common/files.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct ExportOptions {
    std::string plan;
    std::string target;
    std::string directory;
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
        files.push_back((std::filesystem::path(options.directory) / file.name).string());
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

Outcome runExport(const ExportOptions& options, bool json) {
    PIPER_ASSIGN(const ExportTarget target, parseEnum<ExportTarget>(options.target, "target"));
    PIPER_ASSIGN(const Plan plan, loadPlan(options.plan));
    PIPER_ASSIGN(const Export exported, exportPlan(plan, target));
    PIPER_TRY(writeFiles(exported.files, options.directory));
    const OptionSource source = optionSource(target);
    if (json) {
        printJson(documentOf(exported, options, source));
        return 0;
    }
    for (const ExportedFile& file : exported.files)
        fmt::print("{}\n", (std::filesystem::path(options.directory) / file.name).string());
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
        commands.add("export", "Files a framework itself accepts",
                     [options, &commands] { return runExport(*options, commands.json()); });
    app.add_option("plan", options->plan, "Plan file")->required();
    app.add_option("--to", options->target,
                   "megatron, megatron-yaml, deepspeed, xmoe, torchtitan or slurm")
        ->required();
    app.add_option("-o,--output", options->directory, "Directory for the files")->required();
}

}  // namespace piper::app
