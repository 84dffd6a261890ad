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

/// What the page draws of one run.
struct RunCurves {
    QString of;                 ///< name of a run of the history, empty for the live one
    std::vector<QPointF> loss;  ///< step, loss
    double steps = 0.0;         ///< the loss goes up to there
    ExpertLoadSummary load;     ///< of the last step; empty without experts
    std::vector<std::int64_t> rank_peak_bytes;

    /// "Tokens by expert, last step: hottest expert 1.42 times the mean"; empty without one.
    [[nodiscard]] QString loadTitle() const;
    /// "Memory of each rank, the most so far: up to 163 MiB on rank 1"; empty without any.
    [[nodiscard]] QString memoryTitle() const;
    /// Everything as text.
    [[nodiscard]] QString dump() const;
};

/// The run that goes on and the history of the open workspace file.
class RunsViewModel : public QObject {
    Q_OBJECT
public:
    RunsViewModel(Executor& executor, const RunLibrary& library, RunController& controller,
                  PlanViewModel& plan, SessionsViewModel& sessions, QObject* parent = nullptr);

    [[nodiscard]] RunHistoryModel& history() { return m_history; }
    [[nodiscard]] const RunHistoryModel& history() const { return m_history; }
    [[nodiscard]] const QString& workspace() const { return m_workspace; }
    [[nodiscard]] bool running() const { return m_controller.running(); }
    /// Why the current plan cannot be launched in the chosen session; empty when
    /// it can.
    [[nodiscard]] QString whyNot() const;
    [[nodiscard]] const RunProgress& progress() const { return m_progress; }
    [[nodiscard]] const std::vector<QPointF>& loss() const { return m_loss; }
    /// Of a run that goes on, else of the one chosen in the history, else of the one that went on
    /// last, else of the last in the history with a loss.
    [[nodiscard]] RunCurves curves(const QString& chosen) const;
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
    /// Takes up plan, session, launcher and steps of a run of the history and asks what would be
    /// launched, once that session is connected; previewed() follows.
    void again(const QString& run);
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
    void stepsWanted(qint64 steps);  ///< of a run that is launched again
    void previewed(const piper::ui::RunPreview& preview);

private:
    [[nodiscard]] RunRequest requestOf(qint64 steps) const;
    void onProgress(const RunProgress& progress);
    void onFinished(const RunEnd& end);
    void onCompleted(const RunEnd& end);
    void endPending(const QString& workspace);
    void previewAgain();
    void say(const QString& status);
    void keepLabels(const QString& run, const RunLabels& labels);

    Executor& m_executor;
    const RunLibrary& m_library;
    RunController& m_controller;
    PlanViewModel& m_plan;
    SessionsViewModel& m_sessions;
    RunHistoryModel m_history;
    QString m_workspace, m_default_workspace;
    QString m_wanted;                   ///< the file opened last, also while it is being read
    std::optional<RunEnd> m_pending;    ///< ended, its file is not read yet
    std::optional<RunRequest> m_again;  ///< waits for its session
    /// [workspace, run] of those that have finished: how much is here.
    std::map<std::pair<QString, QString>, QString> m_coming;
    RunProgress m_progress;
    std::vector<QPointF> m_loss;
    QString m_log;
    QString m_status;
};

}  // namespace piper::ui
