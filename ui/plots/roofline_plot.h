// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "ui/models/roofline_model.h"
#include "ui/plots/plot_frame.h"

namespace piper::ui {

/// Rates over intensity or message size, both logarithmic, under their roofs. Full points rest on
/// measured or published times, hollow ones on a model. A click chooses the nearest point.
class RooflinePlot : public PlotFrame {
    Q_OBJECT
public:
    struct Axes {
        QString x_label, y_label;
        double x_unit = 1.0, y_unit = 1.0;  ///< what one of the axis is in the points' unit
    };
    RooflinePlot(const QString& title, Axes axes, QWidget* parent);

    /// One roof for all, bent at peak / bandwidth.
    void setRoof(double peak, double bandwidth);
    void setPoints(std::vector<RoofPoint> points);
    /// -1 for none.
    void setCurrent(int point);

Q_SIGNALS:
    void chosen(int point);

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    void draw();
    void drawRoofs(double from, double to);
    [[nodiscard]] int pointAt(const QPointF& position) const;

    Axes m_axes;
    double m_peak = 0.0, m_bandwidth = 0.0;
    std::vector<RoofPoint> m_points;
    int m_current = -1;
};

}  // namespace piper::ui
