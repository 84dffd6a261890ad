// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "ui/models/ranked_plans.h"
#include "ui/plots/plot_frame.h"

namespace piper::ui {

/// Plans as points: peak memory against MFU, with the line of those that no other beats in both.
/// A rectangle drawn with the mouse brushes plans, a click chooses the nearest, a click beside all
/// of them takes the brush away.
class PlansPlot : public PlotFrame {
    Q_OBJECT
public:
    explicit PlansPlot(QWidget* parent);

    void setPlans(std::shared_ptr<const RankedPlans> plans);
    /// The others are drawn faintly.
    void setShown(const std::vector<int>& rows);
    /// -1 for none.
    void setCurrent(int row);

Q_SIGNALS:
    void brushed(const std::set<int>& rows);
    void chosen(int row);
    void cleared();

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    void released(const QRect& area);
    /// The nearest shown point within a few pixels; -1 without one.
    [[nodiscard]] int pointAt(const QPoint& position) const;
    /// GiB, percent.
    [[nodiscard]] std::pair<double, double> placeOf(int row) const;
    [[nodiscard]] QPointF pixelOf(int row) const;
    void setFrontier();
    void fillGraph(int graph, const std::vector<int>& rows);

    std::shared_ptr<const RankedPlans> m_plans = std::make_shared<const RankedPlans>();
    std::vector<int> m_shown;
    QPointF m_memory_range, m_mfu_range;  ///< least, most; GiB and percent
};

}  // namespace piper::ui
