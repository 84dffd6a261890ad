// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_link.h"

#include <fcntl.h>
#include <libssh/server.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "sessions/descriptor.h"
#include "sessions/ssh_auth.h"
#include "sessions/ssh_host_key.h"
#include "sessions/tcp_connect.h"

namespace piper {
namespace {

/// A peer that acknowledges nothing for so long is gone.
constexpr int kDeadAfterSeconds = 30;
/// Packets of a waiting channel may have been read by another thread: look again after this.
constexpr int kLookAgainMs = 25;
constexpr std::chrono::milliseconds kWatchEvery{500};

/// Ciphers that processors have instructions for come first; all are OpenSSH's own defaults.
constexpr const char* kCiphers =
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"
    "aes256-ctr,aes192-ctr,aes128-ctr";

bool setOption(ssh_session session, ssh_options_e option, const std::string& value) {
    return value.empty() || ssh_options_set(session, option, value.c_str()) == SSH_OK;
}

Status setOptions(ssh_session session, const SshHostConfig& host) {
    const int off = 0;
    ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &off);  // never libssh's own reading
    long timeout = std::max(1, host.connect_timeout_seconds);
    ssh_options_set(session, SSH_OPTIONS_TIMEOUT, &timeout);
    ssh_options_set(session, SSH_OPTIONS_PORT, &host.port);
    const std::string agent = host.identity_agent == "none" ? "" : host.identity_agent;
    const bool ok = setOption(session, SSH_OPTIONS_HOST, host.host_name) &&
                    setOption(session, SSH_OPTIONS_USER, host.user) &&
                    // libssh's own reading of them would put its order before ours.
                    setOption(session, SSH_OPTIONS_KNOWNHOSTS, "/dev/null") &&
                    setOption(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null") &&
                    setOption(session, SSH_OPTIONS_IDENTITY_AGENT, agent) &&
                    setOption(session, SSH_OPTIONS_CIPHERS_C_S,
                              host.ciphers.empty() ? kCiphers : host.ciphers) &&
                    setOption(session, SSH_OPTIONS_CIPHERS_S_C,
                              host.ciphers.empty() ? kCiphers : host.ciphers) &&
                    setOption(session, SSH_OPTIONS_HMAC_C_S, host.macs) &&
                    setOption(session, SSH_OPTIONS_HMAC_S_C, host.macs) &&
                    setOption(session, SSH_OPTIONS_KEY_EXCHANGE, host.key_exchange) &&
                    setOption(session, SSH_OPTIONS_HOSTKEYS, preferredHostKeys(host)) &&
                    setOption(session, SSH_OPTIONS_COMPRESSION, host.compression ? "yes" : "no");
    if (ok) return {};
    return fail(ErrorCode::InvalidInput, "{}: an option cannot be used: {}", host.address(),
                sshErrorText(session));
}

void watchSocket(int fd) {
    const int on = 1;
    const unsigned dead_ms = kDeadAfterSeconds * 1000;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms);
}

Error notConnected(const SshHostConfig& host, std::string_view reason) {
    Error error = fail(ErrorCode::External, "cannot connect to {}: {}", host.address(), reason);
    error.hint = fmt::format("is sshd running there and reachable? try: ssh {} true", host.alias);
    error.context = SshLink::kConnecting;
    return error;
}

Status logIn(ssh_session session, const SshHostConfig& host, SshPrompter* prompter) {
    if (ssh_connect(session) != SSH_OK) return notConnected(host, sshErrorText(session));
    PIPER_TRY(verifyHostKey(session, host, prompter));
    return authenticate(session, host, prompter);
}

struct Hop {
    SshSession session;
    Descriptor socket;  ///< another one of the session's
};

/// Connects and logs in to one hop, through the one before it when there is one.
Result<Hop> openHop(const SshHostConfig& host, SshTunnel* through, SshPrompter* prompter,
                    const std::stop_token& stop) {
    SshSession session(ssh_new());
    if (session == nullptr) return fail(ErrorCode::External, "libssh cannot make a session");
    PIPER_TRY(setOptions(session.get(), host));
    socket_t socket = -1;
    if (through != nullptr) {
        socket = through->takeSocket();
    } else {
        const Result<int> connected =
            connectTcp(host.host_name, host.port, std::max(1, host.connect_timeout_seconds), stop);
        if (!connected.ok() && connected.error().code != ErrorCode::Cancelled)
            return notConnected(host, connected.error().message);
        if (!connected.ok()) return connected.error();
        socket = *connected;
        watchSocket(socket);
    }
    // libssh waits for its peer without asking us: it finds the connection ended instead.
    // It closes its own descriptor on a fault: ours says which connection is meant.
    Descriptor ours(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (ours.get() < 0) {
        const int reason = errno;
        ::close(socket);
        return fail(ErrorCode::External, "cannot connect to {}: {}", host.address(),
                    std::strerror(reason));
    }
    ssh_options_set(session.get(), SSH_OPTIONS_FD, &socket);
    Status status;
    {
        const std::stop_callback cut(stop, [&ours] { ::shutdown(ours.get(), SHUT_RDWR); });
        status = logIn(session.get(), host, prompter);
    }
    if (stop.stop_requested())
        return fail(ErrorCode::Cancelled, "connecting to {} was stopped", host.address());
    if (!status.ok()) return status.error();
    return Hop{std::move(session), std::move(ours)};
}

void ignoreBrokenPipes() {
    struct sigaction current {};
    if (::sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
        ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

Result<std::shared_ptr<SshLink>> SshLink::open(const std::vector<SshHostConfig>& route,
                                               SshPrompter* prompter, const std::stop_token& stop) {
    PIPER_CHECK(!route.empty());
    static std::once_flag once;
    std::call_once(once, ignoreBrokenPipes);
    std::shared_ptr<SshLink> link(new SshLink);
    link->m_target = route.back();
    for (std::size_t i = 0; i < route.size(); ++i) {
        SshTunnel* through = i == 0 ? nullptr : link->m_tunnels.back().get();
        PIPER_ASSIGN(Hop hop, openHop(route[i], through, prompter, stop));
        if (i + 1 == route.size()) {
            link->m_session = std::move(hop.session);
            link->m_socket.emplace(std::move(hop.socket));
            break;
        }
        PIPER_ASSIGN(auto tunnel, SshTunnel::open(std::move(hop.session), route[i].address(),
                                                  route[i + 1].host_name, route[i + 1].port,
                                                  route[i].alive_interval_seconds));
        link->m_tunnels.push_back(std::move(tunnel));
    }
    link->m_keeper =
        std::jthread([self = link.get()](const std::stop_token& stop) { self->keepAlive(stop); });
    link->m_watcher =
        std::jthread([self = link.get()](const std::stop_token& stop) { self->endSilence(stop); });
    return link;
}

SshLink::~SshLink() {
    m_keeper.request_stop();
    if (m_keeper.joinable()) m_keeper.join();
    m_watcher.request_stop();
    if (m_watcher.joinable()) m_watcher.join();
    m_session.reset();
    while (!m_tunnels.empty()) m_tunnels.pop_back();
}

void SshLink::wait(Lock& lock, int timeout_ms) {
    timeout_ms = std::min(timeout_ms, kLookAgainMs);
    if (m_polling) {
        m_changed.wait_for(lock, std::chrono::milliseconds(timeout_ms));
        return;
    }
    m_polling = true;
    pollfd fd{ssh_get_fd(m_session.get()), POLLIN, 0};
    lock.unlock();
    ::poll(&fd, 1, timeout_ms);
    lock.lock();
    m_polling = false;
    m_changed.notify_all();
}

bool SshLink::isSilent() const {
    // A little less than the timeout: libssh's own waiting ends with it.
    const auto patience =
        std::chrono::milliseconds(900 * std::max(1, m_target.connect_timeout_seconds));
    if (m_mutex.heldFor() < patience) return false;
    if (!m_tunnels.empty()) return m_tunnels.back()->silentFor() >= patience;
    tcp_info info{};
    socklen_t size = sizeof info;
    return ::getsockopt(m_socket->get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           std::chrono::milliseconds(info.tcpi_last_data_recv) >= patience;
}

void SshLink::giveUp() const {
    m_dead = true;
    ::shutdown(m_socket->get(), SHUT_RDWR);
}

bool SshLink::alive() const {
    if (isSilent()) giveUp();
    return !m_dead && ssh_is_connected(m_session.get()) != 0;
}

Error SshLink::lost() const {
    return fail(ErrorCode::External, "the connection to {} was lost: {}", m_target.address(),
                m_dead ? std::string("it was closed, or the host answers no more")
                       : sshErrorText(m_session.get()));
}

void SshLink::keepAlive(const std::stop_token& stop) {
    const int every = m_target.alive_interval_seconds;
    if (every <= 0) return;
    Lock held = lock();
    while (!stop.stop_requested()) {
        m_stopping.wait_for(held, stop, std::chrono::seconds(every), [] { return false; });
        if (stop.stop_requested() || !alive()) return;
        // A refusal is an answer; without any, the host is silent.
        ssh_send_keepalive(m_session.get());
        if (!alive()) m_changed.notify_all();
    }
}

void SshLink::endSilence(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock held(mutex);
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
        wake.wait_for(held, stop, kWatchEvery, [] { return false; });
        if (isSilent()) giveUp();
    }
}

}  // namespace piper
