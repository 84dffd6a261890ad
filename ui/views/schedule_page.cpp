// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/schedule_page.h"

#include <QEvent>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {

SchedulePage::SchedulePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Schedule"));
    m_line = new TextLine(TextLine::Look::Faint, this);
    page->addWidget(m_line);
    page->addWidget(makePhaseLegend(this));
    m_canvas = new TimelineCanvas(workbench.executor, workbench.timeline_keys,
                                  QStringLiteral("schedule-canvas"), this);
    m_canvas->setDark(isDark(palette()));
    page->addWidget(m_canvas, 1);
    connect(&workbench.schedule, &ScheduleViewModel::changed, this, &SchedulePage::take);
    connect(&workbench.plan, &PlanViewModel::planChanged, this, [this] {
        if (isVisible()) m_workbench.schedule.refresh();
    });
    connect(&workbench.timeline_keys, &TimelineKeys::changed, this, &SchedulePage::sayPlan);
    take();
}

void SchedulePage::showEvent(QShowEvent* event) {
    QWidget::showEvent(event);
    m_workbench.schedule.refresh();
}

void SchedulePage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) m_canvas->setDark(isDark(palette()));
}

void SchedulePage::take() {
    const ScheduleViewModel& schedule = m_workbench.schedule;
    if (schedule.shown().empty()) {
        m_canvas->setPanes({});
        m_line->setText(schedule.fault().isEmpty() ? QStringLiteral("Simulating the schedule…")
                                                   : schedule.fault());
        return;
    }
    const QString title = QStringLiteral("modelled · %1 · one rank a stage")
                              .arg(text(toText(m_workbench.plan.plan().schedule)));
    m_canvas->setPanes({{title, schedule.shown().timeline, 0}});
    sayPlan();
}

void SchedulePage::sayPlan() {
    const ScheduleViewModel& schedule = m_workbench.schedule;
    if (schedule.shown().empty()) return;
    const Plan& plan = m_workbench.plan.plan();
    m_line->setText(QStringLiteral("%1 · %2 micro-batches · %3 operations. %4")
                        .arg(layoutText(plan))
                        .arg(plan.numMicroBatches())
                        .arg(countText(static_cast<double>(schedule.shown().numEvents())),
                             m_workbench.timeline_keys.hint()));
}

}  // namespace piper::ui
