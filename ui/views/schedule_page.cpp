// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/schedule_page.h"

#include <QComboBox>
#include <QEvent>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

/// "modelled · zb_h1 · step 132 ms · one rank a stage"
QString scheduleTitle(const ShownSchedule& schedule) {
    return QStringLiteral("modelled · %1 · step %2 · one rank a stage")
        .arg(text(toText(schedule.kind)),
             nanosecondsText(schedule.run.timeline->steps().front().length()));
}

}  // namespace

SchedulePage::SchedulePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Schedule"));
    m_line = new TextLine(TextLine::Look::Faint, this);
    auto* head = new QHBoxLayout;
    head->setSpacing(kSpacing);
    head->addWidget(m_line, 1);
    head->addWidget(new QLabel(QStringLiteral("Beside"), this));
    m_beside = new QComboBox(this);
    m_beside->setObjectName(QStringLiteral("schedule.beside"));
    m_beside->setAccessibleName(QStringLiteral("Schedule to compare with"));
    m_beside->setToolTip(QStringLiteral("The same plan under another schedule, below this one"));
    head->addWidget(m_beside);
    page->addLayout(head);
    page->addWidget(makePhaseLegend(this));
    m_canvas = new TimelineCanvas(workbench.executor, workbench.timeline_keys,
                                  QStringLiteral("schedule-canvas"), this);
    m_canvas->setDark(isDark(palette()));
    page->addWidget(m_canvas, 1);
    connect(&workbench.schedule, &ScheduleViewModel::changed, this, &SchedulePage::take);
    connect(&workbench.plan, &PlanViewModel::planChanged, this, [this] {
        if (isVisible()) m_workbench.schedule.refresh();
    });
    connect(m_beside, &QComboBox::activated, this, [this] {
        const QVariant option = m_beside->currentData();
        m_workbench.schedule.setBeside(option.isValid() ? std::optional(option.value<std::size_t>())
                                                        : std::nullopt);
    });
    // Also those that the plan's framework refuses, which say why.
    m_beside->addItem(QStringLiteral("nothing"));
    for (const ScheduleKind kind : generatedSchedules())
        m_beside->addItem(text(toText(kind)),
                          QVariant::fromValue(static_cast<std::size_t>(m_beside->count() - 1)));
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
    if (schedule.own().run.empty()) {
        m_canvas->setPanes({});
        m_line->setText(schedule.own().fault.isEmpty() ? QStringLiteral("Simulating the schedule…")
                                                       : schedule.own().fault);
        return;
    }
    std::vector<TimelinePane> panes;
    for (const ShownSchedule* shown : {&schedule.own(), &schedule.other()})
        if (!shown->run.empty()) panes.push_back({scheduleTitle(*shown), shown->run.timeline, 0});
    m_canvas->setPanes(std::move(panes));
    sayPlan();
}

void SchedulePage::sayPlan() {
    const ScheduleViewModel& schedule = m_workbench.schedule;
    if (schedule.own().run.empty()) return;
    if (!schedule.other().fault.isEmpty()) {
        m_line->setText(QStringLiteral("Beside it: %1").arg(schedule.other().fault));
        return;
    }
    const Plan& plan = m_workbench.plan.plan();
    m_line->setText(QStringLiteral("%1 · %2 micro-batches · %3 operations. %4")
                        .arg(layoutText(plan))
                        .arg(plan.numMicroBatches())
                        .arg(countText(static_cast<double>(schedule.own().run.numEvents())),
                             m_workbench.timeline_keys.hint()));
}

}  // namespace piper::ui
