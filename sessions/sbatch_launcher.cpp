// SPDX-License-Identifier: Apache-2.0
#include "sessions/sbatch_launcher.h"

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/script_launcher.h"
#include "sessions/shell_quote.h"
#include "sessions/slurm.h"

namespace piper {
namespace {

std::string batchScript(const LaunchRequest& request, const LauncherOptions& options,
                        const std::string& devices) {
    const SlurmShape shape = slurmShape(request.plan);
    // Started again after a lost node it would write over what its ranks recorded.
    std::string head = fmt::format(
        "#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n"
        "#SBATCH --ntasks={}\n#SBATCH --ntasks-per-node={}\n"
        "#SBATCH --output={}/{}\n#SBATCH --open-mode=append\n#SBATCH --no-requeue\n",
        stepName(request.job_directory), shape.nodes, shape.tasks, shape.tasks_per_node,
        request.job_directory, kLogFile);
    for (const std::string& choice : slurmChoices(options)) head += "#SBATCH " + choice + "\n";
    if (!devices.empty()) head += "#SBATCH " + devices + "\n";
    for (const std::string& line : options.extra_lines)
        if (line.starts_with("#SBATCH")) head += line + "\n";
    return head + fmt::format("cd {} || exit 3\n", shellQuote(request.job_directory)) +
           scriptOf({srunCommand(request, {}), slurmEnvironment(options), "", "",
                     namesLostNode("$SLURM_JOB_ID")},
                    options) +
           fmt::format(
               "[ ! -f {} ] || scancel \"$SLURM_JOB_ID\"  # so it stands in Slurm's accounts\n",
               kCancelledFile);
}

class SbatchLauncher final : public Launcher {
public:
    SbatchLauncher(Connection& connection, LauncherOptions options)
        : m_connection(connection), m_options(std::move(options)) {}

    std::string_view name() const override { return "sbatch"; }

    Result<LaunchPreview> preview(const LaunchRequest& request) override {
        LaunchPreview preview;
        preview.command = submitCommand(request);
        PIPER_ASSIGN(const std::string devices,
                     deviceChoice(m_connection, request.plan, m_options));
        preview.script = batchScript(request, m_options, devices);
        preview.rank_map = rankMap(request.plan);
        PIPER_ASSIGN(preview.warnings, checkEnvironment(m_connection, request, m_options, name()));
        if (devices.empty() && request.plan.cluster.device.kind == DeviceKind::Gpu &&
            !asksForDevices(m_options))
            preview.warnings.emplace_back(
                "Slurm hands out no GPUs there (sinfo shows no gres of them): whether the nodes it "
                "gives have some is chance");
        PIPER_TRY(askSlurm(preview));
        return preview;
    }

    Result<std::unique_ptr<Job>> launch(const LaunchRequest& request) override {
        // Slurm reads the path of the log from a comment, where nothing can be quoted.
        if (request.job_directory.find_first_of(" \t\n\"'\\%#") != std::string::npos)
            return fail(ErrorCode::InvalidInput,
                        "job directory '{}': sbatch takes no blank, quote, % or # in it",
                        displayLine(request.job_directory));
        PIPER_ASSIGN(const std::string devices,
                     deviceChoice(m_connection, request.plan, m_options));
        JobRecord record;
        record.launcher = "sbatch";
        PIPER_TRY(prepareJob(m_connection, request, m_options, jobRecordText(record)));
        const std::string script = request.job_directory + "/" + std::string(kScriptFile);
        PIPER_TRY(m_connection.writeFile(script, batchScript(request, m_options, devices), true));
        // Submitted and noted in one go: a connection that is cut leaves no job nobody knows.
        PIPER_ASSIGN(const CommandResult r, runShell(m_connection, submitScript(request)));
        if (r.exit_status == 4)
            return fail(ErrorCode::Io, "cannot note Slurm's job in {}, so it was cancelled: {}",
                        request.job_directory, displayLine(r.error_output));
        if (r.exit_status == 5) {
            Error error = fail(ErrorCode::External,
                               "sbatch on {} failed, and squeue there does not answer either, so "
                               "Slurm may have the job or not; sbatch said: {}",
                               m_connection.label(),
                               r.error_output.empty() ? "nothing" : slurmWords(r.error_output));
            error.hint = fmt::format(
                "once Slurm answers, 'piperctl jobs' takes {} up; squeue --name "
                "{} shows it too",
                request.job_directory, stepName(request.job_directory));
            return error;
        }
        if (r.exit_status != 0) {
            Error error = slurmRefusal(m_connection, m_options, r);
            // Nobody would know what became of a job that never was.
            (void)m_connection.run({"rm", "-rf", "--", request.job_directory});
            return error;
        }
        PIPER_ASSIGN(const std::string text,
                     m_connection.readFile(
                         request.job_directory + "/" + std::string(kLauncherRecordFile), 1 << 16));
        PIPER_ASSIGN(record, readJobRecord(text, kLauncherRecordFile));
        return makeJob(m_connection, request.job_directory, std::move(record));
    }

private:
    /// Lets Slurm look at the script without submitting it.
    Status askSlurm(LaunchPreview& preview) {
        PIPER_ASSIGN(const CommandResult r,
                     runShell(m_connection, "timeout 10 sbatch --test-only 2>&1 <<'PIPER_END'\n" +
                                                preview.script + "PIPER_END\n"));
        const std::string said = slurmWords(r.output);
        if (r.exit_status == 0 && said.find("failure") == std::string::npos)
            preview.queue = said;
        else
            preview.warnings.push_back("Slurm would not take it: " +
                                       (said.empty() ? "it does not answer" : said));
        return {};
    }

    static std::vector<std::string> submitCommand(const LaunchRequest& request) {
        return {"sbatch", "--parsable", request.job_directory + "/" + std::string(kScriptFile)};
    }

    static std::string submitScript(const LaunchRequest& request) {
        return fmt::format(
            "{}cd {} || exit 4\n"
            // A controller may have taken the job and answered too late: its name is no other's.
            "j=$({}) || {{ adopt || exit 5; [ -n \"$j\" ] || exit 1; exit 0; }}\n"
            "j=${{j%%;*}}; note \"$j\" || {{ scancel \"$j\"; exit 4; }}\n",
            slurmFunctions(), shellQuote(request.job_directory),
            shellCommand(submitCommand(request)));
    }

    Connection& m_connection;
    LauncherOptions m_options;
};

}  // namespace

std::unique_ptr<Launcher> makeSbatchLauncher(Connection& connection, LauncherOptions options) {
    return std::make_unique<SbatchLauncher>(connection, std::move(options));
}

}  // namespace piper
