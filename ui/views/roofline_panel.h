// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/roofline_model.h"

class QTableView;

namespace piper::ui {

class RooflinePlot;

/// The plots of the panel, which a report shows too.
[[nodiscard]] RooflinePlot* makeGemmRoofline(QWidget* parent);
[[nodiscard]] RooflinePlot* makeLinkRoofline(QWidget* parent);
void showGemms(RooflinePlot& plot, const RooflineModel& model);

/// Each GEMM and each link of the plan under its roof, as two plots and one table.
class RooflinePanel : public QWidget {
    Q_OBJECT
public:
    RooflinePanel(RooflineModel& model, QWidget* parent);

private:
    void take();
    void showRow(int row);

    RooflineModel& m_model;
    RooflinePlot* m_gemms;
    RooflinePlot* m_links;
    QTableView* m_table;
};

}  // namespace piper::ui
