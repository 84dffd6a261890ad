// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <array>
#include <vector>

#include "ui/plots/plot_frame.h"

class QCPBars;
class QCPBarsGroup;

namespace piper::ui {

/// Two bars a category: the first run and the second, in one unit.
class GroupedBarsPlot : public PlotFrame {
    Q_OBJECT
public:
    GroupedBarsPlot(const QString& title, QWidget* parent);

    struct Category {
        QString label;
        double a = 0.0, b = 0.0;  ///< in the axis unit
        QString hover;
    };
    void setCategories(std::vector<Category> categories, const QString& unit);
    void setNames(const QString& a, const QString& b);

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    std::vector<Category> m_categories;
    std::array<QCPBars*, 2> m_bars{};
    QCPBarsGroup* m_group = nullptr;
};

}  // namespace piper::ui
