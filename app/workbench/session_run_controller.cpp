// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/session_run_controller.h"

#include <QDir>
#include <QFileInfo>
#include <QMetaObject>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "collectors/live/collect.h"
#ifdef PIPER_HAS_WORKER
#include "kernels/pipeline/support.h"
#endif
#include "sessions/job_directory.h"
#include "sessions/mpirun_launcher.h"
#include "ui/models/text_format.h"

namespace piper::app {
namespace {

constexpr auto kPollEvery = std::chrono::milliseconds(100);

RunOutcome outcomeOf(JobState state) {
    return state == JobState::Finished    ? RunOutcome::Finished
           : state == JobState::Cancelled ? RunOutcome::Cancelled
                                          : RunOutcome::Failed;
}

ui::RunProgress progressOf(const JobStatus& status) {
    ui::RunProgress out;
    out.step = status.step;
    out.steps = status.steps;
    out.loss = status.loss;
    out.tokens_per_second = status.tokens_per_second;
    out.message =
        status.message.empty() ? QStringLiteral("Starting the ranks…") : ui::text(status.message);
    return out;
}

/// Merges what the ranks wrote into the workspace file.
Status collectInto(const QString& workspace, const std::string& directory, const std::string& name,
                   ui::RunEnd& end) {
    if (!QDir().mkpath(QFileInfo(workspace).absolutePath()))
        return fail(ErrorCode::Io, "cannot make the directory of {}", workspace.toStdString());
    PIPER_ASSIGN(Workspace file, Workspace::openOrCreate(workspace.toStdString()));
    PIPER_ASSIGN(const std::string free_name, file.freeRunName(name));
    PIPER_ASSIGN(const CollectedRun collected, collectJob(directory, file, free_name));
    end.workspace = workspace;
    end.run = ui::text(collected.name);
    return file.close();
}

}  // namespace

/// One run from launch to collection, on its own thread.
struct SessionRunController::Watch {
    std::shared_ptr<Connection> connection;
    RunPlaces places;
    ui::RunRequest request;
    QString workspace;
    std::function<void(std::function<void(SessionRunController&)>)> tell;

    void run(const std::stop_token& detach, const std::stop_token& cancel) const {
        ui::RunEnd end;
        const Status status = watch(detach, cancel, end);
        if (detach.stop_requested()) return;
        if (!status.ok()) {
            end.outcome = RunOutcome::Failed;
            end.reason = ui::errorText(status.error());
        }
        tell([end](SessionRunController& c) {
            c.m_running = false;
            Q_EMIT c.finished(end);
        });
    }

    Status watch(const std::stop_token& detach, const std::stop_token& cancel,
                 ui::RunEnd& end) const {
        LaunchRequest launch;
        launch.plan = *request.plan;
        launch.steps = request.steps;
        launch.worker = places.worker;
        launch.worker_arguments = places.worker_arguments;
        launch.job_directory = places.jobs_root + "/" + newJobName(request.plan->model.name);
        const auto launcher = makeMpirunLauncher(*connection);
        PIPER_ASSIGN(const std::unique_ptr<Job> job, launcher->launch(launch));
        bool asked = false;
        JobStatus status;
        while (!isFinal(status.state)) {
            if (detach.stop_requested()) return {};
            if (cancel.stop_requested() && !asked) {
                asked = true;
                PIPER_TRY(job->cancel());
            }
            wait(detach, asked ? detach : cancel);
            PIPER_ASSIGN(status, job->status());
            report(*job, status);
        }
        end.outcome = outcomeOf(status.state);
        end.reason = ui::text(status.message);
        return collectInto(workspace, job->directory(), request.plan->model.name, end);
    }

    void report(Job& job, const JobStatus& status) const {
        const ui::RunProgress progress = progressOf(status);
        Result<std::string> log = job.log();
        const QString lines = log.ok() ? ui::text(*log) : QString();
        tell([progress, lines](SessionRunController& c) {
            Q_EMIT c.progressed(progress);
            if (!lines.isEmpty()) Q_EMIT c.logged(lines);
        });
    }

    /// Until the next poll, or at once when the user asks for something.
    static void wait(const std::stop_token& detach, const std::stop_token& cancel) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any wake;
        const std::stop_callback on_cancel(cancel, [&] { wake.notify_all(); });
        wake.wait_for(lock, detach, kPollEvery,
                      [&] { return detach.stop_requested() || cancel.stop_requested(); });
    }
};

SessionRunController::SessionRunController(std::shared_ptr<Connection> connection, RunPlaces places,
                                           QObject* parent)
    : RunController(parent), m_connection(std::move(connection)), m_places(std::move(places)) {}

SessionRunController::~SessionRunController() {
    m_thread.request_stop();
    if (m_thread.joinable()) m_thread.join();
}

QString SessionRunController::whyNot(const Plan& plan) const {
    if (plan.cluster.device.kind != DeviceKind::Cpu)
        return QStringLiteral(
                   "its cluster has %1 devices, this machine runs CPU ranks; take the "
                   "cluster of this machine.")
            .arg(ui::text(plan.cluster.device.name));
#ifdef PIPER_HAS_WORKER
    QStringList parts;
    for (const std::string& part : unsupportedParts(plan)) parts << ui::text(part);
    return parts.join(QStringLiteral("; "));
#else
    return QStringLiteral("this build has no worker.");
#endif
}

void SessionRunController::post(std::function<void()> on_window) {
    QMetaObject::invokeMethod(this, std::move(on_window), Qt::QueuedConnection);
}

void SessionRunController::start(const ui::RunRequest& request) {
    if (m_running) return;
    m_running = true;
    m_cancel = {};
    const std::uint64_t generation = ++m_generation;
    Watch watch{m_connection, m_places, request, m_places.workspace_file(), {}};
    watch.tell = [this, generation](std::function<void(SessionRunController&)> what) {
        post([this, generation, what = std::move(what)] {
            if (generation == m_generation) what(*this);
        });
    };
    m_thread = std::jthread([watch = std::move(watch), cancel = m_cancel.get_token()](
                                const std::stop_token& detach) { watch.run(detach, cancel); });
}

void SessionRunController::cancel() {
    m_cancel.request_stop();
}

void SessionRunController::detach() {
    ++m_generation;
    m_running = false;
    m_thread.request_stop();
}

}  // namespace piper::app
