// SPDX-License-Identifier: Apache-2.0
#include "sessions/session.h"

#include "sessions/deployment.h"
#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/job_report.h"
#include "sessions/local_connection.h"
#include "sessions/shell_quote.h"
#include "sessions/ssh_connection.h"

namespace piper {

SshConfigFiles configFilesOf(const SessionConfig& session) {
    SshConfigFiles files = SshConfigFiles::ofThisUser();
    if (!session.ssh_config.empty()) {
        files.files = {session.ssh_config};
        files.must_be_private = false;  // as with ssh -F
    }
    return files;
}

Result<std::shared_ptr<Session>> Session::open(SessionConfig config,
                                               const std::shared_ptr<SshPrompter>& prompter,
                                               const std::stop_token& stop) {
    if (config.isLocal())
        return std::shared_ptr<Session>(new Session(std::move(config), openLocalConnection()));
    std::error_code ignored;
    if (!config.ssh_config.empty() && !std::filesystem::exists(config.ssh_config, ignored))
        return fail(ErrorCode::NotFound, "session '{}' names a configuration that is not there",
                    config.name)
            .at(config.ssh_config);
    PIPER_ASSIGN(std::vector<SshHostConfig> route,
                 resolveSshRoute(configFilesOf(config), config.host));
    std::vector<std::string> remarks;
    for (const SshHostConfig& hop : route)
        remarks.insert(remarks.end(), hop.remarks.begin(), hop.remarks.end());
    SshOptions options;
    options.label = config.name;
    options.route = std::move(route);
    options.prompter = prompter;
    PIPER_ASSIGN(std::unique_ptr<Connection> connection,
                 openSshConnection(std::move(options), stop));
    std::shared_ptr<Session> session(new Session(std::move(config), std::move(connection)));
    session->m_remarks = std::move(remarks);
    return session;
}

Result<SessionTest> Session::test() {
    PIPER_ASSIGN(const CommandResult r, m_connection->run({"uname", "-nsm"}));
    if (r.exit_status != 0)
        return fail(ErrorCode::External, "uname on {} ended with status {}", m_config.name,
                    r.exit_status);
    SessionTest out;
    out.system = displayLine(r.output.substr(0, r.output.find('\n')), 200);
    PIPER_ASSIGN(out.directory, directory());
    return out;
}

Result<std::string> Session::directory() {
    const std::lock_guard held(m_mutex);
    if (!m_directory.empty()) return m_directory;
    if (m_config.isLocal()) return m_directory = localJobsRoot().parent_path().string();
    if (m_config.directory.starts_with('/')) return m_directory = m_config.directory;
    std::string script = "printf %s \"${XDG_STATE_HOME:-$HOME/.local/state}/piper-workbench\"\n";
    if (!m_config.directory.empty()) {
        if (!m_config.directory.starts_with("~/"))
            return fail(ErrorCode::InvalidInput,
                        "directory '{}' of session '{}' must begin with / or ~/",
                        m_config.directory, m_config.name);
        script = "printf %s \"$HOME\"/" + shellQuote(m_config.directory.substr(2)) + "\n";
    }
    PIPER_ASSIGN(const CommandResult r, runShell(*m_connection, script));
    if (r.exit_status != 0 || !r.output.starts_with('/') || displayLine(r.output, 4096) != r.output)
        return fail(ErrorCode::External, "{} names no home directory: '{}'", m_config.name,
                    displayLine(r.output));
    return m_directory = r.output;
}

Result<std::string> Session::jobsRoot() {
    if (m_config.isLocal()) return localJobsRoot().string();
    PIPER_ASSIGN(const std::string root, directory());
    return root + "/jobs";
}

Result<std::string> Session::worker(const std::filesystem::path& local_worker,
                                    const TransferProgress& progress, const std::stop_token& stop) {
    if (!m_config.worker.empty()) {
        PIPER_TRY(checkWorker(*m_connection, m_config.worker));
        return m_config.worker;
    }
    if (m_config.isLocal()) return local_worker.string();
    PIPER_ASSIGN(const std::string root, directory());
    PIPER_ASSIGN(const Deployment deployed,
                 deployWorker(*m_connection, root, local_worker, progress, stop));
    return deployed.worker;
}

Result<int> Session::clean(bool jobs) {
    if (!m_config.isLocal()) {
        PIPER_ASSIGN(const std::string root, directory());
        PIPER_TRY(removeWorkers(*m_connection, root));
    }
    if (!jobs) return 0;
    int going = 0;
    PIPER_ASSIGN(const std::string root, jobsRoot());
    PIPER_ASSIGN(const std::vector<JobSummary> all, summarizeJobs(*m_connection, root));
    for (const JobSummary& job : all) {
        if (!isFinal(job.status.state)) {
            ++going;
            continue;
        }
        PIPER_ASSIGN(const CommandResult r, m_connection->run({"rm", "-rf", "--", job.directory}));
        if (r.exit_status != 0)
            return fail(ErrorCode::Io, "cannot remove {}: {}", job.directory,
                        displayLine(r.error_output));
    }
    return going;
}

}  // namespace piper
