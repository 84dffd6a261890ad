// SPDX-License-Identifier: Apache-2.0
#include "sessions/script_launcher.h"

#include "core/base/json.h"
#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/mpirun_launcher.h"
#include "sessions/sbatch_launcher.h"
#include "sessions/shell_quote.h"
#include "sessions/slurm.h"

namespace piper {
namespace {

std::string inDirectory(const std::string& directory, std::string_view name) {
    return directory + "/" + std::string(name);
}

std::vector<std::string> srunOptions(const LaunchRequest& request, const LauncherOptions& options) {
    std::vector<std::string> argv = {"--job-name=" + stepName(request.job_directory)};
    if (!options.allocation.empty()) {
        argv.push_back("--jobid=" + options.allocation);
        return argv;
    }
    const std::vector<std::string> choices = slurmChoices(options);
    argv.insert(argv.end(), choices.begin(), choices.end());
    return argv;
}

/// Session leader of the job: writes its own process id first and the exit status last.
std::string launchScript(const LaunchRequest& request, RecordedCommand what,
                         const LauncherOptions& options) {
    // Appended: what others write there (lostHostWatch) is not written over.
    what.redirection = fmt::format(" >> {} 2>&1", kLogFile);
    return fmt::format(
        "#!/bin/sh\n"
        "cd {} || exit 3\n"
        "echo $$ > {}.part && mv {}.part {}\n{}",
        shellQuote(request.job_directory), kLauncherPidFile, kLauncherPidFile, kLauncherPidFile,
        scriptOf(what, options));
}

/// How mpirun reaches a host: ssh that learns within 5 s, not minutes, that nobody answers there
/// any more, and notes who. mpirun itself waits for the daemon of a lost host before it ends. A
/// host that ssh never came in to was not lost: why it cannot be reached is said in the job's log.
std::string reachScript(const std::string& job_directory) {
    std::string file = inDirectory(job_directory, "reach");
    for (std::size_t at = 0; (at = file.find('%', at)) != std::string::npos; at += 2)
        file.insert(at, 1, '%');  // ssh's own mark in its options
    return fmt::format(
        "#!/bin/sh\n"
        "f={0}.$(uname -n).$$\n"
        "ssh -x -E \"$f.log\" -o LogLevel=INFO -o ServerAliveInterval=1 -o ServerAliveCountMax=4 "
        "-o PermitLocalCommand=yes -o LocalCommand=\"touch {1}.$(uname -n).$$.up\" \"$@\"; s=$?\n"
        "w=$(tail -n 1 \"$f.log\" | tr -d '\\r'); up=; [ ! -e \"$f.up\" ] || up=1\n"
        "cat \"$f.log\" >&2; grep -q '^Timeout, server .* not responding' \"$f.log\"; gone=$?\n"
        "[ -z \"$up\" ] || ! grep -Eq 'closed by remote host|Connection reset|Broken pipe' "
        "\"$f.log\" || gone=0\n"
        "rm -f \"$f.log\" \"$f.up\"\n"
        "[ $s -eq 255 ] || exit $s\n"
        // The host is the first word that is no option (OMPI_MCA_plm_rsh_args) nor belongs to one.
        "while :; do case $1 in\n"
        "  -[BbcDEeFIiJLlmOopQRSWw]) shift 2 ;; -*) shift ;; *) break ;;\nesac; done\n"
        "if [ $gone -eq 0 ]; then echo \"$1\" > {2}\n"
        "elif [ -z \"$up\" ]; then echo \"{4}$1{3}${{w#ssh: }}\" >&2; fi\nexit $s\n",
        inDirectory(job_directory, "reach"), file, inDirectory(job_directory, kLostHostFile),
        kCannotBeReached, kReachSays);
}

/// An agent of the user's own stays; then a lost host is noticed when mpirun does.
std::string reachLines(const std::string& job_directory) {
    return fmt::format("export OMPI_MCA_plm_rsh_agent=\"${{OMPI_MCA_plm_rsh_agent:-{}}}\"\n",
                       inDirectory(job_directory, kReachScriptFile));
}

/// Ends mpirun once a host is lost; the line is that of mpirun's own report (launcherEnding).
std::string lostHostWatch() {
    return fmt::format(
        "while sleep 0.5; do\n"
        "  [ -s {0} ] && kill -s 0 $m 2>/dev/null || continue\n"
        // Said first: once mpirun has ended, this watch is ended too.
        "  echo \"Remote daemon: ssh to it gets no answer on node $(cat {0})\" >> {1}\n"
        "  kill -s TERM $m; sleep 2; kill -s KILL $m; break\ndone ",
        kLostHostFile, kLogFile);
}

/// mpirun, or srun inside an allocation. A job goes on when the program that launched it ends: a
/// small script in the job directory is its session leader and leaves the exit status behind.
class ScriptLauncher final : public Launcher {
public:
    ScriptLauncher(std::string name, Connection& connection, LauncherOptions options)
        : m_name(std::move(name)), m_connection(connection), m_options(std::move(options)) {}

    std::string_view name() const override { return m_name; }

    Result<LaunchPreview> preview(const LaunchRequest& request) override {
        LaunchPreview preview;
        preview.command = command(request);
        preview.script = script(request);
        preview.rank_map = rankMap(request.plan);
        PIPER_ASSIGN(preview.warnings, checkEnvironment(m_connection, request, m_options, m_name));
        PIPER_ASSIGN(const std::string why_not, whyNoStep());
        if (!why_not.empty()) preview.warnings.push_back(why_not);
        return preview;
    }

    Result<std::unique_ptr<Job>> launch(const LaunchRequest& request) override {
        PIPER_ASSIGN(const CommandResult found,
                     runShell(m_connection, ownLines(m_options) + "command -v " + m_name + "\n"));
        if (found.exit_status != 0) {
            Error error = fail(ErrorCode::External, "no {} on {}", m_name, m_connection.label());
            error.hint = m_name == "mpirun"
                             ? "install Open MPI (Debian: openmpi-bin), or name what makes it "
                               "found (--line 'module load openmpi')"
                             : "srun comes with Slurm; is this the log-in node of the cluster?";
            return error;
        }
        PIPER_ASSIGN(const std::string why_not, whyNoStep());
        if (!why_not.empty()) {
            Error error = fail(ErrorCode::External, "{}", why_not);
            error.hint = "squeue --me lists your allocations, salloc --no-shell makes one";
            return error;
        }
        JobRecord record;
        record.launcher = m_name;
        for (const std::string& host : m_options.hosts)
            record.hosts.push_back(host.substr(0, host.find(':')));
        PIPER_TRY(prepareJob(m_connection, request, m_options, jobRecordText(record)));
        if (!m_options.hosts.empty())
            PIPER_TRY(m_connection.writeFile(inDirectory(request.job_directory, kReachScriptFile),
                                             reachScript(request.job_directory), true));
        const std::string file = inDirectory(request.job_directory, kScriptFile);
        PIPER_TRY(m_connection.writeFile(file, script(request), true));
        PIPER_ASSIGN(const CommandResult started,
                     m_connection.run({"setsid", "--fork", "sh", "-c",
                                       fmt::format("exec sh {} > /dev/null 2>&1 < /dev/null",
                                                   shellQuote(file))}));
        if (started.exit_status != 0)
            return fail(ErrorCode::External, "cannot start the job: {}",
                        displayLine(started.error_output));
        return makeJob(m_connection, request.job_directory, std::move(record));
    }

private:
    /// Why srun's allocation takes no step; empty when it does, and for what needs none.
    Result<std::string> whyNoStep() {
        if (m_name != "srun" || m_options.allocation.empty()) return std::string();
        PIPER_ASSIGN(const std::string why_not,
                     whyNoAllocation(m_connection, m_options.allocation));
        if (why_not.empty()) return why_not;
        return fmt::format("no step can start in allocation {} on {}: {}", m_options.allocation,
                           m_connection.label(), why_not);
    }

    [[nodiscard]] std::vector<std::string> command(const LaunchRequest& request) const {
        return m_name == "srun"
                   ? srunCommand(request, srunOptions(request, m_options))
                   : mpirunCommand(request.plan.layout.world(), workerCommand(request), m_options);
    }

    [[nodiscard]] std::string script(const LaunchRequest& request) const {
        RecordedCommand what;
        what.command = command(request);
        if (m_name == "srun") {
            what.before = slurmEnvironment(m_options);
            what.after = namesLostNode(m_options.allocation);
        } else if (!m_options.hosts.empty() &&
                   // mpirun takes the words of its agent apart at blanks.
                   shellQuote(request.job_directory) == request.job_directory) {
            what.before = reachLines(request.job_directory);
            what.beside = lostHostWatch();
        }
        return launchScript(request, std::move(what), m_options);
    }

    std::string m_name;
    Connection& m_connection;
    LauncherOptions m_options;
};

/// The user's own lines that are not for Slurm.
std::string shellLines(const LauncherOptions& options) {
    std::string lines;
    for (const std::string& line : options.extra_lines)
        if (!line.starts_with("#SBATCH")) lines += line + "\n";
    return lines;
}

bool isPlain(std::string_view text, std::string_view more) {
    constexpr std::string_view letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (const char c : text)
        if (letters.find(c) == std::string_view::npos && more.find(c) == std::string_view::npos)
            return false;
    return text.empty() || text.front() != '-';
}

/// One of Slurm's own ways to write it; also none.
bool isTimeLimit(const std::string& text) {
    if (text.empty() || text == "UNLIMITED" || text == "INFINITE") return true;
    constexpr std::string_view digits = "0123456789";
    std::size_t at = 0, colons = 0;
    bool days = false;
    for (;; ++at) {
        const std::size_t end = std::min(text.find_first_not_of(digits, at), text.size());
        if (end == at) return false;
        if (end == text.size()) return colons <= 2;
        if (text[end] == '-' && !days && colons == 0)
            days = true;
        else if (text[end] == ':')
            ++colons;
        else
            return false;
        at = end;
    }
}

}  // namespace

std::string scriptOf(const RecordedCommand& what, const LauncherOptions& options) {
    return fmt::format(
        "# The ranks are told to stop by their launcher; this script only records how it ended.\n"
        "# Room for its answer is taken now, while the disk has some.\n"
        "printf '%-8s\\n' running > {0}.part\n"
        "trap '' TERM INT HUP\n"
        "( trap - TERM INT HUP\n{1}{2}exec {3} ){4}{5}\n"
        "status=$?\n{6}"
        "printf '%-8s\\n' \"$status\" 1<> {0}.part && mv {0}.part {0}\n",
        kExitStatusFile, shellLines(options), what.before, shellCommand(what.command),
        what.redirection,
        what.beside.empty() ? std::string()
                            : " &\nm=$!\n( " + what.beside +
                                  ") &\nw=$!\nwait \"$m\"; s=$?\n"
                                  "kill -s KILL \"$w\" 2>/dev/null; ( exit \"$s\" )",
        what.after);
}

std::vector<std::string> workerCommand(const LaunchRequest& request) {
    std::vector<std::string> worker = {request.worker,
                                       "--plan",
                                       inDirectory(request.job_directory, kPlanFile),
                                       "--job",
                                       request.job_directory,
                                       "--steps",
                                       std::to_string(request.steps)};
    worker.insert(worker.end(), request.worker_arguments.begin(), request.worker_arguments.end());
    return worker;
}

std::vector<std::string> rankMap(const Plan& plan) {
    std::vector<std::string> map;
    const ProcessGrid grid(plan.layout, plan.rank_order);
    const std::int64_t per_node = plan.cluster.devices_per_node;
    for (std::int64_t r = 0; r < grid.world(); ++r) {
        const RankCoordinates at = grid.coordinates(RankId(static_cast<std::int32_t>(r)));
        map.push_back(fmt::format("rank {}: node {}, pp {}, dp {}, ep {}, edp {}", r, r / per_node,
                                  at.pp, at.dp, at.ep, at.edp));
    }
    return map;
}

std::string ownLines(const LauncherOptions& options) {
    const std::string lines = shellLines(options);
    // ":" since a group of comments alone is no shell.
    return lines.empty() ? lines : "{ :\n" + lines + "} > /dev/null 2>&1\n";
}

Status prepareJob(Connection& connection, const LaunchRequest& request,
                  const LauncherOptions& options, const std::string& record_text) {
    PIPER_TRY(connection.makeDirectory(request.job_directory));
    const std::string digest =
        fmt::format("#!/bin/sh\n{}exec {}\n", ownLines(options),
                    shellCommand({request.worker, "--digest", request.job_directory}));
    PIPER_TRY(
        connection.writeFile(inDirectory(request.job_directory, kDigestScriptFile), digest, true));
    PIPER_TRY(connection.writeFile(inDirectory(request.job_directory, kLauncherRecordFile),
                                   record_text, false));
    return connection.writeFile(inDirectory(request.job_directory, kPlanFile),
                                writePlan(request.plan).dump(2), false);
}

std::vector<std::string> mpirunCommand(std::int64_t ranks, const std::vector<std::string>& program,
                                       const LauncherOptions& options) {
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
    const auto add = [&](std::initializer_list<std::string> words) {
        argv.insert(argv.end(), words);
    };
    std::string hosts;
    for (const std::string& host : options.hosts) hosts += (hosts.empty() ? "" : ",") + host;
    if (!hosts.empty()) add({"--host", hosts});
    if (!options.network_interface.empty()) {
        add({"--mca", "btl_tcp_if_include", options.network_interface});
        add({"--mca", "oob_tcp_if_include", options.network_interface});
    }
    argv.insert(argv.end(), program.begin(), program.end());
    return argv;
}

Status checkHostName(std::string_view host) {
    if (!host.empty() && host.size() < 256 && isPlain(host, "._-@")) return {};
    return fail(ErrorCode::InvalidInput, "'{}' is no host name", displayLine(host, 80));
}

Status checkLauncher(std::string_view name, const LauncherOptions& options) {
    if (name != "mpirun" && name != "srun" && name != "sbatch")
        return fail(ErrorCode::InvalidInput, "no launcher '{}'; there are mpirun, srun and sbatch",
                    name);
    for (const std::string& host : options.hosts) {
        const std::size_t colon = std::min(host.find(':'), host.size());
        PIPER_TRY(checkHostName(std::string_view(host).substr(0, colon)));
        if (host.find_first_not_of("0123456789", colon + 1) != std::string::npos ||
            colon + 1 == host.size() ||
            (colon < host.size() && std::atoi(host.c_str() + colon + 1) < 1))
            return fail(ErrorCode::InvalidInput, "'{}' must be HOST or HOST:RANKS, 1 or more ranks",
                        displayLine(host, 120));
    }
    const std::pair<const char*, const std::string*> words[] = {
        {"network interface", &options.network_interface},
        {"account", &options.account},
        {"partition", &options.partition},
        {"time limit", &options.time_limit},
        {"allocation", &options.allocation}};
    for (const auto& [what, value] : words)
        if (!isPlain(*value, "._-:,/+"))
            return fail(ErrorCode::InvalidInput,
                        "{} '{}' may hold letters, digits and . _ - : , / + only", what,
                        displayLine(*value, 80));
    if (!isTimeLimit(options.time_limit))
        return fail(
            ErrorCode::InvalidInput,
            "time limit '{}' must be MINUTES, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or "
            "UNLIMITED",
            displayLine(options.time_limit, 80));
    for (const std::string& line : options.extra_lines)
        if (line.find('\n') != std::string::npos)
            return fail(ErrorCode::InvalidInput, "'{}' is more than one line",
                        displayLine(line, 80));
    return {};
}

Result<std::unique_ptr<Launcher>> makeLauncher(std::string_view name, Connection& connection,
                                               const LauncherOptions& options) {
    PIPER_TRY(checkLauncher(name, options));
    if (name == "sbatch") return makeSbatchLauncher(connection, options);
    return std::unique_ptr<Launcher>(
        std::make_unique<ScriptLauncher>(std::string(name), connection, options));
}

}  // namespace piper
