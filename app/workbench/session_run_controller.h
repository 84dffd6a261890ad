// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>

#include "app/workbench/thread_set.h"
#include "ui/models/run_controller.h"
#include "ui/models/window_queue.h"

namespace piper::app {

/// Runs plans through sessions: launches or takes up, watches and collects on a thread of its own.
class SessionRunController final : public ui::RunController {
    Q_OBJECT
public:
    /// `worker`: the piper-worker of this machine, sent to hosts that lack it.
    explicit SessionRunController(std::filesystem::path worker, QObject* parent = nullptr);
    /// A run that goes on is left running, its job directory is kept. Asks every thread to end.
    void requestStop() { m_threads.requestStop(); }
    /// The same, and waits until then; whether none is left.
    [[nodiscard]] bool endBy(std::chrono::steady_clock::time_point deadline) {
        return m_threads.endBy(deadline);
    }

    [[nodiscard]] QString whyNot(const Plan& plan, const SessionConfig& where) const override;
    [[nodiscard]] bool running() const override { return m_running; }
    void start(const ui::RunRequest& request) override;
    void preview(const ui::RunRequest& request) override;
    void cancel() override;
    void detach() override;

private:
    struct Watch;

    ui::WindowQueue m_window;  ///< outlives the threads below
    std::filesystem::path m_worker;
    bool m_running = false;
    std::uint64_t m_generation = 0;  ///< what a detached run still says is not heard
    bool m_worker_here;
    std::stop_source m_cancel;
    std::stop_source m_detach;  ///< of the run that is watched; finished ones go on fetching
    std::stop_source m_end_preview;
    ThreadSet m_threads;
};

}  // namespace piper::app
