// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace piper::test {

/// A server of libssh's for what OpenSSH's cannot be made to do: it asks several questions in
/// several rounds, passes on like a jump host, and answers as a hostile host would.
class MiniSshServer {
public:
    struct Round {
        std::string title, instruction;
        std::vector<std::string> questions, right_answers;
    };
    struct Behaviour {
        std::vector<Round> rounds;  ///< none: everybody is let in
        /// Answers a command; by default it runs in a shell here.
        std::function<void(ssh_channel, const std::string& command)> exec;
        std::function<void(ssh_channel)> sftp;
        std::string password{};  ///< takes this one, and nothing else
    };

    MiniSshServer(const std::filesystem::path& directory, Behaviour behaviour);
    ~MiniSshServer();
    MiniSshServer(const MiniSshServer&) = delete;
    MiniSshServer& operator=(const MiniSshServer&) = delete;

    [[nodiscard]] int port() const { return m_port; }
    [[nodiscard]] std::string knownHostsLine() const;

private:
    void serve(const std::stop_token& stop);
    void talk(ssh_session session, const std::stop_token& stop) const;
    bool logIn(ssh_session session, const std::stop_token& stop) const;
    void answerChannel(ssh_session session, ssh_message open, const std::stop_token& stop) const;
    static void forward(ssh_session session, ssh_message open, const std::stop_token& stop);

    std::filesystem::path m_directory;
    Behaviour m_behaviour;
    int m_port = 0;
    ssh_bind m_bind = nullptr;
    std::jthread m_thread;
};

}  // namespace piper::test
