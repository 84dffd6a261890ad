// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/schedule_view_model.h"

#include "ui/models/plan_choices.h"
#include "ui/models/text_format.h"

namespace piper::ui {

ScheduleViewModel::ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent)
    : QObject(parent), m_executor(executor), m_plan(plan) {}

void ScheduleViewModel::setBeside(std::optional<std::size_t> option) {
    if (option == m_beside) return;
    m_beside = option;
    makeOther();
}

void ScheduleViewModel::refresh() {
    if (!m_plan.hasPlan() || m_plan.revision() == m_revision) return;
    m_revision = m_plan.revision();
    make(QStringLiteral("schedule"), m_plan.plan(), m_own);
    makeOther();
}

void ScheduleViewModel::makeOther() {
    const auto topic = QStringLiteral("schedule beside");
    if (m_beside && m_plan.hasPlan())
        return make(topic, withChoice(m_plan.plan(), Choice::Schedule, *m_beside), m_other);
    m_executor.cancel(topic);
    m_other = {};
    Q_EMIT changed();
}

void ScheduleViewModel::make(const QString& topic, Plan plan, ShownSchedule& into) {
    m_executor.submit(
        topic, Executor::Lane::Background,
        [plan = std::move(plan), &into, this](const Executor::Context&) -> Executor::OnWindow {
            auto made = std::make_shared<ShownSchedule>();
            made->kind = plan.schedule;
            Result<ShownRun> run = modelledRun(plan, false);
            if (run.ok())
                made->run = std::move(run).value();
            else
                made->fault = errorText(run.error());
            return [made, &into, this] {
                into = std::move(*made);
                Q_EMIT changed();
            };
        });
}

}  // namespace piper::ui
