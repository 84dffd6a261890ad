// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sessions/process.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_connection.h"
#include "sessions/ssh_prompter.h"
#include "tests/support/paths.h"

namespace piper::test {

/// Why no sshd can run here; empty when one can.
[[nodiscard]] std::string whyNoSshServer();

/// A port of the loopback that nobody listens on.
[[nodiscard]] int freePort();
/// Runs a program to its end; the test fails when it does.
void runProgram(const std::vector<std::string>& argv);

/// OpenSSH's own server on the loopback with keys and configuration of its own, in a directory
/// that is removed at the end.
class SshServer {
public:
    /// `extra` lines go to its sshd_config. The public half of `client_key` may log in.
    SshServer(const std::filesystem::path& directory, const std::filesystem::path& client_key,
              const std::string& extra = "");
    ~SshServer();
    SshServer(const SshServer&) = delete;
    SshServer& operator=(const SshServer&) = delete;

    [[nodiscard]] int port() const { return m_port; }
    /// The line of known_hosts for it.
    [[nodiscard]] std::string knownHostsLine() const;
    /// Ends it with every connection, and starts it again on the same port.
    void stop();
    void start();
    /// Ends the connections only.
    void dropConnections();
    void newHostKey();
    [[nodiscard]] std::string log() const;

private:
    std::filesystem::path m_directory;
    int m_port = 0;
    std::optional<ChildProcess> m_process;
};

/// Answers from a list and keeps what was asked.
class ScriptedPrompter final : public SshPrompter {
public:
    bool acceptHostKey(const HostKeyQuestion& question) override;
    std::optional<std::vector<std::string>> answer(const SshQuestions& questions) override;

    bool accept = false;
    std::vector<std::vector<std::string>> answers;  ///< taken from the front
    std::vector<HostKeyQuestion> keys;
    std::vector<SshQuestions> asked;
};

/// A directory with a client key and configuration files of its own.
class SshFiles {
public:
    /// Makes the key. Logs in by nothing else: the agent of whoever runs the tests stays out.
    void makeKey() const;
    [[nodiscard]] std::filesystem::path path(const std::string& name) const {
        return m_directory.path() / name;
    }
    void write(const std::string& name, const std::string& text) const;
    /// "Host NAME" with the server's port, user, key and the known_hosts of this test.
    [[nodiscard]] std::string hostBlock(const std::string& name, int port,
                                        const std::string& more = "") const;
    [[nodiscard]] SshConfigFiles configFiles() const;
    /// A server whose key is known and a config that names it "host".
    [[nodiscard]] std::unique_ptr<SshServer> serverNamedHost(const std::string& extra = "") const;

    TemporaryDirectory m_directory;
};

/// A test with such files.
class SshTest : public ::testing::Test, protected SshFiles {
protected:
    void SetUp() override;
    /// Connects to a host of the file "config".
    [[nodiscard]] Result<std::unique_ptr<Connection>> open(const std::string& host);

    std::shared_ptr<ScriptedPrompter> m_prompter = std::make_shared<ScriptedPrompter>();
};

}  // namespace piper::test
