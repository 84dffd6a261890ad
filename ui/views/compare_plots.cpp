// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/compare_plots.h"

#include <QGridLayout>

#include "ui/models/text_format.h"
#include "ui/plots/grouped_bars_plot.h"
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

constexpr int kLeastWidth = 280, kLeastHeight = 270;  ///< of a plot, pixels

}  // namespace

ComparePlots::ComparePlots(QWidget* parent) : QWidget(parent), m_grid(new QGridLayout(this)) {
    m_grid->setContentsMargins(0, 0, 0, 0);
    m_grid->setSpacing(kSpacing);
    for (std::size_t i = 0; i < m_plots.size(); ++i) {
        m_plots[i] = new GroupedBarsPlot(
            topicTitle(kPlotted[i]) + QStringLiteral(", ") + topicScope(kPlotted[i]), this);
        m_plots[i]->setMinimumHeight(kLeastHeight);
    }
    place(2);
}

void ComparePlots::place(int columns) {
    if (columns == m_columns) return;
    m_columns = columns;
    for (std::size_t i = 0; i < m_plots.size(); ++i)
        m_grid->addWidget(m_plots[i], static_cast<int>(i) / columns, static_cast<int>(i) % columns);
}

void ComparePlots::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    place(width() < 2 * kLeastWidth ? 1 : 2);
}

void ComparePlots::setRuns(const ComparedRuns& runs) {
    for (std::size_t i = 0; i < m_plots.size(); ++i)
        if (runs.comparison != nullptr)
            fill(i, *runs.comparison, runs.num_ranks);
        else
            m_plots[i]->setCategories({}, {});
}

void ComparePlots::fill(std::size_t index, const Comparison& comparison, double ranks) {
    const CompareTopic topic = kPlotted[index];
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

}  // namespace piper::ui
