// SPDX-License-Identifier: Apache-2.0
#include "tests/sessions/mini_ssh_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "tests/sessions/ssh_server.h"

namespace piper::test {
namespace {

void runInShell(ssh_channel channel, const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return;
    std::array<char, 4096> buffer;
    for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
        ssh_channel_write(channel, buffer.data(), static_cast<std::uint32_t>(n));
    const int status = ::pclose(pipe);
    ssh_channel_send_eof(channel);
    ssh_channel_request_send_exit_status(channel, WEXITSTATUS(status));
}

/// The next message, or null when the client has gone or the test ends.
ssh_message nextMessage(ssh_session session, const std::stop_token& stop) {
    while (!stop.stop_requested() && ssh_is_connected(session) != 0) {
        if (ssh_message message = ssh_message_get(session)) return message;
        pollfd fd{ssh_get_fd(session), POLLIN, 0};
        ::poll(&fd, 1, 20);
    }
    return nullptr;
}

/// Null when it tries another way. libssh's newer interface answers from inside its own loop.
const char* passwordOf(ssh_message message) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return ssh_message_subtype(message) == SSH_AUTH_METHOD_PASSWORD
               ? ssh_message_auth_password(message)
               : nullptr;
#pragma GCC diagnostic pop
}

void askRound(ssh_message message, const MiniSshServer::Round& round) {
    std::vector<const char*> questions;
    std::string echo;
    for (const std::string& question : round.questions) {
        questions.push_back(question.c_str());
        echo += static_cast<char>(question.ends_with("?"));
    }
    ssh_message_auth_interactive_request(message, round.title.c_str(), round.instruction.c_str(),
                                         static_cast<unsigned>(questions.size()), questions.data(),
                                         echo.data());
}

bool answeredRightly(ssh_session session, const MiniSshServer::Round& round) {
    const int count = ssh_userauth_kbdint_getnanswers(session);
    if (count != static_cast<int>(round.right_answers.size())) return false;
    for (int i = 0; i < count; ++i)
        if (round.right_answers[static_cast<std::size_t>(i)] !=
            ssh_userauth_kbdint_getanswer(session, static_cast<unsigned>(i)))
            return false;
    return true;
}

}  // namespace

MiniSshServer::MiniSshServer(const std::filesystem::path& directory, Behaviour behaviour)
    : m_directory(directory), m_behaviour(std::move(behaviour)), m_port(freePort()) {
    if (!m_behaviour.exec) m_behaviour.exec = runInShell;
    std::filesystem::create_directories(directory);
    const std::string key = (directory / "host_key").string();
    runProgram({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key});
    m_bind = ssh_bind_new();
    ssh_bind_options_set(m_bind, SSH_BIND_OPTIONS_BINDADDR, "127.0.0.1");
    ssh_bind_options_set(m_bind, SSH_BIND_OPTIONS_BINDPORT, &m_port);
    ssh_bind_options_set(m_bind, SSH_BIND_OPTIONS_HOSTKEY, key.c_str());
    EXPECT_EQ(ssh_bind_listen(m_bind), SSH_OK) << ssh_get_error(m_bind);
    m_thread = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

MiniSshServer::~MiniSshServer() {
    m_thread.request_stop();
    m_thread.join();
    ssh_bind_free(m_bind);
}

std::string MiniSshServer::knownHostsLine() const {
    return "[127.0.0.1]:" + std::to_string(m_port) + " " + readText(m_directory / "host_key.pub");
}

void MiniSshServer::serve(const std::stop_token& stop) {
    std::vector<std::jthread> connections;
    const int listening = ssh_bind_get_fd(m_bind);
    while (!stop.stop_requested()) {
        pollfd fd{listening, POLLIN, 0};
        if (::poll(&fd, 1, 50) != 1) continue;
        ssh_session session = ssh_new();
        if (ssh_bind_accept(m_bind, session) != SSH_OK) {
            ssh_free(session);
            continue;
        }
        connections.emplace_back([this, session, stop] {
            if (ssh_handle_key_exchange(session) == SSH_OK) talk(session, stop);
            ssh_disconnect(session);
            ssh_free(session);
        });
    }
}

bool MiniSshServer::logIn(ssh_session session, const std::stop_token& stop) const {
    std::size_t round = 0;
    while (ssh_message message = nextMessage(session, stop)) {
        bool in = false;
        if (ssh_message_type(message) != SSH_REQUEST_AUTH) {
            ssh_message_reply_default(message);
        } else if (!m_behaviour.password.empty()) {
            const char* given = passwordOf(message);
            in = given != nullptr && m_behaviour.password == given;
            ssh_message_auth_set_methods(message, SSH_AUTH_METHOD_PASSWORD);
            if (!in) ssh_message_reply_default(message);
        } else if (m_behaviour.rounds.empty()) {
            in = true;
        } else if (ssh_message_subtype(message) != SSH_AUTH_METHOD_INTERACTIVE) {
            ssh_message_auth_set_methods(message, SSH_AUTH_METHOD_INTERACTIVE);
            ssh_message_reply_default(message);
        } else if (ssh_message_auth_kbdint_is_response(message) == 0) {
            askRound(message, m_behaviour.rounds[round = 0]);
        } else if (!answeredRightly(session, m_behaviour.rounds[round])) {
            ssh_message_auth_set_methods(message, SSH_AUTH_METHOD_INTERACTIVE);
            ssh_message_reply_default(message);
        } else if (++round < m_behaviour.rounds.size()) {
            askRound(message, m_behaviour.rounds[round]);
        } else {
            in = true;
        }
        if (in) ssh_message_auth_reply_success(message, 0);
        ssh_message_free(message);
        if (in) return true;
    }
    return false;
}

void MiniSshServer::talk(ssh_session session, const std::stop_token& stop) const {
    if (!logIn(session, stop)) return;
    while (ssh_message message = nextMessage(session, stop)) {
        const bool opens = ssh_message_type(message) == SSH_REQUEST_CHANNEL_OPEN;
        if (opens && ssh_message_subtype(message) == SSH_CHANNEL_SESSION)
            answerChannel(session, message, stop);
        else if (opens && ssh_message_subtype(message) == SSH_CHANNEL_DIRECT_TCPIP)
            forward(session, message, stop);
        else
            ssh_message_reply_default(message);
        ssh_message_free(message);
    }
}

void MiniSshServer::answerChannel(ssh_session session, ssh_message open,
                                  const std::stop_token& stop) const {
    ssh_channel channel = ssh_message_channel_request_open_reply_accept(open);
    while (ssh_message message = nextMessage(session, stop)) {
        const int kind = ssh_message_type(message) == SSH_REQUEST_CHANNEL
                             ? ssh_message_subtype(message)
                             : SSH_CHANNEL_REQUEST_UNKNOWN;
        const bool sftp = kind == SSH_CHANNEL_REQUEST_SUBSYSTEM && m_behaviour.sftp;
        if (kind == SSH_CHANNEL_REQUEST_EXEC || sftp) {
            const std::string command = sftp ? "" : ssh_message_channel_request_command(message);
            ssh_message_channel_request_reply_success(message);
            ssh_message_free(message);
            sftp ? m_behaviour.sftp(channel) : m_behaviour.exec(channel, command);
            break;
        }
        ssh_message_reply_default(message);
        ssh_message_free(message);
    }
    ssh_channel_close(channel);
    ssh_channel_free(channel);
}

void MiniSshServer::forward(ssh_session session, ssh_message open, const std::stop_token& stop) {
    const int port = ssh_message_channel_request_open_destination_port(open);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        ssh_message_reply_default(open);
        ::close(fd);
        return;
    }
    ssh_channel channel = ssh_message_channel_request_open_reply_accept(open);
    std::array<char, 16384> buffer;
    while (!stop.stop_requested() && ssh_channel_is_eof(channel) == 0) {
        const int n = ssh_channel_read_nonblocking(channel, buffer.data(), buffer.size(), 0);
        if (n < 0) break;
        if (n > 0) (void)!::send(fd, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL);
        const ssize_t back = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (back == 0) break;
        if (back > 0) ssh_channel_write(channel, buffer.data(), static_cast<std::uint32_t>(back));
        std::array<pollfd, 2> fds{pollfd{fd, POLLIN, 0}, pollfd{ssh_get_fd(session), POLLIN, 0}};
        if (n == 0 && back < 0) ::poll(fds.data(), fds.size(), 20);
    }
    ssh_channel_close(channel);
    ssh_channel_free(channel);
    ::close(fd);
}

}  // namespace piper::test
