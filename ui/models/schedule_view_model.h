// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <optional>

#include "ui/models/pair_view_model.h"

namespace piper::ui {

/// The modelled schedule of the current plan, one rank a stage, made on the executor; beside it, if
/// wanted, the same plan under another schedule.
class ScheduleViewModel : public QObject {
    Q_OBJECT
public:
    ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent = nullptr);

    [[nodiscard]] const ShownRun& shown() const { return m_shown; }
    [[nodiscard]] const QString& fault() const { return m_fault; }
    /// Of the other schedule; empty without one, or where otherFault() says why not.
    [[nodiscard]] const ShownRun& other() const { return m_other; }
    [[nodiscard]] const QString& otherFault() const { return m_other_fault; }
    [[nodiscard]] std::optional<std::size_t> beside() const { return m_beside; }
    /// An option of Choice::Schedule.
    void setBeside(std::optional<std::size_t> option);
    /// Makes it anew when the plan moved on since the last time.
    void refresh();

Q_SIGNALS:
    void changed();

private:
    Executor& m_executor;
    PlanViewModel& m_plan;
    ShownRun m_shown;
    QString m_fault;
    std::optional<std::size_t> m_beside;
    ShownRun m_other;
    QString m_other_fault;
    std::uint64_t m_revision = 0;
};

}  // namespace piper::ui
