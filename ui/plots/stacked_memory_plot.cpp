// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/stacked_memory_plot.h"

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {
namespace {

constexpr double kBarHeight = 0.72;
/// A peak below this share of the capacity would be a sliver: the axis ends near it then.
constexpr double kSliver = 0.2;

}  // namespace

StackedMemoryPlot::StackedMemoryPlot(QWidget* parent)
    : PlotFrame(QStringLiteral("Memory per stage, GiB"), parent) {
    QCPBars* below = nullptr;
    for (std::size_t i = 0; i < kNumMemoryTerms; ++i) {
        // Horizontal bars: the key axis is the vertical one.
        auto* bars = new QCPBars(plot().yAxis, plot().xAxis);
        bars->setWidth(kBarHeight);
        bars->setPen(Qt::NoPen);
        bars->setAntialiased(false);
        bars->setName(memoryTermLabel(static_cast<MemoryTerm>(i)));
        if (below != nullptr) bars->moveAbove(below);
        below = bars;
        m_bars.push_back(bars);
    }
    m_capacity = new QCPItemStraightLine(&plot());
    m_capacity->setVisible(false);
    plot().yAxis->setRangeReversed(true);
    plot().yAxis->grid()->setVisible(false);
    StackedMemoryPlot::applyPalette();
}

void StackedMemoryPlot::applyPalette() {
    PlotFrame::applyPalette();
    for (std::size_t i = 0; i < m_bars.size(); ++i)
        m_bars[i]->setBrush(memoryTermColour(static_cast<MemoryTerm>(i), dark()));
    if (m_capacity != nullptr) m_capacity->setPen(QPen(warningColour(dark()), 1, Qt::DashLine));
}

void StackedMemoryPlot::setMemory(const MemoryPrediction& memory) {
    m_memory = memory;
    const double unit = rescale();
    QVector<double> keys;
    for (std::size_t s = 0; s < memory.stages.size(); ++s) keys << static_cast<double>(s);
    for (std::size_t term = 0; term < m_bars.size(); ++term) {
        QVector<double> values;
        for (const StageMemory& stage : memory.stages) values << stage.at_peak[term].value / unit;
        m_bars[term]->setData(keys, values, true);
    }
    plot().replot(QCustomPlot::rpQueuedReplot);
}

void StackedMemoryPlot::clear() {
    m_memory = {};
    for (QCPBars* bars : m_bars) bars->data()->clear();
    m_capacity->setVisible(false);
    plot().replot(QCustomPlot::rpQueuedReplot);
}

double StackedMemoryPlot::rescale() {
    const double capacity = m_memory.capacity.value;
    double peak = 0.0;
    for (const StageMemory& stage : m_memory.stages) peak = std::max(peak, stage.peak.value);
    const bool sliver = peak > 0.0 && peak < kSliver * capacity;
    const double most = sliver ? 1.2 * peak : 1.04 * std::max(peak, capacity);
    const double unit = most < 0x1p30 ? 0x1p20 : 0x1p30;
    QString title = QStringLiteral("Memory per stage, %1")
                        .arg(unit < 0x1p30 ? QStringLiteral("MiB") : QStringLiteral("GiB"));
    if (sliver) title += QStringLiteral(" (a device has %1)").arg(bytesText(m_memory.capacity));
    setTitle(title);
    plot().xAxis->setRange(0, most > 0 ? most / unit : 1.0);
    const auto stages = static_cast<int>(m_memory.stages.size());
    plot().yAxis->setRange(-0.6, std::max(stages, 1) - 0.4);
    auto ticker = QSharedPointer<QCPAxisTickerText>::create();
    const int every = std::max(1, stages / 16);
    for (int s = 0; s < stages; s += every) ticker->addTick(s, QStringLiteral("stage %1").arg(s));
    plot().yAxis->setTicker(ticker);
    m_capacity->setVisible(capacity > 0 && !sliver);
    m_capacity->point1->setCoords(capacity / unit, 0);
    m_capacity->point2->setCoords(capacity / unit, 1);
    return unit;
}

QString StackedMemoryPlot::hoverText(const QPoint& position) const {
    const auto& self = const_cast<StackedMemoryPlot&>(*this).plot();
    const double row = self.yAxis->pixelToCoord(position.y());
    const auto stage = static_cast<std::size_t>(std::max(0.0, row + 0.5));
    if (stage >= m_memory.stages.size()) return {};
    const StageMemory& memory = m_memory.stages[stage];
    QString out = QStringLiteral("<b>stage %1: %2</b> of %3<table>")
                      .arg(stage)
                      .arg(bytesText(memory.peak), bytesText(m_memory.capacity));
    for (std::size_t term = 0; term < kNumMemoryTerms; ++term)
        if (memory.at_peak[term].value > 0)
            out += QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2</td></tr>")
                       .arg(memoryTermLabel(static_cast<MemoryTerm>(term)),
                            bytesText(memory.at_peak[term]));
    return out +
           QStringLiteral("</table>%1 micro-batches in flight at the peak").arg(memory.in_flight);
}

}  // namespace piper::ui
