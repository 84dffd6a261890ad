// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_tunnel.h"

#include <fcntl.h>
#include <libssh/server.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace piper {
namespace {

constexpr std::size_t kTunnelPiece = 32768;
constexpr std::size_t kMostPending = 1U << 20;  ///< bytes that wait for the next hop to read

}  // namespace

Result<std::unique_ptr<SshTunnel>> SshTunnel::open(SshSession hop, const std::string& hop_name,
                                                   const std::string& host, int port,
                                                   int alive_interval_seconds) {
    SshChannel channel(ssh_channel_new(hop.get()));
    if (channel == nullptr ||
        ssh_channel_open_forward(channel.get(), host.c_str(), port, "127.0.0.1", 0) != SSH_OK) {
        Error error = fail(ErrorCode::External, "{} does not pass on to {}:{}: {}", hop_name, host,
                           port, sshErrorText(hop.get()));
        error.hint =
            "the jump host must reach that address and allow TCP forwarding "
            "(AllowTcpForwarding, PermitOpen in its sshd_config)";
        return error;
    }
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
        return fail(ErrorCode::External, "cannot make a socket pair: {}", std::strerror(errno));
    std::unique_ptr<SshTunnel> tunnel(new SshTunnel);
    tunnel->m_session = std::move(hop);
    tunnel->m_channel = std::move(channel);
    tunnel->m_inner = ends[0];
    tunnel->m_outer = ends[1];
    tunnel->m_alive_interval_seconds = alive_interval_seconds;
    tunnel->m_thread =
        std::jthread([self = tunnel.get()](const std::stop_token& stop) { self->forward(stop); });
    return tunnel;
}

SshTunnel::~SshTunnel() {
    if (m_outer >= 0) ::close(m_outer);
    m_thread.request_stop();
    if (m_thread.joinable()) m_thread.join();
    if (m_inner >= 0) ::close(m_inner);
}

int SshTunnel::takeSocket() {
    return std::exchange(m_outer, -1);
}

/// Host to next hop. False at the end of the channel.
bool SshTunnel::fromChannel(std::string& pending) {
    std::array<char, kTunnelPiece> buffer;
    while (pending.size() < kMostPending) {
        const int n =
            ssh_channel_read_nonblocking(m_channel.get(), buffer.data(), buffer.size(), 0);
        if (n > 0) {
            m_heard = Clock::now().time_since_epoch().count();
            pending.append(buffer.data(), static_cast<std::size_t>(n));
            continue;
        }
        if (n < 0 || ssh_channel_is_eof(m_channel.get()) != 0) return false;
        break;
    }
    while (!pending.empty()) {
        const ssize_t n = ::send(m_inner, pending.data(), pending.size(), MSG_NOSIGNAL);
        if (n > 0) {
            pending.erase(0, static_cast<std::size_t>(n));
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
    return true;
}

/// Next hop to host, as far as the channel's window goes. False when the next hop has closed.
bool SshTunnel::toChannel() {
    std::array<char, kTunnelPiece> buffer;
    for (;;) {
        const std::size_t room =
            std::min<std::size_t>(buffer.size(), ssh_channel_window_size(m_channel.get()));
        if (room == 0) return true;
        const ssize_t n = ::recv(m_inner, buffer.data(), room, 0);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
        if (ssh_channel_write(m_channel.get(), buffer.data(), static_cast<std::uint32_t>(n)) != n)
            return false;
    }
}

void SshTunnel::forward(const std::stop_token& stop) {
    std::string pending;
    Clock::time_point last_alive = Clock::now();
    while (!stop.stop_requested() && ssh_is_connected(m_session.get()) != 0) {
        if (!toChannel() || !fromChannel(pending)) break;
        const bool has_room = ssh_channel_window_size(m_channel.get()) > 0;
        std::array<pollfd, 2> fds{
            pollfd{ssh_get_fd(m_session.get()), POLLIN, 0},
            pollfd{m_inner,
                   static_cast<short>((has_room ? POLLIN : 0) | (pending.empty() ? 0 : POLLOUT)),
                   0}};
        ::poll(fds.data(), fds.size(), 100);
        if (m_alive_interval_seconds > 0 &&
            Clock::now() - last_alive > std::chrono::seconds(m_alive_interval_seconds)) {
            ssh_send_keepalive(m_session.get());
            last_alive = Clock::now();
        }
    }
    ::shutdown(m_inner, SHUT_RDWR);  // the next hop sees the end
    m_channel.reset();
}

}  // namespace piper
