// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include "ui/models/plan_view_model.h"
#include "ui/models/roofline_model.h"

namespace piper::ui {

/// The roofline of the current plan, made on the executor.
class RooflineViewModel : public QObject {
    Q_OBJECT
public:
    RooflineViewModel(Executor& executor, PlanViewModel& plan, QObject* parent = nullptr);

    /// Empty for a plan that breaks a rule.
    [[nodiscard]] RooflineModel& table() { return m_table; }
    /// Makes it anew when the plan moved on since the last time.
    void refresh();

Q_SIGNALS:
    void failed(const QString& message);

private:
    Executor& m_executor;
    PlanViewModel& m_plan;
    RooflineModel m_table;
    std::uint64_t m_revision = 0;
};

}  // namespace piper::ui
