// SPDX-License-Identifier: Apache-2.0
#include "sessions/mpirun_launcher.h"

#include <chrono>
#include <thread>

#include "core/base/json.h"
#include "sessions/job_directory.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

std::string inDirectory(const std::string& directory, std::string_view name) {
    return directory + "/" + std::string(name);
}

std::vector<std::string> rankCommand(const LaunchRequest& request) {
    std::vector<std::string> worker = {request.worker,
                                       "--plan",
                                       inDirectory(request.job_directory, kPlanFile),
                                       "--job",
                                       request.job_directory,
                                       "--steps",
                                       std::to_string(request.steps)};
    worker.insert(worker.end(), request.worker_arguments.begin(), request.worker_arguments.end());
    return mpirunCommand(request.plan.layout.world(), worker);
}

/// Session leader of the job: writes its own process id first and the exit status last.
std::string launchScript(const LaunchRequest& request) {
    return fmt::format(
        "#!/bin/sh\n"
        "cd {} || exit 3\n"
        "echo $$ > {}.part && mv {}.part {}\n"
        "# The ranks are told to stop by their launcher; this script only records how it ended.\n"
        "# Room for its answer is taken now, while the disk has some.\n"
        "printf '%-8s\\n' running > {}.part\n"
        "trap '' TERM INT HUP\n"
        "( trap - TERM INT HUP; exec {} ) > {} 2>&1\n"
        "status=$?\n"
        "printf '%-8s\\n' \"$status\" 1<> {}.part && mv {}.part {}\n",
        shellQuote(request.job_directory), kLauncherPidFile, kLauncherPidFile, kLauncherPidFile,
        kExitStatusFile, shellCommand(rankCommand(request)), kLogFile, kExitStatusFile,
        kExitStatusFile, kExitStatusFile);
}

class MpirunJob final : public Job {
public:
    MpirunJob(Connection& connection, std::string directory)
        : m_connection(connection), m_directory(std::move(directory)) {}

    const std::string& directory() const override { return m_directory; }

    Result<JobStatus> status() override {
        JobStatus status;
        const Result<std::string> text = m_connection.readFile(file(kStatusFile), 1 << 20);
        if (text.ok()) {
            PIPER_ASSIGN(status, parseJobStatus(*text, file(kStatusFile)));
        }
        // Rank 0 reports its own end; the job ends with its launcher.
        const Result<std::string> exit_text = m_connection.readFile(file(kExitStatusFile), 64);
        if (exit_text.ok()) return ended(std::move(status), *exit_text);
        if (launcherAlive()) {
            if (isFinal(status.state)) status.state = JobState::Running;
            return status;
        }
        const bool cancelled = m_connection.readFile(file(kCancelledFile), 1).ok();
        status.state = cancelled ? JobState::Cancelled : JobState::Failed;
        if (!cancelled)
            status.message = "the launcher ended without leaving an exit status; " + lastLogLine();
        return status;
    }

    Status cancel() override {
        PIPER_TRY(m_connection.writeFile(file(kCancelledFile), "", false));
        for (const char* signal : {"-TERM", "-KILL"}) {
            PIPER_TRY(signalAll(signal));
            for (int i = 0; i < 100; ++i) {
                // The script outlives the ranks by the moment in which it writes how they ended.
                PIPER_ASSIGN(const bool alive, anyAlive());
                if (!alive && !launcherAlive()) return {};
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
        }
        return fail(ErrorCode::External, "processes of job {} are still there after SIGKILL",
                    m_directory);
    }

    Result<std::string> log() override {
        PIPER_ASSIGN(std::string text, m_connection.readFile(file(kLogFile), 8 << 20));
        std::string fresh = text.size() > m_log_read ? text.substr(m_log_read) : std::string();
        m_log_read = text.size();
        return fresh;
    }

private:
    [[nodiscard]] std::string file(std::string_view name) const {
        return inDirectory(m_directory, name);
    }

    JobStatus ended(JobStatus status, const std::string& exit_text) {
        const int code = std::atoi(exit_text.c_str());
        const bool cancelled = m_connection.readFile(file(kCancelledFile), 1).ok();
        status.state = cancelled || code == 130 ? JobState::Cancelled
                       : code == 0              ? JobState::Finished
                                                : JobState::Failed;
        if (status.state == JobState::Failed && status.message.empty())
            status.message = fmt::format("mpirun ended with status {}; {}", code, lastLogLine());
        return status;
    }

    std::string lastLogLine() {
        const Result<std::string> text = m_connection.readFile(file(kLogFile), 8 << 20);
        if (!text.ok()) return "no log";
        // The worker's own sentence, not the launcher's banner around it.
        const std::size_t own = text->rfind("piper-worker:");
        if (own != std::string::npos) return text->substr(own, text->find('\n', own) - own);
        const std::size_t end = text->find_last_not_of('\n');
        if (end == std::string::npos) return "the log is empty";
        const std::size_t begin = text->rfind('\n', end);
        return text->substr(begin == std::string::npos ? 0 : begin + 1, end + 1 - begin);
    }

    bool launcherAlive() {
        const Result<std::string> pid = m_connection.readFile(file(kLauncherPidFile), 32);
        if (!pid.ok()) return ++m_checks_without_pid < 40;  // the script has not started yet
        const Result<CommandResult> r =
            m_connection.run({"kill", "-0", pid->substr(0, pid->find('\n'))});
        return r.ok() && r->exit_status == 0;
    }

    /// Matches the command line of mpirun and of every rank of this job.
    [[nodiscard]] std::string jobPattern() const {
        std::string pattern = "--job ";
        for (const char c : m_directory) {
            if (std::string_view("\\.[]{}()*+?^$|").find(c) != std::string_view::npos)
                pattern += '\\';
            pattern += c;
        }
        return pattern + " ";
    }

    /// Every process of the job, the script aside.
    Result<CommandResult> jobProcesses() {
        return m_connection.run({"pgrep", "-f", "--", jobPattern()});
    }
    Result<bool> anyAlive() {
        PIPER_ASSIGN(const CommandResult r, jobProcesses());
        return r.exit_status == 0 && !r.output.empty();
    }
    Status signalAll(const std::string& signal) {
        PIPER_ASSIGN(const CommandResult r,
                     m_connection.run({"pkill", signal, "-f", "--", jobPattern()}));
        if (r.exit_status <= 1) return {};
        return fail(ErrorCode::External, "cannot signal the job: {}", r.error_output);
    }

    Connection& m_connection;
    std::string m_directory;
    std::size_t m_log_read = 0;
    int m_checks_without_pid = 0;
};

class MpirunLauncher final : public Launcher {
public:
    explicit MpirunLauncher(Connection& connection) : m_connection(connection) {}

    std::string_view name() const override { return "mpirun"; }

    Result<LaunchPreview> preview(const LaunchRequest& request) override {
        LaunchPreview preview;
        preview.command = rankCommand(request);
        preview.script = launchScript(request);
        const ProcessGrid grid(request.plan.layout, request.plan.rank_order);
        const std::int64_t per_node = request.plan.cluster.devices_per_node;
        for (std::int64_t r = 0; r < grid.world(); ++r) {
            const RankCoordinates at = grid.coordinates(RankId(static_cast<std::int32_t>(r)));
            preview.rank_map.push_back(fmt::format("rank {}: node {}, pp {}, dp {}, ep {}, edp {}",
                                                   r, r / per_node, at.pp, at.dp, at.ep, at.edp));
        }
        PIPER_ASSIGN(const CommandResult cores, m_connection.run({"nproc"}));
        const int available = std::atoi(cores.output.c_str());
        if (available > 0 && grid.world() > available)
            preview.warnings.push_back(
                fmt::format("{} ranks share {} processors: times will not match a prediction made "
                            "for one processor a rank",
                            grid.world(), available));
        return preview;
    }

    Result<std::unique_ptr<Job>> launch(const LaunchRequest& request) override {
        PIPER_ASSIGN(const CommandResult found, m_connection.run({"which", "mpirun"}));
        if (found.exit_status != 0) {
            Error error = fail(ErrorCode::External, "no mpirun on {}", m_connection.label());
            error.hint = "install Open MPI (Debian: openmpi-bin)";
            return error;
        }
        PIPER_TRY(m_connection.makeDirectory(request.job_directory));
        PIPER_TRY(m_connection.writeFile(inDirectory(request.job_directory, kPlanFile),
                                         writePlan(request.plan).dump(2), false));
        PIPER_TRY(m_connection.writeFile(inDirectory(request.job_directory, kScriptFile),
                                         launchScript(request), true));
        PIPER_ASSIGN(
            const CommandResult started,
            m_connection.run(
                {"setsid", "--fork", "sh", "-c",
                 fmt::format("exec sh {} > /dev/null 2>&1 < /dev/null",
                             shellQuote(inDirectory(request.job_directory, kScriptFile)))}));
        if (started.exit_status != 0)
            return fail(ErrorCode::External, "cannot start the job: {}", started.error_output);
        return std::unique_ptr<Job>(
            std::make_unique<MpirunJob>(m_connection, request.job_directory));
    }

private:
    Connection& m_connection;
};

}  // namespace

std::vector<std::string> mpirunCommand(std::int64_t ranks,
                                       const std::vector<std::string>& program) {
    // Ranks may outnumber processors: they are not bound, and yield while they wait. A rank told to
    // stop has two seconds to close its file before mpirun kills it (one by default).
    std::vector<std::string> argv = {"mpirun",
                                     "-np",
                                     std::to_string(ranks),
                                     "--bind-to",
                                     "none",
                                     "--oversubscribe",
                                     "--allow-run-as-root",
                                     "--mca",
                                     "mpi_yield_when_idle",
                                     "1",
                                     "--mca",
                                     "btl",
                                     "self,vader,tcp",
                                     "--mca",
                                     "odls_base_sigkill_timeout",
                                     "2"};
    argv.insert(argv.end(), program.begin(), program.end());
    return argv;
}

std::unique_ptr<Launcher> makeMpirunLauncher(Connection& connection) {
    return std::make_unique<MpirunLauncher>(connection);
}

Result<std::unique_ptr<Job>> openJob(Connection& connection, const std::string& directory) {
    const Result<std::string> plan = connection.readFile(inDirectory(directory, kPlanFile), 1);
    if (!plan.ok()) {
        Error error =
            fail(ErrorCode::NotFound, "no job in this directory: it has no {}", kPlanFile);
        error.where = directory;
        return error;
    }
    return std::unique_ptr<Job>(std::make_unique<MpirunJob>(connection, directory));
}

}  // namespace piper
