// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/line_plot.h"

#include <algorithm>

#include "ui/models/phase_colours.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

constexpr double kEmptySteps = 20.0;  ///< range of an axis without data

}  // namespace

LinePlot::LinePlot(const QString& title, const QString& x_label, QWidget* parent)
    : PlotFrame(title, parent) {
    plot().addGraph();
    plot().graph(0)->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, 4));
    plot().xAxis->setLabel(x_label);
    // Steps are whole: 1, 2, 5, 10, ... and never 0.5.
    const auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
    ticker->setTickStep(1.0);
    ticker->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
    plot().xAxis->setTicker(ticker);
    LinePlot::applyPalette();
}

void LinePlot::applyPalette() {
    PlotFrame::applyPalette();
    if (plot().graphCount() > 0) plot().graph(0)->setPen(QPen(runColour(1, dark()), 1));
}

void LinePlot::setPoints(const std::vector<QPointF>& points, double x_end) {
    QVector<double> x, y;
    for (const QPointF& p : points) {
        x << p.x();
        y << p.y();
    }
    plot().graph(0)->setData(x, y, true);
    plot().xAxis->setRange(0, (x_end > 0 ? x_end : kEmptySteps) * 1.02);
    const auto [low, high] = std::minmax_element(y.begin(), y.end());
    if (low != y.end()) {
        const double margin = std::max((*high - *low) * 0.1, 0.01);
        plot().yAxis->setRange(*low - margin, *high + margin);
    } else {
        plot().yAxis->setRange(0, 1);
    }
    plot().replot(QCustomPlot::rpQueuedReplot);
}

}  // namespace piper::ui
