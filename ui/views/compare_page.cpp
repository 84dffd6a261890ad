// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/compare_page.h"

#include <QComboBox>
#include <QEvent>
#include <QHeaderView>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/views/compare_plots.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {

namespace {

constexpr int kLeastPlots = 300;  ///< pixels of width

}  // namespace

ComparePage::ComparePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Compare"));
    page->addWidget(makeChoice());
    m_sentence = new QLabel(this);
    m_sentence->setObjectName(QStringLiteral("attribution"));
    m_sentence->setWordWrap(true);
    page->addWidget(m_sentence);
    m_split = new QSplitter(Qt::Horizontal, this);
    auto* scroll = new QScrollArea(m_split);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_plots = new ComparePlots(scroll);
    scroll->setWidget(m_plots);
    m_table = makeTable(&m_model, m_split);
    m_table->setObjectName(QStringLiteral("differences"));
    m_split->setStretchFactor(0, 1);
    page->addWidget(m_split, 1);
    page->addStretch();  // what is left where there is nothing to compare
    connect(m_split, &QSplitter::splitterMoved, this, [this] { m_shared_by_hand = true; });
    connect(&workbench.runs, &RunsViewModel::historyChanged, this, &ComparePage::takeHistory);
    connect(&workbench.pair, &PairViewModel::changed, this, &ComparePage::take);
    takeHistory();
    take();
}

QWidget* ComparePage::makeChoice() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_a = new QComboBox(bar);
    m_b = new QComboBox(bar);
    m_legend = new QLabel(bar);
    for (QComboBox* box : {m_a, m_b}) box->setMinimumWidth(220);
    m_a->setAccessibleName(QStringLiteral("Run A"));
    m_b->setAccessibleName(QStringLiteral("Run B"));
    layout->addWidget(new QLabel(QStringLiteral("A"), bar));
    layout->addWidget(m_a);
    layout->addWidget(new QLabel(QStringLiteral("B"), bar));
    layout->addWidget(m_b);
    layout->addStretch(1);
    layout->addWidget(m_legend);
    connect(m_a, &QComboBox::activated, this, &ComparePage::choose);
    connect(m_b, &QComboBox::activated, this, &ComparePage::choose);
    return bar;
}

void ComparePage::takeHistory() {
    const QString was_a = m_a->currentData().toString(), was_b = m_b->currentData().toString();
    const QSignalBlocker quiet_a(m_a), quiet_b(m_b);
    m_a->clear();
    m_b->clear();
    m_a->addItem(QStringLiteral("Model of B's plan"), QString());
    for (const RunSummary& run : m_workbench.runs.history().runs()) {
        m_a->addItem(run.name, run.name);
        m_b->addItem(run.name, run.name);
    }
    m_a->setCurrentIndex(std::max(0, m_a->findData(was_a)));
    m_b->setCurrentIndex(std::max(0, m_b->findData(was_b)));
}

void ComparePage::choose() {
    m_workbench.pair.select(m_workbench.runs.workspace(), m_a->currentData().toString(),
                            m_b->currentData().toString());
}

void ComparePage::take() {
    const PairViewModel& pair = m_workbench.pair;
    const Comparison* comparison = pair.comparison();
    if (comparison == nullptr) {
        m_sentence->setText(pair.status().isEmpty() ? QStringLiteral("Two runs are needed.")
                                                    : pair.status());
        m_model.setRuns({});
        m_plots->setRuns({});
        m_legend->clear();
        m_split->hide();
        return;
    }
    m_split->show();
    if (pair.second().run->kind == RunKind::Measured)
        m_b->setCurrentIndex(std::max(0, m_b->findData(text(pair.second().run->name))));
    QString sentence = attributionText(comparison->attribution);
    for (const std::string& warning : comparison->warnings)
        sentence += QStringLiteral("\n⚠ ") + text(warning);
    m_sentence->setText(sentence);
    const ComparedRuns compared = pair.compared();
    m_model.setRuns(compared);
    m_table->resizeColumnsToContents();
    m_plots->setRuns(compared);
    showLegend();
    shareWidth();
}

/// The table first: it holds the numbers.
void ComparePage::shareWidth() {
    if (m_shared_by_hand || m_model.rowCount() == 0) return;
    const QHeaderView& header = *m_table->horizontalHeader();
    int wanted = 2 * m_table->frameWidth() + m_table->verticalScrollBar()->sizeHint().width();
    for (int column = 0; column < m_model.columnCount(); ++column)
        wanted += std::max(static_cast<QAbstractItemView*>(m_table)->sizeHintForColumn(column),
                           header.sectionSizeHint(column));
    const int all = m_split->width() - m_split->handleWidth();
    const int plots = std::max(kLeastPlots, std::min(all - wanted, all * 3 / 5));
    m_split->setSizes({plots, all - plots});
}

void ComparePage::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    shareWidth();
}

void ComparePage::showLegend() {
    const PairViewModel& pair = m_workbench.pair;
    if (pair.comparison() == nullptr) return;
    const bool dark = isDark(palette());
    m_legend->setText(QStringLiteral("<span style='color:%1'>■</span> A: %2 &nbsp;&nbsp; "
                                     "<span style='color:%3'>■</span> B: %4")
                          .arg(runColour(0, dark).name(), pair.first().label().toHtmlEscaped(),
                               runColour(1, dark).name(), pair.second().label().toHtmlEscaped()));
}

void ComparePage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_legend != nullptr) showLegend();
}

}  // namespace piper::ui
