// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/timeline_page.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QSpinBox>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kTableHeight = 190;

QString paneTitle(const ShownRun& shown) {
    const bool modelled = shown.run->kind == RunKind::Modelled;
    const QString kind = modelled ? QStringLiteral("modelled") : QStringLiteral("measured");
    const QString name = text(shown.run->name);
    return QStringLiteral("%1%2 · %3 ranks · %4 operations")
        .arg(kind, name.isEmpty() || name == kind ? QString() : QStringLiteral(" · ") + name)
        .arg(shown.run->ranks.size())
        .arg(countText(static_cast<double>(shown.numEvents())));
}

}  // namespace

TimelinePage::TimelinePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_workbench(workbench),
      m_line(new TextLine(TextLine::Look::Faint, this)),
      m_search(new QLineEdit(this)),
      m_step(new QSpinBox(this)),
      m_damage(makeLabel({}, "plain", this)),
      m_canvas(new TimelineCanvas(workbench.executor, workbench.timeline_keys,
                                  QStringLiteral("timeline-canvas"), this)),
      m_chosen(new TextLine(TextLine::Look::Faint, this)),
      m_totals(makeTable(&m_canvas->model().totals(), this)) {
    auto* page = makePageLayout(this, QStringLiteral("Timeline"));
    auto* bar = new QHBoxLayout;
    bar->addWidget(m_line, 1);
    m_search->setPlaceholderText(QStringLiteral("Search events"));
    m_search->setAccessibleName(QStringLiteral("Search events by name"));
    m_search->setMaximumWidth(260);
    m_search->installEventFilter(this);
    bar->addWidget(m_search);
    bar->addWidget(new QLabel(QStringLiteral("Measured step"), this));
    bar->addWidget(m_step);
    page->addLayout(bar);
    m_damage->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    page->addWidget(m_damage);
    page->addWidget(makePhaseLegend(this));
    page->addWidget(m_canvas, 1);
    page->addWidget(m_chosen);
    m_totals->setAccessibleName(QStringLiteral("Sums of the selection"));
    m_totals->setFixedHeight(kTableHeight);
    page->addWidget(m_totals);
    m_canvas->setDark(isDark(palette()));
    connect(&workbench.pair, &PairViewModel::changed, this, &TimelinePage::take);
    connect(&workbench.timeline_keys, &TimelineKeys::changed, this, [this] {
        if (m_workbench.pair.status().isEmpty()) m_line->setText(m_workbench.timeline_keys.hint());
    });
    connect(m_step, &QSpinBox::valueChanged, this, &TimelinePage::take);
    m_step->setAccessibleName(QStringLiteral("Measured step"));
    TimelineViewModel& model = m_canvas->model();
    connect(&model, &TimelineViewModel::eventChosen, this, &TimelinePage::showChosen);
    connect(&model, &TimelineViewModel::totalsChanged, this, &TimelinePage::showTotals);
    connect(&model, &TimelineViewModel::damageChanged, this, &TimelinePage::showDamage);
    connect(&model, &TimelineViewModel::failed, m_line, &TextLine::setText);
    connect(&model, &TimelineViewModel::notFound, this, [this](const QString& wanted) {
        m_line->setText(QStringLiteral("No event's name holds \"%1\".").arg(wanted));
    });
    connect(m_canvas, &TimelineCanvas::searchWanted, m_search, [this] {
        m_search->setFocus();
        m_search->selectAll();
    });
    take();
    showChosen();
    showTotals();
    showDamage();
}

/// Enter and Shift+Enter go from one to the next, Esc goes back to the canvas.
bool TimelinePage::eventFilter(QObject* watched, QEvent* event) {
    if (watched != m_search || event->type() != QEvent::KeyPress)
        return QWidget::eventFilter(watched, event);
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape) {
        m_canvas->setFocus();
        return true;
    }
    if (key->key() != Qt::Key_Return && key->key() != Qt::Key_Enter) return false;
    if (!m_search->text().isEmpty())
        m_canvas->search(m_search->text(), !(key->modifiers() & Qt::ShiftModifier));
    return true;
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
    m_line->setText(pair.status().isEmpty() ? m_workbench.timeline_keys.hint() : pair.status());
    m_canvas->setPanes(std::move(panes));
}

void TimelinePage::showChosen() {
    QStringList lines;
    for (const std::string& line : m_canvas->pinnedLines()) lines << text(line);
    m_chosen->setText(lines.isEmpty()
                          ? QStringLiteral("Click an event to keep its numbers here; drag over "
                                           "events for their sums.")
                          : lines.join(QStringLiteral("  |  ")));
}

void TimelinePage::showTotals() {
    m_totals->setVisible(m_canvas->model().totals().rowCount() > 0);
    m_totals->horizontalHeader()->setSectionResizeMode(SelectionTotalsModel::Name,
                                                       QHeaderView::Stretch);
}

void TimelinePage::showDamage() {
    const QStringList damage = m_canvas->model().damage();
    m_damage->setVisible(!damage.isEmpty());
    m_damage->setToolTip(damage.join(QLatin1Char('\n')));
    if (damage.isEmpty()) return;
    const QString more =
        damage.size() > 1 ? QStringLiteral(" (and %1 more)").arg(damage.size() - 1) : QString();
    m_damage->setText(QStringLiteral("The file is damaged; what is shown lacks a part. %1%2")
                          .arg(damage.front(), more));
}

}  // namespace piper::ui
