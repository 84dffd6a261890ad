// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/roofline_plot.h"

#include <algorithm>
#include <cmath>

#include "ui/models/phase_colours.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

constexpr double kReach = 12.0;  ///< of a click, logical pixels
constexpr double kMargin = 1.8;  ///< factor beside the outermost points
constexpr double kPointSize = 8.0;

void setLogarithmic(QCPAxis& axis) {
    axis.setScaleType(QCPAxis::stLogarithmic);
    axis.setTicker(QSharedPointer<QCPAxisTickerLog>::create());
    axis.setNumberFormat(QStringLiteral("g"));
    axis.setNumberPrecision(4);
}

}  // namespace

RooflinePlot::RooflinePlot(const QString& title, Axes axes, QWidget* parent)
    : PlotFrame(title, parent), m_axes(std::move(axes)) {
    setLogarithmic(*plot().xAxis);
    setLogarithmic(*plot().yAxis);
    plot().xAxis->setLabel(m_axes.x_label);
    plot().yAxis->setLabel(m_axes.y_label);
    connect(&plot(), &QCustomPlot::mousePress, this, [this](const QMouseEvent* event) {
        const int point = pointAt(event->position());
        if (point >= 0) Q_EMIT chosen(point);
    });
    RooflinePlot::applyPalette();
}

void RooflinePlot::applyPalette() {
    PlotFrame::applyPalette();
    draw();
}

void RooflinePlot::setRoof(double peak, double bandwidth) {
    m_peak = peak;
    m_bandwidth = bandwidth;
}

void RooflinePlot::setPoints(std::vector<RoofPoint> points) {
    m_points = std::move(points);
    m_current = -1;
    draw();
}

void RooflinePlot::setCurrent(int point) {
    m_current = point;
    draw();
}

/// The bent line, or a dash over each point.
void RooflinePlot::drawRoofs(double from, double to) {
    const QPen pen(palette().color(QPalette::WindowText), 1);
    if (m_peak > 0.0 && m_bandwidth > 0.0) {
        QCPGraph& roof = *plot().addGraph();
        roof.setPen(pen);
        const double ridge = std::clamp(m_peak / m_bandwidth, from, to);
        for (const double x : {from, ridge, to})
            roof.addData(x / m_axes.x_unit, std::min(m_peak, x * m_bandwidth) / m_axes.y_unit);
        return;
    }
    QPainterPath dash;
    dash.moveTo(-6, 0);
    dash.lineTo(6, 0);
    QCPGraph& roofs = *plot().addGraph();
    roofs.setLineStyle(QCPGraph::lsNone);
    roofs.setScatterStyle({dash, pen, Qt::NoBrush, 12});
    for (const RoofPoint& p : m_points) roofs.addData(p.x / m_axes.x_unit, p.roof / m_axes.y_unit);
}

void RooflinePlot::draw() {
    plot().clearGraphs();
    if (!m_points.empty()) {
        double x_low = HUGE_VAL, x_high = 0.0, y_low = HUGE_VAL, y_high = m_peak;
        for (const RoofPoint& p : m_points) {
            x_low = std::min(x_low, p.x);
            x_high = std::max(x_high, p.x);
            y_low = std::min(y_low, p.rate);
            y_high = std::max({y_high, p.roof, p.rate});
        }
        drawRoofs(x_low / kMargin, x_high * kMargin);
        for (const RoofPoint& p : m_points) {
            QCPGraph& point = *plot().addGraph();
            const QColor colour = phaseColour(p.phase, dark());
            point.setScatterStyle({QCPScatterStyle::ssCircle, QPen(colour, 2),
                                   p.known ? QBrush(colour) : QBrush(Qt::NoBrush), kPointSize});
            point.addData(p.x / m_axes.x_unit, p.rate / m_axes.y_unit);
        }
        if (m_current >= 0 && static_cast<std::size_t>(m_current) < m_points.size()) {
            const RoofPoint& p = m_points[static_cast<std::size_t>(m_current)];
            QCPGraph& ring = *plot().addGraph();
            ring.setScatterStyle({QCPScatterStyle::ssCircle, QPen(warningColour(dark()), 2),
                                  Qt::NoBrush, 2 * kPointSize});
            ring.addData(p.x / m_axes.x_unit, p.rate / m_axes.y_unit);
        }
        plot().xAxis->setRange(x_low / kMargin / m_axes.x_unit, x_high * kMargin / m_axes.x_unit);
        plot().yAxis->setRange(y_low / kMargin / m_axes.y_unit, y_high * kMargin / m_axes.y_unit);
    }
    plot().replot(QCustomPlot::rpQueuedReplot);
}

int RooflinePlot::pointAt(const QPointF& position) const {
    int best = -1;
    double nearest = kReach;
    for (std::size_t i = 0; i < m_points.size(); ++i) {
        const QPointF at(plot().xAxis->coordToPixel(m_points[i].x / m_axes.x_unit),
                         plot().yAxis->coordToPixel(m_points[i].rate / m_axes.y_unit));
        const double distance = std::hypot(at.x() - position.x(), at.y() - position.y());
        if (distance >= nearest) continue;
        nearest = distance;
        best = static_cast<int>(i);
    }
    return best;
}

QString RooflinePlot::hoverText(const QPoint& position) const {
    const int point = pointAt(position);
    return point < 0 ? QString() : m_points[static_cast<std::size_t>(point)].text;
}

}  // namespace piper::ui
