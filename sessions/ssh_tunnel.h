// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "core/base/result.h"
#include "sessions/ssh_handles.h"

namespace piper {

/// A hop that only passes bytes on: a direct-tcpip channel of its session joined to a socket pair,
/// so that the next hop's session finds an ordinary socket. The hop's session belongs to the
/// tunnel's thread until the next hop closes its end.
class SshTunnel {
public:
    using Clock = std::chrono::steady_clock;

    /// Errors: External when the hop cannot or may not reach `host`:`port`.
    [[nodiscard]] static Result<std::unique_ptr<SshTunnel>> open(SshSession hop,
                                                                 const std::string& hop_name,
                                                                 const std::string& host, int port,
                                                                 int alive_interval_seconds);
    ~SshTunnel();
    SshTunnel(const SshTunnel&) = delete;
    SshTunnel& operator=(const SshTunnel&) = delete;

    /// The next hop's end; handed over once, closed by its new owner.
    [[nodiscard]] int takeSocket();

    /// Since the last byte from beyond the hop.
    [[nodiscard]] Clock::duration silentFor() const {
        return Clock::now().time_since_epoch() - Clock::duration(m_heard);
    }

private:
    SshTunnel() = default;
    void forward(const std::stop_token& stop);
    bool fromChannel(std::string& pending);
    bool toChannel();

    SshSession m_session;
    SshChannel m_channel;
    std::atomic<Clock::rep> m_heard = Clock::now().time_since_epoch().count();
    int m_inner = -1;  ///< of the thread
    int m_outer = -1;
    int m_alive_interval_seconds = 15;
    std::jthread m_thread;
};

}  // namespace piper
