// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/plans_plot.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ui/models/model_card.h"
#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

enum Graph { kAll, kShown, kFrontier, kCurrent };
constexpr double kReach = 10.0;  ///< of a click, logical pixels
constexpr int kSmallest = 4;     ///< a smaller rectangle is a click
constexpr std::size_t kCrowd = 5000, kCellsAcross = 320, kCellsDown = 160;

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

std::pair<double, double> PlansPlot::placeOf(int row) const {
    const auto at = static_cast<std::size_t>(row);
    return {inGiB(Bytes(m_plans->number(at, RankedPlans::Memory))),
            100.0 * m_plans->number(at, RankedPlans::Mfu)};
}

/// Of a crowd one point stands for all within a few pixels, which nobody could tell apart.
void PlansPlot::fillGraph(int graph, const std::vector<int>& rows) {
    const bool crowd = rows.size() > kCrowd;
    std::vector<bool> taken(crowd ? kCellsAcross * kCellsDown : 0);
    const auto cell = [](double value, QPointF range, std::size_t cells) {
        const double share = (value - range.x()) / std::max(range.y() - range.x(), 1e-300);
        return std::min(static_cast<std::size_t>(share * static_cast<double>(cells)), cells - 1);
    };
    QVector<QCPGraphData> data;
    for (const int row : rows) {
        const auto [memory, mfu] = placeOf(row);
        if (crowd) {
            const std::size_t at = cell(memory, m_memory_range, kCellsAcross) * kCellsDown +
                                   cell(mfu, m_mfu_range, kCellsDown);
            if (taken[at]) continue;
            taken[at] = true;
        }
        data << QCPGraphData(memory, mfu);
    }
    plot().graph(graph)->data()->set(data);
}

void PlansPlot::setPlans(std::shared_ptr<const RankedPlans> plans) {
    m_plans = std::move(plans);
    std::vector<int> all(m_plans->size());
    std::iota(all.begin(), all.end(), 0);
    const auto rangeOf = [this](RankedPlans::Column column) {
        const std::vector<double>& numbers = m_plans->numbers(column);
        const auto [least, most] = std::ranges::minmax_element(numbers);
        return numbers.empty() ? QPointF() : QPointF(*least, *most);
    };
    m_memory_range = rangeOf(RankedPlans::Memory) / gib(1).value;
    m_mfu_range = rangeOf(RankedPlans::Mfu) * 100.0;
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
    std::vector<int> best;
    for (const int row : rowsSortedBy(
             m_plans->size(),
             [this](std::size_t i) { return m_plans->number(i, RankedPlans::Memory); }, false)) {
        const auto [memory, mfu] = placeOf(row);
        if (!best.empty() && mfu <= placeOf(best.back()).second) continue;
        if (!best.empty() && memory == placeOf(best.back()).first) best.pop_back();
        best.push_back(row);
    }
    fillGraph(kFrontier, best);
}

void PlansPlot::setShown(const std::vector<int>& rows) {
    m_shown = rows;
    std::erase_if(m_shown,
                  [this](int row) { return static_cast<std::size_t>(row) >= m_plans->size(); });
    fillGraph(kShown, m_shown);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void PlansPlot::setCurrent(int row) {
    if (row < 0 || static_cast<std::size_t>(row) >= m_plans->size())
        plot().graph(kCurrent)->data()->clear();
    else
        fillGraph(kCurrent, {row});
    plot().replot(QCustomPlot::rpQueuedReplot);
}

QPointF PlansPlot::pixelOf(int row) const {
    const auto [memory, mfu] = placeOf(row);
    return {plot().xAxis->coordToPixel(memory), plot().yAxis->coordToPixel(mfu)};
}

int PlansPlot::pointAt(const QPoint& position) const {
    int best = -1;
    double nearest = kReach;
    for (const int row : m_shown) {
        const QPointF away = pixelOf(row) - position;
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
    for (int row = 0; row < static_cast<int>(m_plans->size()); ++row)
        if (QRectF(normal).contains(pixelOf(row))) rows.insert(row);
    if (rows.empty())
        Q_EMIT cleared();
    else
        Q_EMIT brushed(rows);
}

QString PlansPlot::hoverText(const QPoint& position) const {
    const int row = pointAt(position);
    if (row < 0) return {};
    const RankedPlan& plan = (*m_plans)[static_cast<std::size_t>(row)];
    return layoutText(plan.plan) + u'\n' + percentText(plan.prediction.mfu) +
           QStringLiteral(" MFU, ") + bytesText(plan.prediction.memory.peak);
}

}  // namespace piper::ui
