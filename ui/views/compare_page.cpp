// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/compare_page.h"

#include <QComboBox>
#include <QEvent>
#include <QGridLayout>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/plots/grouped_bars_plot.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

/// A unit that keeps the axis numbers short, and its divisor.
struct AxisUnit {
    double divisor;
    const char* name;
};

AxisUnit axisUnit(CompareTopic topic, double largest) {
    using Row = std::pair<double, AxisUnit>;
    static constexpr Row time[] = {{1.0, {1, "s"}}, {1e-3, {1e-3, "ms"}}, {0, {1e-6, "µs"}}};
    static constexpr Row bytes[] = {
        {0x1p30, {0x1p30, "GiB"}}, {0x1p20, {0x1p20, "MiB"}}, {0, {0x1p10, "KiB"}}};
    static constexpr Row flops[] = {
        {1e15, {1e15, "PFLOP"}}, {1e12, {1e12, "TFLOP"}}, {0, {1e9, "GFLOP"}}};
    static constexpr Row rates[] = {{1e9, {1e9, "GB/s"}}, {0, {1e6, "MB/s"}}, {0, {1e6, "MB/s"}}};
    const auto& rows = topic == CompareTopic::Time        ? time
                       : topic == CompareTopic::Flops     ? flops
                       : topic == CompareTopic::Bandwidth ? rates
                                                          : bytes;
    for (const auto& [least, unit] : rows)
        if (largest >= least) return unit;
    return rows[2].second;
}

double ranksOf(const PairViewModel& pair) {
    return static_cast<double>(std::max<std::size_t>(
        1, std::min(pair.first().run->ranks.size(), pair.second().run->ranks.size())));
}

QString runLabel(const Run& run) {
    const QString kind =
        run.kind == RunKind::Modelled ? QStringLiteral("Modelled") : QStringLiteral("Measured");
    // A run that is named after its kind says it once.
    return run.name.empty() || text(run.name).compare(kind, Qt::CaseInsensitive) == 0
               ? kind
               : kind + QStringLiteral(" · ") + text(run.name);
}

}  // namespace

ComparePage::ComparePage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Compare"));
    page->addWidget(makeChoice());
    m_sentence = new QLabel(this);
    m_sentence->setObjectName(QStringLiteral("attribution"));
    m_sentence->setWordWrap(true);
    page->addWidget(m_sentence);
    auto* split = new QSplitter(Qt::Horizontal, this);
    auto* plots = new QWidget(split);
    auto* grid = new QGridLayout(plots);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setSpacing(kSpacing);
    for (std::size_t i = 0; i < m_plots.size(); ++i) {
        m_plots[i] = new GroupedBarsPlot(
            topicTitle(kPlotTopics[i]) + QStringLiteral(", ") + topicScope(kPlotTopics[i]), plots);
        grid->addWidget(m_plots[i], static_cast<int>(i / 2), static_cast<int>(i % 2));
    }
    m_table = makeTable(&m_model, split);
    m_table->setObjectName(QStringLiteral("differences"));
    split->setStretchFactor(0, 1);
    split->setSizes({720, 700});
    page->addWidget(split, 1);
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
        m_model.setComparison(nullptr, 1);
        for (GroupedBarsPlot* plot : m_plots) plot->setCategories({}, {});
        m_legend->clear();
        return;
    }
    if (pair.second().run->kind == RunKind::Measured)
        m_b->setCurrentIndex(std::max(0, m_b->findData(text(pair.second().run->name))));
    const double ranks = ranksOf(pair);
    QString sentence = attributionText(comparison->attribution);
    for (const std::string& warning : comparison->warnings)
        sentence += QStringLiteral("\n⚠ ") + text(warning);
    m_sentence->setText(sentence);
    m_model.setNames(runLabel(*pair.first().run), runLabel(*pair.second().run));
    m_model.setComparison(comparison, ranks);
    m_table->resizeColumnsToContents();
    for (std::size_t i = 0; i < m_plots.size(); ++i) fillPlot(i, *comparison, ranks);
    showLegend();
}

void ComparePage::fillPlot(std::size_t index, const Comparison& comparison, double ranks) {
    const CompareTopic topic = kPlotTopics[index];
    const std::vector<ComparisonRow> rows = topicRows(comparison, topic, ranks);
    double largest = 0.0;
    for (const ComparisonRow& row : rows) largest = std::max({largest, row.a, row.b});
    const AxisUnit unit = axisUnit(topic, largest);
    std::vector<GroupedBarsPlot::Category> categories;
    for (const ComparisonRow& row : rows)
        categories.push_back({rowLabel(topic, row.key), row.a / unit.divisor, row.b / unit.divisor,
                              QStringLiteral("%1\nA %2\nB %3\n%4")
                                  .arg(rowLabel(topic, row.key), topicValue(topic, row.a),
                                       topicValue(topic, row.b), differenceText(row.a, row.b))});
    m_plots[index]->setCategories(std::move(categories), QString::fromUtf8(unit.name));
}

void ComparePage::showLegend() {
    const PairViewModel& pair = m_workbench.pair;
    if (pair.comparison() == nullptr) return;
    const bool dark = isDark(palette());
    m_legend->setText(
        QStringLiteral("<span style='color:%1'>■</span> A: %2 &nbsp;&nbsp; "
                       "<span style='color:%3'>■</span> B: %4")
            .arg(runColour(0, dark).name(), runLabel(*pair.first().run).toHtmlEscaped(),
                 runColour(1, dark).name(), runLabel(*pair.second().run).toHtmlEscaped()));
}

void ComparePage::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_legend != nullptr) showLegend();
}

}  // namespace piper::ui
