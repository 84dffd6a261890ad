// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "sessions/descriptor.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_handles.h"
#include "sessions/ssh_prompter.h"
#include "sessions/ssh_tunnel.h"

namespace piper {

/// A mutex that says for how long it has been held.
class WatchedMutex {
public:
    using Clock = std::chrono::steady_clock;

    void lock() {
        m_mutex.lock();
        m_since = Clock::now().time_since_epoch().count();
    }
    bool try_lock() {
        if (!m_mutex.try_lock()) return false;
        m_since = Clock::now().time_since_epoch().count();
        return true;
    }
    void unlock() {
        m_since = kFree;
        m_mutex.unlock();
    }
    /// Zero while nobody holds it.
    [[nodiscard]] Clock::duration heldFor() const {
        const Clock::rep since = m_since;
        if (since == kFree) return {};
        return Clock::now().time_since_epoch() - Clock::duration(since);
    }

private:
    static constexpr Clock::rep kFree = -1;
    std::mutex m_mutex;
    std::atomic<Clock::rep> m_since = kFree;
};

/// One logged-in connection over all its hops, shared by all channels. libssh allows one thread at
/// a time: whoever calls it holds lock(), for as long as one exchange takes; waiting for more is
/// done outside in wait(). A host that says nothing for the route's connect timeout while an
/// exchange waits for it counts as gone, also when its kernel still acknowledges what comes.
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

    using Lock = std::unique_lock<WatchedMutex>;
    [[nodiscard]] Lock lock() { return Lock(m_mutex); }
    /// Until packets may have come, at most `timeout_ms`; gives the lock away meanwhile.
    void wait(Lock& lock, int timeout_ms);
    [[nodiscard]] ssh_session session() const { return m_session.get(); }
    [[nodiscard]] bool alive() const;  ///< under lock()
    /// "connection to NAME was lost: why"
    [[nodiscard]] Error lost() const;
    [[nodiscard]] const SshHostConfig& target() const { return m_target; }

private:
    SshLink() = default;
    void keepAlive(const std::stop_token& stop);
    /// Ends what waits inside libssh, which asks nobody, for a host that is silent.
    void endSilence(const std::stop_token& stop);
    [[nodiscard]] bool isSilent() const;
    void giveUp() const;

    std::vector<std::unique_ptr<SshTunnel>> m_tunnels;  ///< outermost first
    SshHostConfig m_target;
    SshSession m_session;
    std::optional<Descriptor> m_socket;  ///< another one of the session's
    WatchedMutex m_mutex;
    std::condition_variable_any m_changed;
    bool m_polling = false;
    mutable std::atomic<bool> m_dead = false;
    std::condition_variable_any m_stopping;
    std::jthread m_keeper, m_watcher;
};

}  // namespace piper
