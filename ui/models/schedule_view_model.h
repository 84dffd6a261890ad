// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <optional>

#include "ui/models/pair_view_model.h"

namespace piper::ui {

/// A schedule as it is modelled.
struct ShownSchedule {
    ScheduleKind kind = ScheduleKind::OneF1B;
    ShownRun run;   ///< empty where `fault` says why
    QString fault;  ///< empty without one
};

/// The modelled schedule of the current plan, one rank a stage, made on the executor; beside it, if
/// wanted, the same plan under another schedule.
class ScheduleViewModel : public QObject {
    Q_OBJECT
public:
    ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent = nullptr);

    [[nodiscard]] const ShownSchedule& own() const { return m_own; }
    /// Neither a run nor a fault where none is wanted.
    [[nodiscard]] const ShownSchedule& other() const { return m_other; }
    /// An option of Choice::Schedule.
    void setBeside(std::optional<std::size_t> option);
    /// Makes both anew when the plan moved on since the last time.
    void refresh();

Q_SIGNALS:
    void changed();

private:
    void make(const QString& topic, Plan plan, ShownSchedule& into);
    void makeOther();

    Executor& m_executor;
    PlanViewModel& m_plan;
    ShownSchedule m_own, m_other;
    std::optional<std::size_t> m_beside;
    std::uint64_t m_revision = 0;
};

}  // namespace piper::ui
