// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "ui/models/curves_view_model.h"
#include "ui/plots/plot_frame.h"

namespace piper::ui {

/// A curve of a few settings, which stand beside each other as names, with a second line behind the
/// first. A click chooses the nearest setting.
class CurvePlot : public PlotFrame {
    Q_OBJECT
public:
    explicit CurvePlot(QWidget* parent);

    void setCurve(const Curve& curve);
    /// -1 for none.
    void setCurrent(int point);

Q_SIGNALS:
    void chosen(int point);

protected:
    void applyPalette() override;
    [[nodiscard]] QString hoverText(const QPoint& position) const override;

private:
    [[nodiscard]] int pointAt(double x) const;

    Curve m_curve;
};

}  // namespace piper::ui
