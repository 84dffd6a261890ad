// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QPointF>
#include <QString>
#include <memory>
#include <vector>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "core/run/expert_load.h"
#include "core/run/run.h"
#include "core/run/run_labels.h"
#include "core/run/timeline.h"
#include "sessions/session.h"

namespace piper::ui {

/// A plan to launch, or a job to take up again.
struct RunRequest {
    std::shared_ptr<Session> session;
    std::shared_ptr<const Plan> plan;  ///< null: the job of `job_directory` runs already
    qint64 steps = 20;
    QString job_directory;  ///< on the session's host; empty: a new one
    QString workspace;      ///< file the run is collected into
    QString launcher = {};  ///< empty: that of the session
};

/// What would be launched; `request` launches exactly that.
struct RunPreview {
    LaunchPreview launch;
    RunRequest request;
    QString fault;  ///< why there is no preview, empty when there is
};

/// What is known of a run while it goes on.
struct RunProgress {
    int step = 0;
    int steps = 0;
    double loss = 0.0;  ///< NaN before the first step
    double tokens_per_second = 0.0;
    QString message;                            ///< "starting 4 ranks", the place in a queue
    ExpertLoadSummary load;                     ///< of the last step; empty without experts
    std::vector<std::int64_t> rank_peak_bytes;  ///< most each rank held so far
};

struct RunEnd {
    RunOutcome outcome = RunOutcome::Finished;
    QString workspace;  ///< path of the workspace file that holds what was recorded
    QString run;        ///< its name there
    QString reason;     ///< why it failed, in one sentence
};

/// Starts the plan's ranks through a session, or takes up a job that runs, and reports;
/// implemented over sessions in the program. Calls return at once; signals come on the window's
/// thread. One run is watched at a time; the events of those that have finished come side by side
/// with it.
class RunController : public QObject {
    Q_OBJECT
public:
    using QObject::QObject;
    ~RunController() override = default;

    /// Why this plan cannot be launched there, empty when it can. Asks no host.
    [[nodiscard]] virtual QString whyNot(const Plan& plan, const SessionConfig& where) const = 0;
    [[nodiscard]] virtual bool running() const = 0;
    virtual void start(const RunRequest& request) = 0;
    /// previewed() follows; nothing is started.
    virtual void preview(const RunRequest& request) = 0;
    /// Ends every rank; what was recorded is collected and finished() follows.
    virtual void cancel() = 0;
    /// Leaves the ranks running and stops watching; the job directory is kept for `attach`.
    virtual void detach() = 0;

Q_SIGNALS:
    void progressed(const piper::ui::RunProgress& progress);
    void logged(const QString& lines);
    void previewed(const piper::ui::RunPreview& preview);
    /// The run is in its workspace file; where it ran on another host, most of its events may still
    /// be coming: then fetching() and completed() follow.
    void finished(const piper::ui::RunEnd& end);
    /// Of a run that has finished: how much of its events is here, "40 %". completed() ends it.
    void fetching(const piper::ui::RunEnd& end, const QString& how_far);
    /// The workspace file holds all of it now, or `reason` says why not.
    void completed(const piper::ui::RunEnd& end);
};

/// One row of a workspace file's history.
struct RunSummary {
    QString name;  ///< unique in the file
    RunKind kind = RunKind::Measured;
    RunOutcome outcome = RunOutcome::Finished;
    QString outcome_reason;
    QString started_at;
    QString layout;
    qint64 ranks = 0;
    qint64 steps = 0;
    double step_seconds = 0.0;    ///< median, 0 unknown
    double last_loss = 0.0;       ///< NaN unknown
    std::vector<QPointF> losses;  ///< step, loss; empty unknown
    ExpertLoadSummary load;       ///< of the last step; empty unknown
    std::vector<std::int64_t> rank_peak_bytes;
    RunLabels labels;
    // Of its launch, as far as the run says.
    std::shared_ptr<const Plan> plan;
    QString session, launcher;
    qint64 steps_wanted = 0;
};

/// Workspace files; implemented over collectors/store in the program. Calls block and are made on
/// the executor only.
class RunLibrary {
public:
    virtual ~RunLibrary() = default;
    [[nodiscard]] virtual Result<std::vector<RunSummary>> list(const QString& workspace) const = 0;
    /// With all of its events.
    [[nodiscard]] virtual Result<Run> load(const QString& workspace, const QString& run) const = 0;
    /// Reads the file for as long as it lives, and of its events only what is asked for.
    [[nodiscard]] virtual Result<std::shared_ptr<TimelineSource>> timeline(
        const QString& workspace, const QString& run) const = 0;
    /// Puts note and tags in the place of those the run has.
    [[nodiscard]] virtual Status label(const QString& workspace, const QString& run,
                                       const RunLabels& labels) const = 0;
};

}  // namespace piper::ui
