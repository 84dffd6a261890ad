// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QPointF>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ui/models/executor.h"
#include "ui/models/plan_view_model.h"
#include "ui/models/run_controller.h"
#include "ui/models/run_history_model.h"
#include "ui/models/sessions_view_model.h"

namespace piper::ui {

/// The run that goes on and the history of the open workspace file.
class RunsViewModel : public QObject {
    Q_OBJECT
public:
    RunsViewModel(Executor& executor, const RunLibrary& library, RunController& controller,
                  PlanViewModel& plan, SessionsViewModel& sessions, QObject* parent = nullptr);

    [[nodiscard]] RunHistoryModel& history() { return m_history; }
    [[nodiscard]] const QString& workspace() const { return m_workspace; }
    [[nodiscard]] bool running() const { return m_controller.running(); }
    /// Why the current plan cannot be launched in the chosen session; empty when
    /// it can.
    [[nodiscard]] QString whyNot() const;
    [[nodiscard]] const RunProgress& progress() const { return m_progress; }
    [[nodiscard]] const std::vector<QPointF>& loss() const { return m_loss; }
    [[nodiscard]] const QString& log() const { return m_log; }
    /// One sentence on the state of the last or current run, and one on what still comes of others.
    [[nodiscard]] QString status() const;

    /// The file that runs are collected into while none is open.
    void setDefaultWorkspace(const QString& path) { m_default_workspace = path; }
    /// The open file, else the default one.
    [[nodiscard]] QString targetWorkspace() const;

    void start(qint64 steps);
    /// previewed() follows.
    void preview(qint64 steps);
    /// Launches what was previewed.
    void start(const RunRequest& request);
    /// Watches a job of the chosen session, which runs on; what is watched now is
    /// left running.
    void attach(const QString& job_directory);
    void cancel();
    void detach();
    /// Reads the history of a workspace file on the executor, then does `then`; failed() when it
    /// cannot.
    void openWorkspace(const QString& path, std::function<void()> then = {});
    /// The file was written to: its history is read again, unless another one is open by now.
    void followFile(const QString& path);

Q_SIGNALS:
    void changed();         ///< progress, status, log
    void historyChanged();  ///< another file, or a run was added
    /// A run ended and its workspace is open: its name there, empty when nothing was recorded.
    void runEnded(const QString& run);
    void failed(const QString& message);
    void previewed(const piper::ui::RunPreview& preview);

private:
    [[nodiscard]] RunRequest requestOf(qint64 steps) const;
    void onProgress(const RunProgress& progress);
    void onFinished(const RunEnd& end);
    void onCompleted(const RunEnd& end);
    void endPending(const QString& workspace);

    Executor& m_executor;
    const RunLibrary& m_library;
    RunController& m_controller;
    PlanViewModel& m_plan;
    SessionsViewModel& m_sessions;
    RunHistoryModel m_history;
    QString m_workspace, m_default_workspace;
    QString m_wanted;                     ///< the file opened last, also while it is being read
    std::optional<RunEnd> m_pending;      ///< ended, its file is not read yet
    std::map<QString, QString> m_coming;  ///< of runs that have finished: how much is here
    RunProgress m_progress;
    std::vector<QPointF> m_loss;
    QString m_log;
    QString m_status;
};

}  // namespace piper::ui
