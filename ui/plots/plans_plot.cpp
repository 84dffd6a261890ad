// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/plans_plot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ui/models/phase_colours.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

enum Graph { kAll, kShown, kFrontier, kCurrent };
constexpr double kReach = 10.0;  ///< of a click, logical pixels
constexpr int kSmallest = 4;     ///< a smaller rectangle is a click

QCPScatterStyle disc(QColor colour, double size) {
    return {QCPScatterStyle::ssDisc, colour, size};
}

}  // namespace

PlansPlot::PlansPlot(QWidget* parent)
    : PlotFrame(QStringLiteral("MFU, % over peak memory, GiB"), parent) {
    for (int i = 0; i <= kCurrent; ++i) {
        plot().addGraph();
        plot().graph(i)->setLineStyle(i == kFrontier ? QCPGraph::lsStepLeft : QCPGraph::lsNone);
    }
    plot().xAxis->setLabel(QStringLiteral("Peak memory, GiB"));
    plot().setSelectionRectMode(QCP::srmCustom);
    connect(plot().selectionRect(), &QCPSelectionRect::accepted, this,
            [this](const QRect& area) { released(area); });
    // A click without a movement ends as one that was called off, without an event.
    connect(plot().selectionRect(), &QCPSelectionRect::canceled, this,
            [this](const QRect& area, const QInputEvent* event) {
                if (event == nullptr) released(area);
            });
    PlansPlot::applyPalette();
}

void PlansPlot::applyPalette() {
    PlotFrame::applyPalette();
    if (plot().graphCount() <= kCurrent) return;
    QColor faint = palette().color(QPalette::WindowText);
    faint.setAlphaF(0.2F);
    plot().graph(kAll)->setScatterStyle(disc(faint, 4));
    plot().graph(kShown)->setScatterStyle(disc(runColour(0, dark()), 5));
    plot().graph(kFrontier)->setPen(QPen(runColour(1, dark()), 1));
    plot().graph(kCurrent)->setScatterStyle(
        {QCPScatterStyle::ssCircle, QPen(warningColour(dark()), 2), Qt::NoBrush, 11});
    QColor area = runColour(0, dark());
    area.setAlphaF(0.15F);
    plot().selectionRect()->setPen(QPen(runColour(0, dark())));
    plot().selectionRect()->setBrush(area);
}

void PlansPlot::fillGraph(int graph, const std::vector<int>& rows) {
    QVector<double> x, y;
    for (const int row : rows) {
        x << m_points[static_cast<std::size_t>(row)].memory_gib;
        y << m_points[static_cast<std::size_t>(row)].mfu_percent;
    }
    plot().graph(graph)->setData(x, y);
}

void PlansPlot::setPoints(std::vector<Point> points) {
    m_points = std::move(points);
    std::vector<int> all(m_points.size());
    std::iota(all.begin(), all.end(), 0);
    fillGraph(kAll, all);
    setFrontier();
    plot().graph(kCurrent)->data()->clear();
    plot().rescaleAxes();
    plot().xAxis->scaleRange(1.1);
    plot().yAxis->scaleRange(1.15);
    setShown(all);
}

/// From little memory to much, each with more MFU than all before it.
void PlansPlot::setFrontier() {
    std::vector<int> order(m_points.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [this](int i) {
        const Point& p = m_points[static_cast<std::size_t>(i)];
        return std::pair(p.memory_gib, -p.mfu_percent);
    });
    std::vector<int> best;
    for (const int row : order)
        if (best.empty() || m_points[static_cast<std::size_t>(row)].mfu_percent >
                                m_points[static_cast<std::size_t>(best.back())].mfu_percent)
            best.push_back(row);
    fillGraph(kFrontier, best);
}

void PlansPlot::setShown(const std::vector<int>& rows) {
    m_shown = rows;
    std::erase_if(m_shown,
                  [this](int row) { return static_cast<std::size_t>(row) >= m_points.size(); });
    fillGraph(kShown, m_shown);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void PlansPlot::setCurrent(int row) {
    if (row < 0 || static_cast<std::size_t>(row) >= m_points.size())
        plot().graph(kCurrent)->data()->clear();
    else
        fillGraph(kCurrent, {row});
    plot().replot(QCustomPlot::rpQueuedReplot);
}

QPointF PlansPlot::pixelOf(const Point& point) const {
    const QCustomPlot& p = plot();
    return {p.xAxis->coordToPixel(point.memory_gib), p.yAxis->coordToPixel(point.mfu_percent)};
}

int PlansPlot::pointAt(const QPoint& position) const {
    int best = -1;
    double nearest = kReach;
    for (const int row : m_shown) {
        const QPointF away = pixelOf(m_points[static_cast<std::size_t>(row)]) - position;
        const double distance = std::hypot(away.x(), away.y());
        if (distance >= nearest) continue;
        nearest = distance;
        best = row;
    }
    return best;
}

void PlansPlot::released(const QRect& area) {
    const QRect normal = area.normalized();
    if (normal.width() < kSmallest && normal.height() < kSmallest) {
        const int row = pointAt(normal.center());
        if (row >= 0)
            Q_EMIT chosen(row);
        else
            Q_EMIT cleared();
        return;
    }
    std::set<int> rows;
    for (std::size_t i = 0; i < m_points.size(); ++i)
        if (QRectF(normal).contains(pixelOf(m_points[i]))) rows.insert(static_cast<int>(i));
    if (rows.empty())
        Q_EMIT cleared();
    else
        Q_EMIT brushed(rows);
}

QString PlansPlot::hoverText(const QPoint& position) const {
    const int row = pointAt(position);
    return row < 0 ? QString() : m_points[static_cast<std::size_t>(row)].text;
}

}  // namespace piper::ui
