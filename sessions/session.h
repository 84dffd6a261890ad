// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sessions/connection.h"
#include "sessions/launchers.h"
#include "sessions/session_config.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_prompter.h"

namespace piper {

/// What a host answers when it is only asked whether the way works.
struct SessionTest {
    std::string system;     ///< "Linux login1 x86_64"
    std::string directory;  ///< ours on the host
};

/// An open connection to a cluster and what we have there.
class Session {
public:
    /// Errors: those of the configuration and of the connection; Cancelled when stopped meanwhile.
    [[nodiscard]] static Result<std::shared_ptr<Session>> open(
        SessionConfig config, const std::shared_ptr<SshPrompter>& prompter,
        const std::stop_token& stop = {});

    [[nodiscard]] const SessionConfig& config() const { return m_config; }
    [[nodiscard]] Connection& connection() const { return *m_connection; }
    [[nodiscard]] std::shared_ptr<Connection> sharedConnection() const { return m_connection; }
    /// What the configuration asks for and we do not do.
    [[nodiscard]] const std::vector<std::string>& remarks() const { return m_remarks; }

    /// Runs one command there.
    [[nodiscard]] Result<SessionTest> test();
    /// Our directory on the host; workers and jobs are below it.
    [[nodiscard]] Result<std::string> directory();
    [[nodiscard]] Result<std::string> jobsRoot();
    /// A worker that runs on the host: the user's own, or ours (`local_worker`), sent when needed.
    [[nodiscard]] Result<std::string> worker(const std::filesystem::path& local_worker,
                                             const TransferProgress& progress = {},
                                             const std::stop_token& stop = {});
    /// Takes away what was sent; with `jobs` also the directories of all jobs that have ended.
    /// Returns how many of those were left because they go on.
    [[nodiscard]] Result<int> clean(bool jobs);

private:
    Session(SessionConfig config, std::shared_ptr<Connection> connection)
        : m_config(std::move(config)), m_connection(std::move(connection)) {}

    SessionConfig m_config;
    std::shared_ptr<Connection> m_connection;
    std::vector<std::string> m_remarks;
    std::mutex m_mutex;
    std::string m_directory;
};

/// The configuration files of a session.
[[nodiscard]] SshConfigFiles configFilesOf(const SessionConfig& session);

}  // namespace piper
