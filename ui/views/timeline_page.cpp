// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/timeline_page.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

QString paneTitle(const ShownRun& shown) {
    const bool modelled = shown.run->kind == RunKind::Modelled;
    const QString kind = modelled ? QStringLiteral("modelled") : QStringLiteral("measured");
    const QString name = text(shown.run->name);
    return QStringLiteral("%1%2 · %3 ranks · %4 operations")
        .arg(kind, name.isEmpty() || name == kind ? QString() : QStringLiteral(" · ") + name)
        .arg(shown.run->ranks.size())
        .arg(countText(static_cast<double>(shown.timeline->numEvents())));
}

}  // namespace

TimelinePage::TimelinePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_workbench(workbench),
      m_line(makeLabel({}, "faint", this)),
      m_step(new QSpinBox(this)),
      m_canvas(new TimelineCanvas(this)),
      m_pinned(makeLabel({}, "faint", this)) {
    auto* page = makePageLayout(this, QStringLiteral("Timeline"));
    auto* bar = new QHBoxLayout;
    m_line->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    bar->addWidget(m_line, 1);
    bar->addWidget(new QLabel(QStringLiteral("Measured step"), this));
    bar->addWidget(m_step);
    page->addLayout(bar);
    page->addWidget(makePhaseLegend(this));
    page->addWidget(m_canvas, 1);
    m_pinned->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    page->addWidget(m_pinned);
    m_canvas->setDark(isDark(palette()));
    connect(&workbench.pair, &PairViewModel::changed, this, &TimelinePage::take);
    connect(m_step, &QSpinBox::valueChanged, this, &TimelinePage::take);
    connect(m_canvas, &TimelineCanvas::pinned, this, &TimelinePage::showPinned);
    take();
    showPinned();
}

void TimelinePage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) m_canvas->setDark(isDark(palette()));
}

void TimelinePage::take() {
    const PairViewModel& pair = m_workbench.pair;
    const bool measured = !pair.second().empty();
    if (measured && sender() != m_step) {
        const auto steps = static_cast<int>(pair.second().timeline->steps().size());
        const QSignalBlocker quiet(m_step);
        m_step->setRange(0, steps - 1);
        // The first step warms caches and allocators up: show the one after it.
        m_step->setValue(steps > 1 ? 1 : 0);
    }
    m_step->setEnabled(measured && m_step->maximum() > 0);
    std::vector<TimelinePane> panes;
    if (!pair.first().empty()) panes.push_back({paneTitle(pair.first()), pair.first().timeline, 0});
    if (measured)
        panes.push_back({paneTitle(pair.second()), pair.second().timeline,
                         static_cast<std::size_t>(m_step->value())});
    m_line->setText(pair.status().isEmpty()
                        ? QStringLiteral("Darker: backward. Ctrl+wheel or W S zoom, A D or "
                                         "right-drag pan, F fit, drag to measure, click to pin.")
                        : pair.status());
    m_canvas->setPanes(std::move(panes));
}

void TimelinePage::showPinned() {
    QStringList lines;
    for (const std::string& line : m_canvas->pinnedLines()) lines << text(line);
    m_pinned->setText(lines.isEmpty() ? QStringLiteral("Click an event to keep its numbers here.")
                                      : lines.join(QStringLiteral("  |  ")));
}

}  // namespace piper::ui
