// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/runs_view_model.h"

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

RunsViewModel::RunsViewModel(Executor& executor, const RunLibrary& library,
                             RunController& controller, PlanViewModel& plan, QObject* parent)
    : QObject(parent),
      m_executor(executor),
      m_library(library),
      m_controller(controller),
      m_plan(plan),
      m_status(QStringLiteral("Nothing is running.")) {
    connect(&controller, &RunController::progressed, this, &RunsViewModel::onProgress);
    connect(&controller, &RunController::finished, this, &RunsViewModel::onFinished);
    connect(&controller, &RunController::logged, this, [this](const QString& lines) {
        m_log += lines;
        if (m_log.size() > kLogLimit) m_log = m_log.right(kLogLimit / 2);
        Q_EMIT changed();
    });
    connect(&plan, &PlanViewModel::predictionChanged, this, &RunsViewModel::changed);
}

QString RunsViewModel::whyNot() const {
    if (!m_plan.hasPlan()) return QStringLiteral("There is no plan.");
    if (!m_plan.violations().empty()) return text(m_plan.violations().front().message);
    return m_controller.whyNot(m_plan.plan());
}

void RunsViewModel::start(qint64 steps) {
    if (running() || !whyNot().isEmpty()) return;
    m_progress = {};
    m_progress.steps = static_cast<int>(steps);
    m_loss.clear();
    m_log.clear();
    m_status = QStringLiteral("Starting…");
    m_controller.start({m_plan.sharedPlan(), steps});
    Q_EMIT changed();
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

void RunsViewModel::onFinished(const RunEnd& end) {
    m_status = endText(end);
    m_pending_run = end.run;
    Q_EMIT changed();
    if (end.workspace.isEmpty())
        Q_EMIT runEnded({});
    else
        openWorkspace(end.workspace);
}

void RunsViewModel::openWorkspace(const QString& path) {
    m_executor.submit(
        QStringLiteral("open-workspace"), Executor::Lane::Background,
        [path, &library = m_library, this](const Executor::Context&) -> Executor::OnWindow {
            auto runs = std::make_shared<Result<std::vector<RunSummary>>>(library.list(path));
            return [path, runs, this] {
                if (!runs->ok()) {
                    Q_EMIT failed(errorText(runs->error()));
                    return;
                }
                m_workspace = path;
                m_history.setRuns(std::move(*runs).value());
                Q_EMIT historyChanged();
                if (!m_pending_run.isEmpty()) Q_EMIT runEnded(std::exchange(m_pending_run, {}));
            };
        });
}

}  // namespace piper::ui
