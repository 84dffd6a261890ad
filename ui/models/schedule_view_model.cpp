// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/schedule_view_model.h"

#include "ui/models/plan_choices.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

struct Made {
    ShownRun run;
    QString fault;
};

Made make(const Plan& plan) {
    Result<ShownRun> run = modelledRun(plan, false);
    if (!run.ok()) return {{}, errorText(run.error())};
    return {std::move(run).value(), {}};
}

}  // namespace

ScheduleViewModel::ScheduleViewModel(Executor& executor, PlanViewModel& plan, QObject* parent)
    : QObject(parent), m_executor(executor), m_plan(plan) {}

void ScheduleViewModel::setBeside(std::optional<std::size_t> option) {
    if (option == m_beside) return;
    m_beside = option;
    m_revision = 0;
    refresh();
}

void ScheduleViewModel::refresh() {
    if (!m_plan.hasPlan() || m_plan.revision() == m_revision) return;
    m_revision = m_plan.revision();
    m_executor.submit(QStringLiteral("schedule"), Executor::Lane::Background,
                      [plan = m_plan.sharedPlan(), beside = m_beside,
                       this](const Executor::Context&) -> Executor::OnWindow {
                          auto made = std::make_shared<Made>(make(*plan));
                          auto other = std::make_shared<Made>();
                          if (beside) *other = make(withChoice(*plan, Choice::Schedule, *beside));
                          return [made, other, this] {
                              m_fault = made->fault;
                              m_shown = std::move(made->run);
                              m_other_fault = other->fault;
                              m_other = std::move(other->run);
                              Q_EMIT changed();
                          };
                      });
}

}  // namespace piper::ui
