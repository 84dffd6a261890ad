// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPointF>
#include <vector>

#include "ui/plots/plot_frame.h"

namespace piper::ui {

/// One curve over whole steps: the loss of a run.
class LinePlot : public PlotFrame {
    Q_OBJECT
public:
    LinePlot(const QString& title, const QString& x_label, QWidget* parent);

    void setPoints(const std::vector<QPointF>& points, double x_end);

protected:
    void applyPalette() override;
};

}  // namespace piper::ui
