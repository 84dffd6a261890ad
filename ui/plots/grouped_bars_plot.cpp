// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/grouped_bars_plot.h"

#include "ui/models/phase_colours.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {

namespace {

constexpr double kLeastRows = 5.0;

}  // namespace

GroupedBarsPlot::GroupedBarsPlot(const QString& title, QWidget* parent)
    : PlotFrame(title, parent), m_group(new QCPBarsGroup(&plot())) {
    // Horizontal bars leave room for whole words on the category axis.
    m_group->setSpacingType(QCPBarsGroup::stAbsolute);
    m_group->setSpacing(0);
    for (QCPBars*& bars : m_bars) {
        bars = new QCPBars(plot().yAxis, plot().xAxis);
        bars->setBarsGroup(m_group);
        bars->setWidth(0.36);
        bars->setPen(Qt::NoPen);
        bars->setAntialiased(false);
    }
    plot().yAxis->setRangeReversed(true);
    plot().yAxis->grid()->setVisible(false);
    plot().yAxis->setTickLength(0, 0);
    GroupedBarsPlot::applyPalette();
}

void GroupedBarsPlot::applyPalette() {
    PlotFrame::applyPalette();
    for (int i = 0; i < 2; ++i)
        if (QCPBars* bars = m_bars[static_cast<std::size_t>(i)])
            bars->setBrush(runColour(i, dark()));
}

void GroupedBarsPlot::setNames(const QString& a, const QString& b) {
    m_bars[0]->setName(a);
    m_bars[1]->setName(b);
}

void GroupedBarsPlot::setCategories(std::vector<Category> categories, const QString& unit) {
    m_categories = std::move(categories);
    QVector<double> keys, a, b;
    auto ticker = QSharedPointer<QCPAxisTickerText>::create();
    double most = 0.0;
    for (std::size_t i = 0; i < m_categories.size(); ++i) {
        keys << static_cast<double>(i);
        a << m_categories[i].a;
        b << m_categories[i].b;
        most = std::max({most, m_categories[i].a, m_categories[i].b});
        ticker->addTick(static_cast<double>(i), m_categories[i].label);
    }
    m_bars[0]->setData(keys, a, true);
    m_bars[1]->setData(keys, b, true);
    plot().yAxis->setTicker(ticker);
    // A few categories keep bars as thin as many have them.
    const auto rows = std::max(kLeastRows, static_cast<double>(m_categories.size()));
    plot().yAxis->setRange(-0.6, rows - 0.4);
    plot().xAxis->setRange(0, most > 0 ? most * 1.05 : 1.0);
    plot().xAxis->setLabel(unit);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

QString GroupedBarsPlot::hoverText(const QPoint& position) const {
    const auto& self = const_cast<GroupedBarsPlot&>(*this).plot();
    const double row = self.yAxis->pixelToCoord(position.y());
    const auto index = static_cast<std::size_t>(std::max(0.0, row + 0.5));
    return index < m_categories.size() ? m_categories[index].hover : QString();
}

}  // namespace piper::ui
