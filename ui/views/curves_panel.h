// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;
class QTableView;

namespace piper::ui {

class CurvePlot;

/// Capacity and sensitivity: a curve and its points as a table. A click on a point, or Return on
/// its row, takes its plan.
class CurvesPanel : public QWidget {
    Q_OBJECT
public:
    CurvesPanel(Workbench& workbench, QWidget* parent);

Q_SIGNALS:
    /// A plan of a curve was put under the sliders.
    void planTaken();

private:
    QWidget* makeControls();
    void take();
    void choose(int point);

    Workbench& m_workbench;
    QComboBox* m_kind = nullptr;
    QPushButton* m_compute = nullptr;
    QPushButton* m_cancel = nullptr;
    QProgressBar* m_progress = nullptr;
    QLabel* m_status = nullptr;
    CurvePlot* m_plot;
    QTableView* m_points;
    QLabel* m_sentence;
};

}  // namespace piper::ui
