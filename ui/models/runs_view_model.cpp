// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/runs_view_model.h"

#include <algorithm>
#include <cmath>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr qsizetype kLogLimit = 200'000;  ///< characters kept of the live log

QString endText(const RunEnd& end) {
    switch (end.outcome) {
        case RunOutcome::Finished:
            return QStringLiteral("Run finished.");
        case RunOutcome::Cancelled:
            return QStringLiteral("Run cancelled; what was recorded is kept.");
        default:
            return QStringLiteral("Run failed: %1").arg(end.reason);
    }
}

}  // namespace

QString RunCurves::loadTitle() const {
    if (load.empty()) return {};
    return QStringLiteral("Tokens by expert, last step: ") + text(describe(load));
}

QString RunCurves::memoryTitle() const {
    const auto most = std::ranges::max_element(rank_peak_bytes);
    if (most == rank_peak_bytes.end()) return {};
    return QStringLiteral("Memory of each rank, the most so far: up to %1 on rank %2")
        .arg(bytesText(Bytes(static_cast<double>(*most))))
        .arg(most - rank_peak_bytes.begin());
}

QString RunCurves::dump() const {
    QString out = of.isEmpty() ? QStringLiteral("live") : of;
    out += QStringLiteral("\nloss:");
    for (const QPointF& p : loss) out += QStringLiteral(" %1 %2").arg(p.x()).arg(p.y(), 0, 'f', 4);
    if (!load.empty()) {
        out += u'\n' + loadTitle() + QStringLiteral("\ntokens:");
        for (const std::int64_t tokens : load.tokens) out += QStringLiteral(" %1").arg(tokens);
    }
    if (!rank_peak_bytes.empty()) {
        out += u'\n' + memoryTitle() + QStringLiteral("\nbytes:");
        for (const std::int64_t bytes : rank_peak_bytes) out += QStringLiteral(" %1").arg(bytes);
    }
    return out + u'\n';
}

RunsViewModel::RunsViewModel(Executor& executor, const RunLibrary& library,
                             RunController& controller, PlanViewModel& plan,
                             SessionsViewModel& sessions, QObject* parent)
    : QObject(parent),
      m_executor(executor),
      m_library(library),
      m_controller(controller),
      m_plan(plan),
      m_sessions(sessions),
      m_status(QStringLiteral("Nothing is running.")) {
    connect(&controller, &RunController::progressed, this, &RunsViewModel::onProgress);
    connect(&controller, &RunController::finished, this, &RunsViewModel::onFinished);
    connect(&controller, &RunController::fetching, this,
            [this](const RunEnd& end, const QString& how_far) {
                m_coming[{end.workspace, end.run}] = how_far;
                Q_EMIT changed();
            });
    connect(&controller, &RunController::completed, this, &RunsViewModel::onCompleted);
    connect(&controller, &RunController::logged, this, [this](const QString& lines) {
        m_log += lines;
        if (m_log.size() > kLogLimit) m_log = m_log.right(kLogLimit / 2);
        Q_EMIT changed();
    });
    connect(&controller, &RunController::previewed, this, [this](const RunPreview& preview) {
        if (running()) return;  // "Run this" could not start another one
        m_status = QStringLiteral("Nothing is running.");
        Q_EMIT changed();
        Q_EMIT previewed(preview);
    });
    connect(&m_history, &RunHistoryModel::labelled, this, &RunsViewModel::keepLabels);
    connect(&m_history, &RunHistoryModel::refused, this, &RunsViewModel::failed);
    connect(&sessions, &SessionsViewModel::opened, this, &RunsViewModel::previewAgain);
    connect(&sessions, &SessionsViewModel::currentChanged, this, [this] { m_again.reset(); });
    connect(&sessions, &SessionsViewModel::changed, this, [this] {
        if (m_again && m_sessions.current().state() == SessionViewModel::State::Failed) {
            m_again.reset();
            say(QStringLiteral("Session ‘%1’ could not be connected.")
                    .arg(m_sessions.current().title()));
        }
    });
    connect(&plan, &PlanViewModel::predictionChanged, this, &RunsViewModel::changed);
    connect(&sessions, &SessionsViewModel::currentChanged, this, &RunsViewModel::changed);
    connect(&sessions, &SessionsViewModel::changed, this, &RunsViewModel::changed);
}

QString RunsViewModel::whyNot() const {
    if (!m_plan.hasPlan()) return QStringLiteral("There is no plan.");
    if (!m_plan.violations().empty()) return text(m_plan.violations().front().message);
    const SessionViewModel& where = m_sessions.current();
    const QString refused = m_controller.whyNot(m_plan.plan(), where.config());
    if (!refused.isEmpty() || where.session() != nullptr) return refused;
    return QStringLiteral("session ‘%1’ is not connected.").arg(where.title());
}

QString RunsViewModel::targetWorkspace() const {
    return m_workspace.isEmpty() ? m_default_workspace : m_workspace;
}

RunRequest RunsViewModel::requestOf(qint64 steps) const {
    return {m_sessions.current().session(), m_plan.sharedPlan(), steps, {}, targetWorkspace()};
}

void RunsViewModel::start(qint64 steps) {
    if (whyNot().isEmpty()) start(requestOf(steps));
}

void RunsViewModel::start(const RunRequest& request) {
    if (running()) return;
    m_progress = {};
    m_progress.steps = static_cast<int>(request.steps);
    m_loss.clear();
    m_log.clear();
    m_status = request.plan ? QStringLiteral("Starting…") : QStringLiteral("Attaching…");
    m_controller.start(request);
    Q_EMIT changed();
}

void RunsViewModel::preview(qint64 steps) {
    if (running() || !whyNot().isEmpty()) return;
    m_status = QStringLiteral("Asking the host what would be launched…");
    m_controller.preview(requestOf(steps));
    Q_EMIT changed();
}

void RunsViewModel::say(const QString& status) {
    m_status = status;
    Q_EMIT changed();
}

void RunsViewModel::again(const QString& run) {
    const RunSummary* what = m_history.find(run);
    if (running() || what == nullptr) return;
    if (what->plan == nullptr)
        return say(QStringLiteral("Run ‘%1’ keeps no plan that could be run again.").arg(run));
    if (!what->session.isEmpty() && m_sessions.find(what->session) == nullptr)
        return say(QStringLiteral("Run ‘%1’ was in session ‘%2’, which is not there any more: open "
                                  "its plan and choose another session.")
                       .arg(run, what->session));
    const qint64 steps =
        std::max<qint64>(1, what->steps_wanted > 0 ? what->steps_wanted : what->steps);
    const RunRequest request{nullptr, what->plan, steps, {}, targetWorkspace(), what->launcher};
    if (!what->session.isEmpty()) m_sessions.select(what->session);
    m_again = request;
    m_plan.setPlan(*request.plan);
    Q_EMIT stepsWanted(steps);
    previewAgain();
}

/// As soon as the session is there.
void RunsViewModel::previewAgain() {
    if (!m_again || running()) return;
    SessionViewModel& where = m_sessions.current();
    if (where.session() == nullptr) {
        say(QStringLiteral("Connecting session ‘%1’, to run again there…").arg(where.title()));
        if (!where.busy()) where.open();
        return;
    }
    RunRequest request = *std::exchange(m_again, std::nullopt);
    const QString why_not = whyNot();
    if (!why_not.isEmpty()) return say(QStringLiteral("It cannot be run again: ") + why_not);
    request.session = where.session();
    say(QStringLiteral("Asking the host what would be launched…"));
    m_controller.preview(request);
}

void RunsViewModel::keepLabels(const QString& run, const RunLabels& labels) {
    const QString path = m_workspace;
    m_executor.submit(
        QStringLiteral("label:") + path + u'\n' + run, Executor::Lane::Background,
        [=, &library = m_library, this](const Executor::Context&) -> Executor::OnWindow {
            return [status = library.label(path, run, labels), path, this] {
                if (status.ok()) return;
                Q_EMIT failed(errorText(status.error()));
                followFile(path);  // shows what the file holds
            };
        });
}

void RunsViewModel::attach(const QString& job_directory) {
    const std::shared_ptr<Session> session = m_sessions.current().session();
    if (session == nullptr) return;
    if (running()) m_controller.detach();
    start({session, nullptr, 0, job_directory, targetWorkspace()});
}

void RunsViewModel::cancel() {
    if (!running()) return;
    m_status = QStringLiteral("Cancelling: waiting for every rank to end…");
    m_controller.cancel();
    Q_EMIT changed();
}

void RunsViewModel::detach() {
    if (!running()) return;
    m_controller.detach();
    m_status = QStringLiteral("Detached: the ranks run on without this window.");
    Q_EMIT changed();
}

void RunsViewModel::onProgress(const RunProgress& progress) {
    const bool new_step = progress.step > m_progress.step;
    m_progress = progress;
    if (new_step && std::isfinite(progress.loss)) m_loss.emplace_back(progress.step, progress.loss);
    m_status = progress.step == 0
                   ? progress.message
                   : QStringLiteral("Step %1 of %2").arg(progress.step).arg(progress.steps);
    Q_EMIT changed();
}

RunCurves RunsViewModel::curves(const QString& chosen) const {
    if (running() || (chosen.isEmpty() && !m_loss.empty()))
        return {{},
                m_loss,
                static_cast<double>(m_progress.steps),
                m_progress.load,
                m_progress.rank_peak_bytes};
    const RunSummary* shown = m_history.find(chosen);
    for (const RunSummary& run : m_history.runs())
        if (chosen.isEmpty() && !run.losses.empty()) shown = &run;
    if (shown == nullptr) return {};
    return {shown->name, shown->losses, static_cast<double>(shown->steps), shown->load,
            shown->rank_peak_bytes};
}

QString RunsViewModel::status() const {
    QString out = m_status;
    for (const auto& [run, how_far] : m_coming)
        out += QStringLiteral(" The events of run ‘%1’ come: %2.").arg(run.second, how_far);
    return out;
}

void RunsViewModel::onFinished(const RunEnd& end) {
    m_status = endText(end);
    Q_EMIT changed();
    m_pending = end;
    if (end.workspace.isEmpty())
        endPending({});
    else
        openWorkspace(end.workspace);
}

void RunsViewModel::onCompleted(const RunEnd& end) {
    m_coming.erase({end.workspace, end.run});
    if (!end.reason.isEmpty()) {
        const QString fault =
            QStringLiteral("The events of run ‘%1’ did not come: %2").arg(end.run, end.reason);
        if (!running()) m_status += QStringLiteral(" ") + fault;
        Q_EMIT failed(fault);
    }
    Q_EMIT changed();
    followFile(end.workspace);
}

/// The window learns of the run's end once its file is read, or turned out not to be.
void RunsViewModel::endPending(const QString& workspace) {
    if (!m_pending) return;
    const RunEnd end = *std::exchange(m_pending, std::nullopt);
    Q_EMIT runEnded(end.workspace == workspace ? end.run : QString());
}

void RunsViewModel::followFile(const QString& path) {
    if (m_wanted.isEmpty() || m_wanted == path) openWorkspace(path);
}

void RunsViewModel::openWorkspace(const QString& path, std::function<void()> then) {
    m_wanted = path;
    m_executor.submit(QStringLiteral("open-workspace"), Executor::Lane::Background,
                      [path, then = std::move(then), &library = m_library,
                       this](const Executor::Context&) -> Executor::OnWindow {
                          auto runs =
                              std::make_shared<Result<std::vector<RunSummary>>>(library.list(path));
                          return [path, then, runs, this] {
                              if (!runs->ok()) {
                                  m_wanted = m_workspace;
                                  Q_EMIT failed(errorText(runs->error()));
                                  endPending({});
                                  return;
                              }
                              m_workspace = path;
                              m_history.setRuns(std::move(*runs).value());
                              Q_EMIT historyChanged();
                              if (then) then();
                              endPending(path);
                          };
                      });
}

}  // namespace piper::ui
