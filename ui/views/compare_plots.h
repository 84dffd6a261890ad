// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <array>

#include "ui/models/comparison_model.h"

namespace piper::ui {

class GroupedBarsPlot;

/// Time, memory, FLOPs and bandwidth of two runs as bars beside each other.
class ComparePlots : public QWidget {
    Q_OBJECT
public:
    explicit ComparePlots(QWidget* parent = nullptr);
    /// Empty while there are not two.
    void setRuns(const ComparedRuns& runs);

private:
    static constexpr std::array kPlotted = {CompareTopic::Time, CompareTopic::Memory,
                                            CompareTopic::Flops, CompareTopic::Bandwidth};
    void fill(std::size_t index, const Comparison& comparison, double ranks);

    std::array<GroupedBarsPlot*, kPlotted.size()> m_plots{};
};

}  // namespace piper::ui
