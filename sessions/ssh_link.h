// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_handles.h"
#include "sessions/ssh_prompter.h"
#include "sessions/ssh_tunnel.h"

namespace piper {

/// One logged-in connection over all its hops, shared by all channels. libssh allows one thread at
/// a time: whoever calls it holds lock(), for as long as one exchange takes; waiting for more is
/// done outside in wait().
class SshLink {
public:
    /// Context of the errors that may pass by themselves: the host did not answer.
    static constexpr const char* kConnecting = "connecting";

    /// Connects, verifies and logs in hop after hop; the target is last in `route`.
    /// Errors: those of each hop, with its name; Cancelled when stopped meanwhile.
    [[nodiscard]] static Result<std::shared_ptr<SshLink>> open(
        const std::vector<SshHostConfig>& route, SshPrompter* prompter,
        const std::stop_token& stop = {});
    ~SshLink();
    SshLink(const SshLink&) = delete;
    SshLink& operator=(const SshLink&) = delete;

    using Lock = std::unique_lock<std::mutex>;
    [[nodiscard]] Lock lock() { return Lock(m_mutex); }
    /// Until packets may have come, at most `timeout_ms`; gives the lock away meanwhile.
    void wait(Lock& lock, int timeout_ms);
    [[nodiscard]] ssh_session session() const { return m_session.get(); }
    [[nodiscard]] bool alive() const;  ///< under lock()
    /// "connection to NAME was lost: why"
    [[nodiscard]] Error lost() const;
    [[nodiscard]] const SshHostConfig& target() const { return m_target; }
    /// Tears the connection down; whoever waits on it learns at once.
    void cut();

private:
    SshLink() = default;
    void keepAlive(const std::stop_token& stop);

    std::vector<std::unique_ptr<SshTunnel>> m_tunnels;  ///< outermost first
    SshHostConfig m_target;
    SshSession m_session;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    bool m_polling = false;
    bool m_dead = false;
    std::condition_variable_any m_stopping;
    std::jthread m_keeper;
};

}  // namespace piper
