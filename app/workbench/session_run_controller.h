// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include "sessions/connection.h"
#include "ui/models/run_controller.h"

namespace piper::app {

/// Where a run goes.
struct RunPlaces {
    std::string worker;                       ///< piper-worker on the connection's host
    std::string jobs_root;                    ///< job directories are made below it
    std::function<QString()> workspace_file;  ///< what the run is collected into
    std::vector<std::string> worker_arguments;
};

/// Runs plans through a session: launches, watches and collects on a thread of its own.
class SessionRunController final : public ui::RunController {
    Q_OBJECT
public:
    SessionRunController(std::shared_ptr<Connection> connection, RunPlaces places,
                         QObject* parent = nullptr);
    /// A run that goes on is left running, its job directory is kept.
    ~SessionRunController() override;

    [[nodiscard]] QString whyNot(const Plan& plan) const override;
    [[nodiscard]] bool running() const override { return m_running; }
    void start(const ui::RunRequest& request) override;
    void cancel() override;
    void detach() override;

private:
    struct Watch;
    void post(std::function<void()> on_window);

    std::shared_ptr<Connection> m_connection;
    RunPlaces m_places;
    bool m_running = false;
    std::uint64_t m_generation = 0;  ///< what a detached run still says is not heard
    std::stop_source m_cancel;
    std::jthread m_thread;
};

}  // namespace piper::app
