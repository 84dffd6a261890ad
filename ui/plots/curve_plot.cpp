// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/curve_plot.h"

#include <algorithm>
#include <cmath>

#include "ui/models/phase_colours.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

enum Line { kFirst, kSecond, kChosen };

/// Without what cannot be had: a gap in the line.
void fillLine(QCPGraph& graph, const std::vector<CurvePoint>& points,
              std::optional<double> CurvePoint::*value) {
    QVector<double> x, y;
    for (std::size_t i = 0; i < points.size(); ++i) {
        x << static_cast<double>(i);
        y << (points[i].*value).value_or(qQNaN());
    }
    graph.setData(x, y, true);
}

double largest(const std::vector<CurvePoint>& points) {
    double most = 0.0;
    for (const CurvePoint& p : points)
        most = std::max({most, p.first.value_or(0.0), p.second.value_or(0.0)});
    return most;
}

}  // namespace

CurvePlot::CurvePlot(QWidget* parent) : PlotFrame({}, parent) {
    for (int i = 0; i <= kChosen; ++i) plot().addGraph();
    plot().graph(kChosen)->setLineStyle(QCPGraph::lsNone);
    plot().graph(kChosen)->removeFromLegend();
    plot().legend->setVisible(true);
    plot().axisRect()->insetLayout()->setInsetAlignment(0, Qt::AlignBottom | Qt::AlignRight);
    connect(&plot(), &QCustomPlot::mousePress, this, [this](const QMouseEvent* event) {
        const int point = pointAt(event->position().x());
        if (point >= 0) Q_EMIT chosen(point);
    });
    CurvePlot::applyPalette();
}

void CurvePlot::applyPalette() {
    PlotFrame::applyPalette();
    if (plot().graphCount() <= kChosen) return;
    const auto look = [this](Line line, int colour, Qt::PenStyle style) {
        const QColor c = runColour(colour, dark());
        plot().graph(line)->setPen(QPen(c, 1, style));
        plot().graph(line)->setScatterStyle({QCPScatterStyle::ssDisc, c, 7});
    };
    look(kFirst, 0, Qt::SolidLine);
    look(kSecond, 1, Qt::DashLine);
    plot().graph(kChosen)->setScatterStyle(
        {QCPScatterStyle::ssCircle, QPen(warningColour(dark()), 2), Qt::NoBrush, 12});
}

void CurvePlot::setCurve(const Curve& curve) {
    m_curve = curve;
    const CurveInfo& info = curveInfo(curve.kind);
    setTitle(QStringLiteral("%1 over %2")
                 .arg(QString::fromLatin1(info.y_label), QString::fromLatin1(info.label)));
    plot().graph(kFirst)->setName(QString::fromLatin1(info.first));
    plot().graph(kSecond)->setName(QString::fromLatin1(info.second));
    fillLine(*plot().graph(kFirst), curve.points, &CurvePoint::first);
    fillLine(*plot().graph(kSecond), curve.points, &CurvePoint::second);
    plot().graph(kChosen)->data()->clear();
    const auto ticker = QSharedPointer<QCPAxisTickerText>::create();
    for (std::size_t i = 0; i < curve.points.size(); ++i)
        ticker->addTick(static_cast<double>(i), curve.points[i].setting);
    plot().xAxis->setTicker(ticker);
    plot().xAxis->setRange(-0.5, std::max(0.5, static_cast<double>(curve.points.size()) - 0.5));
    const double most = largest(curve.points);
    plot().yAxis->setRange(0.0, most > 0.0 ? 1.08 * most : 1.0);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void CurvePlot::setCurrent(int point) {
    QCPGraph& graph = *plot().graph(kChosen);
    graph.data()->clear();
    if (point >= 0 && static_cast<std::size_t>(point) < m_curve.points.size())
        if (const auto& value = m_curve.points[static_cast<std::size_t>(point)].first)
            graph.addData(point, *value);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

int CurvePlot::pointAt(double x) const {
    if (m_curve.points.empty()) return -1;
    const auto near = std::lround(plot().xAxis->pixelToCoord(x));
    return std::clamp(static_cast<int>(near), 0, static_cast<int>(m_curve.points.size()) - 1);
}

QString CurvePlot::hoverText(const QPoint& position) const {
    const int point = pointAt(position.x());
    if (point < 0) return {};
    const CurvePoint& p = m_curve.points[static_cast<std::size_t>(point)];
    return p.setting + u'\n' + p.note;
}

}  // namespace piper::ui
