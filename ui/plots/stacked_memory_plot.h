// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/predict/predict.h"
#include "ui/plots/plot_frame.h"

class QCPBars;
class QCPItemStraightLine;

namespace piper::ui {

/// One bar a pipeline stage, stacked by memory term, against the device's capacity.
class StackedMemoryPlot : public PlotFrame {
    Q_OBJECT
public:
    explicit StackedMemoryPlot(QWidget* parent = nullptr);

    void setMemory(const MemoryPrediction& memory);
    void clear();

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    /// Axes, title and the line of the capacity; the bytes of the axis' unit.
    double rescale();

    MemoryPrediction m_memory;
    std::vector<QCPBars*> m_bars;  ///< [memory terms]
    QCPItemStraightLine* m_capacity = nullptr;
};

}  // namespace piper::ui
