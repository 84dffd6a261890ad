// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/session_run_controller.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "core/plan/own_worker.h"
#include "sessions/job_directory.h"
#include "sessions/plan_run.h"
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
    out.load = status.load;
    out.rank_peak_bytes = status.rank_peak_bytes;
    out.message =
        status.message.empty() ? QStringLiteral("Starting the ranks…") : ui::text(status.message);
    return out;
}

std::string runName(const ui::RunRequest& request) {
    if (request.plan) return request.plan->model.name;
    const std::string directory = request.job_directory.toStdString();
    return jobName(directory);
}

/// Everything a launch needs on the host; the worker is sent there when it
/// lacks it.
Result<PlanRunOptions> launchOptions(const ui::RunRequest& request,
                                     const std::filesystem::path& worker,
                                     const TransferProgress& progress,
                                     const std::stop_token& stop) {
    Session& session = *request.session;
    PlanRunOptions out;
    PIPER_ASSIGN(out.worker, session.worker(worker, progress, stop));
    PIPER_ASSIGN(out.jobs_root, session.jobsRoot());
    out.job_directory = request.job_directory.toStdString();
    out.name = runName(request);
    out.steps = request.steps;
    out.launcher =
        request.launcher.isEmpty() ? session.config().launcher : request.launcher.toStdString();
    out.launch = session.config().launch;
    out.session = session.config().name;
    return out;
}

ui::RunPreview previewOf(ui::RunRequest request, const std::filesystem::path& worker,
                         const std::stop_token& stop) {
    ui::RunPreview out;
    const auto ask = [&]() -> Status {
        PIPER_ASSIGN(PlanRunOptions options, launchOptions(request, worker, {}, stop));
        options.job_directory = options.jobs_root + "/" + newJobName(options.name);
        PIPER_ASSIGN(out.launch,
                     PlanRun::preview(request.session->connection(), *request.plan, options));
        request.job_directory = ui::text(options.job_directory);
        return {};
    };
    const Status status = ask();
    if (!status.ok()) out.fault = ui::errorText(status.error());
    out.request = std::move(request);
    return out;
}

}  // namespace

/// One run from launch or attachment to collection, on its own thread.
struct SessionRunController::Watch {
    std::filesystem::path worker;
    ui::RunRequest request;
    using Say = std::function<void(SessionRunController&)>;
    std::function<void(Say)> tell;      ///< unless it was detached meanwhile
    std::function<void(Say)> announce;  ///< also when another run is watched by now

    void run(const std::stop_token& detach, const std::stop_token& cancel) const {
        ui::RunEnd end;
        std::optional<PlanRun> lacking;  // whose events are to come
        const Status status = watch(detach, cancel, end, lacking);
        if (detach.stop_requested()) return;
        if (!status.ok()) {
            end.outcome = status.error().code == ErrorCode::Cancelled ? RunOutcome::Cancelled
                                                                      : RunOutcome::Failed;
            end.reason = ui::errorText(status.error());
        }
        tell([end](SessionRunController& c) {
            c.m_running = false;
            Q_EMIT c.finished(end);
        });
        if (lacking) fetchEvents(*lacking, end, detach);
    }

    Result<PlanRun> begin(const std::stop_token& detach, const std::stop_token& cancel) const {
        std::stop_source either;
        const std::stop_callback on_detach(detach, [&] { either.request_stop(); });
        const std::stop_callback on_cancel(cancel, [&] { either.request_stop(); });
        Connection& connection = request.session->connection();
        if (!request.plan)
            return PlanRun::attach(connection, request.job_directory.toStdString(),
                                   request.session->config().name);
        const auto progress = everyPercent([this](std::int64_t percent) {
            ui::RunProgress sending;
            sending.steps = static_cast<int>(request.steps);
            sending.message = QStringLiteral("Sending the worker: %1 %").arg(percent);
            tell([sending](SessionRunController& c) { Q_EMIT c.progressed(sending); });
        });
        PIPER_ASSIGN(const PlanRunOptions options,
                     launchOptions(request, worker, progress, either.get_token()));
        return PlanRun::start(connection, *request.plan, options);
    }

    Status watch(const std::stop_token& detach, const std::stop_token& cancel, ui::RunEnd& end,
                 std::optional<PlanRun>& lacking) const {
        PIPER_ASSIGN(PlanRun run, begin(detach, cancel));
        bool asked = false;
        JobStatus status;
        while (!isFinal(status.state)) {
            if (detach.stop_requested()) return {};
            if (cancel.stop_requested() && !asked) {
                asked = true;
                PIPER_TRY(run.cancel());
            }
            wait(detach, asked ? detach : cancel);
            PIPER_ASSIGN(status, run.status());
            report(run, status);
        }
        end.outcome = outcomeOf(status.state);
        end.reason = ui::text(status.message);
        PIPER_ASSIGN(const bool whole, collect(run, end, detach));
        if (!whole) lacking = std::move(run);
        return {};
    }

    /// Another host's run shows by its digest first. False while most events are not there.
    Result<bool> collect(PlanRun& run, ui::RunEnd& end, const std::stop_token& detach) const {
        const std::string path = request.workspace.toStdString();
        const CollectOptions options{{}, detach, {}};
        Result<StoredRun> stored = fail(ErrorCode::Unsupported, "no digest");
        if (!request.session->connection().isLocal())
            stored = run.collectDigest(path, runName(request), options);
        if (!stored.ok() && stored.error().code == ErrorCode::Unsupported)
            stored = run.collect(path, runName(request), options);
        // A run that failed before it recorded anything already says why.
        if (!stored.ok() && end.outcome == RunOutcome::Failed && !end.reason.isEmpty()) return true;
        if (!stored.ok()) return std::move(stored).error();
        end.workspace = request.workspace;
        end.run = ui::text(stored->measured);
        return stored->digests == 0;
    }

    void fetchEvents(PlanRun& run, ui::RunEnd end, const std::stop_token& detach) const {
        const auto progress = everyPercent([this, &end](std::int64_t percent) {
            announce([end, percent](SessionRunController& c) {
                Q_EMIT c.fetching(end, QStringLiteral("%1 %").arg(percent));
            });
        });
        const Result<StoredRun> stored =
            run.collect(end.workspace.toStdString(), end.run.toStdString(), {progress, detach, {}});
        end.reason = stored.ok() ? QString() : ui::errorText(stored.error());
        announce([end](SessionRunController& c) { Q_EMIT c.completed(end); });
    }

    void report(PlanRun& run, const JobStatus& status) const {
        const ui::RunProgress progress = progressOf(status);
        Result<std::string> log = run.log();
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

SessionRunController::SessionRunController(std::filesystem::path worker, QObject* parent)
    : RunController(parent), m_worker(std::move(worker)) {
    std::error_code ignored;
    m_worker_here = std::filesystem::exists(m_worker, ignored);
}

QString SessionRunController::whyNot(const Plan& plan, const SessionConfig& where) const {
    if (where.isLocal() && plan.cluster.device.kind != DeviceKind::Cpu)
        return QStringLiteral(
                   "its cluster has %1 devices, this machine runs CPU ranks; take the "
                   "cluster of this machine.")
            .arg(ui::text(plan.cluster.device.name));
    if (where.worker.empty() && !m_worker_here)
        return QStringLiteral("there is no worker here: %1.").arg(ui::text(m_worker.string()));
    QStringList parts;
    for (const std::string& part : unsupportedParts(plan)) parts << ui::text(part);
    return parts.join(QStringLiteral("; "));
}

void SessionRunController::start(const ui::RunRequest& request) {
    if (m_running || request.session == nullptr) return;
    m_running = true;
    m_cancel = {};
    const std::uint64_t generation = ++m_generation;
    Watch watch{m_worker, request, {}, {}};
    watch.tell = [this, generation](Watch::Say what) {
        m_window.post([this, generation, what = std::move(what)] {
            if (generation == m_generation) what(*this);
        });
    };
    watch.announce = [this](Watch::Say what) {
        m_window.post([this, what = std::move(what)] { what(*this); });
    };
    m_detach = m_threads.start([watch = std::move(watch), cancel = m_cancel.get_token()](
                                   const std::stop_token& detach) { watch.run(detach, cancel); });
}

void SessionRunController::preview(const ui::RunRequest& request) {
    if (request.session == nullptr || request.plan == nullptr) return;
    m_end_preview.request_stop();
    m_end_preview =
        m_threads.start([this, request, worker = m_worker](const std::stop_token& stop) {
            ui::RunPreview preview = previewOf(request, worker, stop);
            if (stop.stop_requested()) return;
            m_window.post([this, preview = std::move(preview)] { Q_EMIT previewed(preview); });
        });
}

void SessionRunController::cancel() {
    m_cancel.request_stop();
}

void SessionRunController::detach() {
    if (!m_running) return;
    ++m_generation;
    m_running = false;
    m_detach.request_stop();
}

}  // namespace piper::app
