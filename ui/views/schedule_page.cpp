// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/schedule_page.h"

#include <QComboBox>
#include <QEvent>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include "ui/models/plan_choices.h"
#include "ui/models/text_format.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

/// "modelled · zb_h1 · step 132 ms · one rank a stage"
QString scheduleTitle(const ShownRun& run) {
    const Result<Plan> plan = readPlanText(run.run->plan_json, "plan");
    const std::int64_t step = run.timeline->steps().front().length();
    return QStringLiteral("modelled · %1 · step %2 · one rank a stage")
        .arg(plan.ok() ? text(toText(plan->schedule)) : QString(), nanosecondsText(step));
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
    m_beside->addItem(QStringLiteral("nothing"));
    listSchedules();
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
    listSchedules();
    const ScheduleViewModel& schedule = m_workbench.schedule;
    if (schedule.shown().empty()) {
        m_canvas->setPanes({});
        m_line->setText(schedule.fault().isEmpty() ? QStringLiteral("Simulating the schedule…")
                                                   : schedule.fault());
        return;
    }
    std::vector<TimelinePane> panes;
    for (const ShownRun* run : {&schedule.shown(), &schedule.other()})
        if (!run->empty()) panes.push_back({scheduleTitle(*run), run->timeline, 0});
    m_canvas->setPanes(std::move(panes));
    sayPlan();
}

/// What can be beside it: every schedule, the refused ones too, which say why.
void SchedulePage::listSchedules() {
    if (m_beside->count() > 1 || !m_workbench.plan.hasPlan()) return;
    const auto options = choiceOptions(m_workbench.plan.plan(), Choice::Schedule);
    for (std::size_t i = 0; i < options.size(); ++i)
        m_beside->addItem(text(options[i].label), QVariant::fromValue(i));
}

void SchedulePage::sayPlan() {
    const ScheduleViewModel& schedule = m_workbench.schedule;
    if (schedule.shown().empty()) return;
    if (!schedule.otherFault().isEmpty()) {
        m_line->setText(QStringLiteral("Beside it: %1").arg(schedule.otherFault()));
        return;
    }
    const Plan& plan = m_workbench.plan.plan();
    m_line->setText(QStringLiteral("%1 · %2 micro-batches · %3 operations. %4")
                        .arg(layoutText(plan))
                        .arg(plan.numMicroBatches())
                        .arg(countText(static_cast<double>(schedule.shown().numEvents())),
                             m_workbench.timeline_keys.hint()));
}

}  // namespace piper::ui
