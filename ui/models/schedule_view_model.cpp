// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/schedule_view_model.h"

#include "ui/models/text_format.h"

namespace piper::ui {

ScheduleViewModel::ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent)
    : QObject(parent), m_executor(executor), m_plan(plan) {}

void ScheduleViewModel::refresh() {
    if (!m_plan.hasPlan() || m_plan.revision() == m_revision) return;
    m_revision = m_plan.revision();
    m_executor.submit(
        QStringLiteral("schedule"), Executor::Lane::Background,
        [plan = m_plan.sharedPlan(), this](const Executor::Context&) -> Executor::OnWindow {
            auto made = std::make_shared<Result<ShownRun>>(modelledRun(*plan, false));
            return [made, this] {
                m_fault = made->ok() ? QString() : errorText(made->error());
                m_shown = made->ok() ? std::move(*made).value() : ShownRun{};
                Q_EMIT changed();
            };
        });
}

}  // namespace piper::ui
