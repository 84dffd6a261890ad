// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/roofline_view_model.h"

#include "ui/models/text_format.h"

namespace piper::ui {

RooflineViewModel::RooflineViewModel(Executor& executor, PlanViewModel& plan, QObject* parent)
    : QObject(parent), m_executor(executor), m_plan(plan) {}

void RooflineViewModel::refresh() {
    if (m_plan.revision() == m_revision) return;
    m_revision = m_plan.revision();
    const QString topic = QStringLiteral("roofline");
    if (!m_plan.hasPlan() || !m_plan.violations().empty()) {
        m_executor.cancel(topic);
        m_table.setRoofline({});
        return;
    }
    m_executor.submit(
        topic, Executor::Lane::Background,
        [plan = m_plan.sharedPlan(), this](const Executor::Context&) -> Executor::OnWindow {
            const auto found = std::make_shared<Result<Roofline>>(roofline(*plan));
            return [found, this] {
                if (!found->ok()) Q_EMIT failed(errorText(found->error()));
                m_table.setRoofline(found->ok() ? std::move(*found).value() : Roofline{});
            };
        });
}

}  // namespace piper::ui
