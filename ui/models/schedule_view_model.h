// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include "ui/models/pair_view_model.h"

namespace piper::ui {

/// The modelled schedule of the current plan, one rank a stage, made on the executor.
class ScheduleViewModel : public QObject {
    Q_OBJECT
public:
    ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent = nullptr);

    [[nodiscard]] const ShownRun& shown() const { return m_shown; }
    [[nodiscard]] const QString& fault() const { return m_fault; }
    /// Makes it anew when the plan moved on since the last time.
    void refresh();

Q_SIGNALS:
    void changed();

private:
    Executor& m_executor;
    PlanViewModel& m_plan;
    ShownRun m_shown;
    QString m_fault;
    std::uint64_t m_revision = 0;
};

}  // namespace piper::ui
