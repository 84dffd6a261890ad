// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace piper::app {

/// Threads that may wait for a host and that the window never waits for. Those that have ended are
/// let go of when the next one starts. Used from one thread.
class ThreadSet {
public:
    using Work = std::function<void(const std::stop_token&)>;

    ThreadSet() = default;
    /// Asks all of them to end and waits for it.
    ~ThreadSet();
    ThreadSet(const ThreadSet&) = delete;
    ThreadSet& operator=(const ThreadSet&) = delete;

    /// The work and what it holds end on the new thread. The stop source asks it to end early.
    [[nodiscard]] std::stop_source start(Work work);
    /// How many it holds, some of which may have ended.
    [[nodiscard]] std::size_t size() const { return m_members.size(); }
    void requestStop();
    /// Asks all of them to end and waits until then; whether none is left.
    [[nodiscard]] bool endBy(std::chrono::steady_clock::time_point deadline);

private:
    struct Ending {
        std::mutex mutex;
        std::condition_variable changed;
        std::size_t running = 0;
    };
    struct Member {
        std::shared_ptr<bool> ended;  ///< under the mutex
        std::jthread thread;
    };

    std::shared_ptr<Ending> m_ending = std::make_shared<Ending>();
    std::list<Member> m_members;
};

}  // namespace piper::app
