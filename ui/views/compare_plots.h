// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <array>

#include "ui/models/comparison_model.h"

class QGridLayout;

namespace piper::ui {

class GroupedBarsPlot;

/// Time, memory, FLOPs and bandwidth of two runs as bars beside each other.
class ComparePlots : public QWidget {
    Q_OBJECT
public:
    explicit ComparePlots(QWidget* parent = nullptr);
    /// Empty while there are not two.
    void setRuns(const ComparedRuns& runs);

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    static constexpr std::array kPlotted = {CompareTopic::Time, CompareTopic::Memory,
                                            CompareTopic::Flops, CompareTopic::Bandwidth};
    /// In so many columns.
    void place(int columns);
    void fill(std::size_t index, const Comparison& comparison, double ranks);

    QGridLayout* m_grid;
    int m_columns = 0;
    std::array<GroupedBarsPlot*, kPlotted.size()> m_plots{};
};

}  // namespace piper::ui
