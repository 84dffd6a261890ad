// SPDX-License-Identifier: Apache-2.0
#include "sessions/tcp_connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "sessions/descriptor.h"

namespace piper {
namespace {

/// 0 once connected, else the error number; ECANCELED when `wake` becomes readable first.
int finishConnecting(int fd, int wake, int timeout_seconds) {
    std::array<pollfd, 2> waiting{pollfd{fd, POLLOUT, 0}, pollfd{wake, POLLIN, 0}};
    int ready = 0;
    do {
        ready = ::poll(waiting.data(), waiting.size(), timeout_seconds * 1000);
    } while (ready < 0 && errno == EINTR);
    if (waiting[1].revents != 0) return ECANCELED;
    if (ready <= 0) return ETIMEDOUT;
    int reason = 0;
    socklen_t size = sizeof reason;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size);
    return reason;
}

}  // namespace

Result<int> connectTcp(const std::string& host, int port, int timeout_seconds,
                       const std::stop_token& stop) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int unknown = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (unknown != 0) return fail(ErrorCode::External, "{}", ::gai_strerror(unknown));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
    const Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback on_stop(stop, [&wake] {
        const std::uint64_t one = 1;
        (void)!::write(wake.get(), &one, sizeof one);
    });
    int reason = EHOSTUNREACH;
    for (const addrinfo* at = found; at != nullptr && reason != ECANCELED; at = at->ai_next) {
        Descriptor socket(
            ::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
        if (socket.get() < 0) continue;
        reason = ::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
        if (reason == EINPROGRESS)
            reason = finishConnecting(socket.get(), wake.get(), timeout_seconds);
        if (reason != 0) continue;
        const int on = 1;
        ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return socket.release();
    }
    if (reason == ECANCELED) return fail(ErrorCode::Cancelled, "connecting was stopped");
    return fail(ErrorCode::External, "{}", std::strerror(reason));
}

}  // namespace piper
