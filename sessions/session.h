// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
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

/// An open connection to a cluster and what we have there.
class Session {
public:
    /// Errors: those of the configuration and of the connection.
    [[nodiscard]] static Result<std::shared_ptr<Session>> open(
        SessionConfig config, const std::shared_ptr<SshPrompter>& prompter);

    [[nodiscard]] const SessionConfig& config() const { return m_config; }
    [[nodiscard]] Connection& connection() const { return *m_connection; }
    [[nodiscard]] std::shared_ptr<Connection> sharedConnection() const { return m_connection; }
    /// What the configuration asks for and we do not do.
    [[nodiscard]] const std::vector<std::string>& remarks() const { return m_remarks; }

    /// Our directory on the host; workers and jobs are below it.
    [[nodiscard]] Result<std::string> directory();
    [[nodiscard]] Result<std::string> jobsRoot();
    /// A worker that runs on the host: the user's own, or ours (`local_worker`), sent when needed.
    [[nodiscard]] Result<std::string> worker(
        const std::filesystem::path& local_worker,
        const std::function<void(std::int64_t, std::int64_t)>& progress = {});
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

/// Sessions by name; each is opened once and shared. Calls block; several threads may use it.
class SessionManager {
public:
    SessionManager(SessionStore store, std::shared_ptr<SshPrompter> prompter)
        : m_store(std::move(store)), m_prompter(std::move(prompter)) {}

    [[nodiscard]] const SessionStore& store() const { return m_store; }
    /// Errors: NotFound for an unknown name; those of Session::open.
    [[nodiscard]] Result<std::shared_ptr<Session>> open(const std::string& name);
    /// Lets go of it; whoever still holds it keeps it open.
    void close(const std::string& name);
    [[nodiscard]] std::vector<std::string> opened() const;

private:
    SessionStore m_store;
    std::shared_ptr<SshPrompter> m_prompter;
    mutable std::mutex m_mutex;
    std::map<std::string, std::shared_ptr<Session>> m_open;
};

}  // namespace piper
