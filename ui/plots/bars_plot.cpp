// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/bars_plot.h"

#include <algorithm>
#include <numeric>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

double meanOf(const std::vector<std::int64_t>& values) {
    const std::int64_t sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
    return values.empty() ? 0.0 : static_cast<double>(sum) / static_cast<double>(values.size());
}

}  // namespace

BarsPlot::BarsPlot(const QString& kind, QWidget* parent)
    : PlotFrame({}, parent),
      m_kind(kind),
      m_bars(new QCPBars(plot().xAxis, plot().yAxis)),
      m_mean(new QCPItemStraightLine(&plot())) {
    m_bars->setWidth(0.8);
    m_bars->setPen(Qt::NoPen);
    m_bars->setAntialiased(false);
    plot().xAxis->setLabel(kind);
    plot().xAxis->grid()->setVisible(false);
    const auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
    ticker->setTickStep(1.0);
    ticker->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
    plot().xAxis->setTicker(ticker);
    BarsPlot::applyPalette();
}

void BarsPlot::applyPalette() {
    PlotFrame::applyPalette();
    m_bars->setBrush(runColour(1, dark()));
    m_mean->setPen(QPen(palette().color(QPalette::WindowText), 1, Qt::DashLine));
}

void BarsPlot::setBars(std::vector<std::int64_t> values, Unit unit) {
    if (values == m_values && unit == m_unit) return;
    m_values = std::move(values);
    m_unit = unit;
    if (m_values.empty()) return;  // hidden, and of no size to draw in
    const auto most = static_cast<double>(std::ranges::max(m_values));
    const double scale = unit == Unit::Count ? 1.0 : most < 0x1p30 ? 0x1p20 : 0x1p30;
    QVector<double> keys, heights;
    for (std::size_t i = 0; i < m_values.size(); ++i) {
        keys << static_cast<double>(i);
        heights << static_cast<double>(m_values[i]) / scale;
    }
    m_bars->setData(keys, heights, true);
    const double mean = meanOf(m_values) / scale;
    m_mean->point1->setCoords(0, mean);
    m_mean->point2->setCoords(1, mean);
    plot().xAxis->setRange(-0.6, static_cast<double>(m_values.size()) - 0.4);
    plot().yAxis->setRange(0, most > 0 ? 1.08 * most / scale : 1.0);
    plot().yAxis->setLabel(unit == Unit::Count ? QStringLiteral("tokens")
                           : scale < 0x1p30    ? QStringLiteral("MiB")
                                               : QStringLiteral("GiB"));
    plot().replot(QCustomPlot::rpQueuedReplot);
}

QString BarsPlot::hoverText(const QPoint& position) const {
    const auto& self = const_cast<BarsPlot&>(*this).plot();
    const double x = self.xAxis->pixelToCoord(position.x()) + 0.5;
    const auto index = static_cast<std::size_t>(std::max(0.0, x));
    if (x < 0 || index >= m_values.size()) return {};
    const double mean = meanOf(m_values), value = static_cast<double>(m_values[index]);
    const QString amount = m_unit == Unit::Count ? QStringLiteral("%1 tokens").arg(countText(value))
                                                 : bytesText(Bytes(value));
    return QStringLiteral("%1 %2: %3, %4 times the mean")
        .arg(m_kind)
        .arg(index)
        .arg(amount)
        .arg(mean > 0 ? value / mean : 1.0, 0, 'f', 2);
}

}  // namespace piper::ui
