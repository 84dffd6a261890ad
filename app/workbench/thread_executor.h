// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "app/workbench/thread_set.h"
#include "ui/models/executor.h"
#include "ui/models/window_queue.h"

namespace piper::app {

/// The executor of the program: one thread for what follows the finger, one for files and the
/// like, and one for each long computation and each request to a network. Made
/// and destroyed on the window's thread.
class ThreadExecutor final : public ui::Executor {
public:
    ThreadExecutor();
    ~ThreadExecutor() override;

    void submit(const QString& topic, Lane lane, Work work) override;
    void cancel(const QString& topic) override;
    [[nodiscard]] bool idle() const override { return m_open == 0; }
    /// Asks every request to stop.
    void requestStop();
    /// The same, and waits until then for those that wait for a host or compute; whether all of
    /// these have ended. Files are written to their end in any case.
    [[nodiscard]] bool endBy(std::chrono::steady_clock::time_point deadline);

private:
    struct Request {
        QString topic;
        std::uint64_t revision = 0;
        std::stop_source stop;
        Work work;
    };
    struct Worker {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::deque<Request> waiting;
        std::jthread thread;
    };
    void joinWorkers();
    void loop(Worker& worker, const std::stop_token& stop);
    void execute(const Request& request);
    /// Runs on the window's thread when the request is still the newest of its topic.
    void deliver(const QString& topic, std::uint64_t revision, OnWindow done, bool last);

    ui::WindowQueue m_window;  ///< pending deliveries end with it
    std::array<std::unique_ptr<Worker>, 2> m_workers;
    ThreadSet m_own_threads;                      ///< window's thread only
    std::map<QString, std::uint64_t> m_revision;  ///< window's thread only
    std::map<QString, std::stop_source> m_stop;   ///< window's thread only
    std::atomic<int> m_open = 0;
};

}  // namespace piper::app
