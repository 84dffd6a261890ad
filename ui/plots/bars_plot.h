// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "ui/plots/plot_frame.h"

class QCPBars;
class QCPItemStraightLine;

namespace piper::ui {

/// One bar for each of a numbered kind of thing (experts, ranks), and their mean as a line.
class BarsPlot : public PlotFrame {
    Q_OBJECT
public:
    enum class Unit { Count, Bytes };
    /// `kind`: what is numbered, "expert".
    BarsPlot(const QString& kind, QWidget* parent);

    /// Without any the plot is for its owner to hide.
    void setBars(std::vector<std::int64_t> values, Unit unit);

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    QString m_kind;
    QCPBars* m_bars;
    QCPItemStraightLine* m_mean;
    std::vector<std::int64_t> m_values;
    Unit m_unit = Unit::Count;
};

}  // namespace piper::ui
