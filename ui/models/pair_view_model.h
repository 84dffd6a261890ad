// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <memory>

#include "core/run/statistics.h"
#include "core/run/timeline.h"
#include "ui/models/executor.h"
#include "ui/models/plan_view_model.h"
#include "ui/models/run_controller.h"

namespace piper::ui {

/// A run with what the views need of it. Its timeline is read on the executor's interactive lane.
struct ShownRun {
    std::shared_ptr<const Run> run;  ///< without events where it came from a file
    std::shared_ptr<TimelineSource> timeline;
    [[nodiscard]] bool empty() const { return run == nullptr; }
    [[nodiscard]] std::int64_t numEvents() const;
    /// "Measured · run 3"; a run that is named after its kind says it once.
    [[nodiscard]] QString label() const;
};

/// Two runs beside each other.
struct ComparedRuns {
    std::shared_ptr<const Comparison> comparison;  ///< null where there are not two
    double num_ranks = 1.0;                        ///< at least so many in both; at least 1
    QString a = QStringLiteral("A"), b = QStringLiteral("B");
};

/// The two runs of the timeline and compare pages, A above B. A is the modelled run of B's own plan
/// unless another is chosen; without a measured run A is the model of the current plan.
class PairViewModel : public QObject {
    Q_OBJECT
public:
    PairViewModel(Executor& executor, const RunLibrary& library, PlanViewModel& plan,
                  QObject* parent = nullptr);

    [[nodiscard]] const ShownRun& first() const { return m_first; }
    [[nodiscard]] const ShownRun& second() const { return m_second; }
    /// Null unless both runs are there.
    [[nodiscard]] const Comparison* comparison() const { return m_comparison.get(); }
    [[nodiscard]] ComparedRuns compared() const;
    [[nodiscard]] const QString& status() const { return m_status; }

    /// Names of runs in the workspace; an empty `a` takes the model of b's plan, an empty `b`
    /// shows the current plan's model alone.
    void select(const QString& workspace, const QString& a, const QString& b);

    /// The file was written to: a run shown without its events, which may be there now, is read
    /// again.
    void followFile(const QString& workspace);

    /// Without a measured run: models the current plan when it moved on since the last time.
    void followPlan();

Q_SIGNALS:
    void changed();

private:
    struct Loaded;
    static void compare(const RunLibrary& library, const QString& workspace, const QString& a,
                        const QString& b, Loaded& out);
    void accept(Loaded loaded);

    Executor& m_executor;
    const RunLibrary& m_library;
    PlanViewModel& m_plan;
    ShownRun m_first;
    ShownRun m_second;
    std::shared_ptr<const Comparison> m_comparison;
    bool m_has_second = false;                ///< a second run was asked for
    QString m_workspace, m_name_a, m_name_b;  ///< what was asked for last
    std::uint64_t m_plan_revision = 0;
    QString m_status;
};

/// The model of a plan as a run with its timeline, for the executor.
[[nodiscard]] Result<ShownRun> modelledRun(const Plan& plan, bool every_rank);
[[nodiscard]] ShownRun shownRun(Run run);

}  // namespace piper::ui
