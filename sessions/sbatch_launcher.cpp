// SPDX-License-Identifier: Apache-2.0
#include "sessions/sbatch_launcher.h"

#include <algorithm>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/script_launcher.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

struct Shape {
    std::int64_t nodes, tasks_per_node, tasks;
};

Shape shapeOf(const Plan& plan) {
    const std::int64_t world = plan.layout.world();
    const std::int64_t per_node = std::max<std::int64_t>(1, plan.cluster.devices_per_node);
    return {(world + per_node - 1) / per_node, std::min(world, per_node), world};
}

std::vector<std::string> stepCommand(const LaunchRequest& request) {
    const Shape shape = shapeOf(request.plan);
    std::vector<std::string> argv = {"srun", "--ntasks=" + std::to_string(shape.tasks),
                                     "--ntasks-per-node=" + std::to_string(shape.tasks_per_node),
                                     "--kill-on-bad-exit=1"};
    const std::vector<std::string> worker = workerCommand(request);
    argv.insert(argv.end(), worker.begin(), worker.end());
    return argv;
}

std::string batchScript(const LaunchRequest& request, const LauncherOptions& options) {
    const Shape shape = shapeOf(request.plan);
    std::string head = fmt::format(
        "#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n"
        "#SBATCH --ntasks={}\n#SBATCH --ntasks-per-node={}\n"
        "#SBATCH --output={}/{}\n#SBATCH --open-mode=append\n",
        stepName(request.job_directory), shape.nodes, shape.tasks, shape.tasks_per_node,
        request.job_directory, kLogFile);
    const auto directive = [&](const char* key, const std::string& value) {
        if (!value.empty()) head += fmt::format("#SBATCH --{}={}\n", key, value);
    };
    directive("account", options.account);
    directive("partition", options.partition);
    directive("time", options.time_limit);
    std::string own;
    for (const std::string& line : options.extra_lines)
        (line.starts_with("#SBATCH") ? head : own) += line + "\n";
    return head + fmt::format(
                      "cd {} || exit 3\n{}{}\nstatus=$?\n"
                      "echo \"$status\" > {}.part && mv {}.part {}\n",
                      shellQuote(request.job_directory), own, shellCommand(stepCommand(request)),
                      kExitStatusFile, kExitStatusFile, kExitStatusFile);
}

class SbatchLauncher final : public Launcher {
public:
    SbatchLauncher(Connection& connection, LauncherOptions options)
        : m_connection(connection), m_options(std::move(options)) {}

    std::string_view name() const override { return "sbatch"; }

    Result<LaunchPreview> preview(const LaunchRequest& request) override {
        LaunchPreview preview;
        preview.command = submitCommand(request);
        preview.script = batchScript(request, m_options);
        preview.rank_map = rankMap(request.plan);
        PIPER_ASSIGN(preview.warnings, checkEnvironment(m_connection, request, m_options));
        return preview;
    }

    Result<std::unique_ptr<Job>> launch(const LaunchRequest& request) override {
        // Slurm reads the path of the log from a comment, where nothing can be quoted.
        if (request.job_directory.find_first_of(" \t\n\"'\\%#") != std::string::npos)
            return fail(ErrorCode::InvalidInput,
                        "job directory '{}': sbatch takes no blank, quote, % or # in it",
                        displayLine(request.job_directory));
        PIPER_TRY(m_connection.makeDirectory(request.job_directory));
        JobRecord record;
        record.launcher = "sbatch";
        PIPER_TRY(prepareJob(m_connection, request, jobRecordText(record)));
        const std::string script = request.job_directory + "/" + std::string(kScriptFile);
        PIPER_TRY(m_connection.writeFile(script, batchScript(request, m_options), true));
        // Submitted and noted in one go: a connection that is cut leaves no job nobody knows.
        PIPER_ASSIGN(const CommandResult r, runShell(m_connection, submitScript(request)));
        if (r.exit_status != 0)
            return fail(ErrorCode::External, "sbatch on {} refused the job (status {}): {}",
                        m_connection.label(), r.exit_status, displayLine(r.error_output));
        PIPER_ASSIGN(const std::string text,
                     m_connection.readFile(
                         request.job_directory + "/" + std::string(kLauncherRecordFile), 1 << 16));
        PIPER_ASSIGN(record, readJobRecord(text, kLauncherRecordFile));
        return makeJob(m_connection, request.job_directory, std::move(record));
    }

private:
    static std::vector<std::string> submitCommand(const LaunchRequest& request) {
        return {"sbatch", "--parsable", request.job_directory + "/" + std::string(kScriptFile)};
    }

    static std::string submitScript(const LaunchRequest& request) {
        JobRecord record;
        record.launcher = "sbatch";
        record.slurm_job = "0000";
        std::string text = jobRecordText(record);
        const std::size_t at = text.find("0000");
        return fmt::format(
            "j=$({}) || exit 1\nj=${{j%%;*}}\ncd {} || exit 4\n"
            "printf '%s%s%s' {} \"$j\" {} > {}.part && mv {}.part {}\n",
            shellCommand(submitCommand(request)), shellQuote(request.job_directory),
            shellQuote(text.substr(0, at)), shellQuote(text.substr(at + 4)), kLauncherRecordFile,
            kLauncherRecordFile, kLauncherRecordFile);
    }

    Connection& m_connection;
    LauncherOptions m_options;
};

}  // namespace

std::unique_ptr<Launcher> makeSbatchLauncher(Connection& connection, LauncherOptions options) {
    return std::make_unique<SbatchLauncher>(connection, std::move(options));
}

}  // namespace piper
