// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;
class QLabel;
class QLineEdit;
class QProgressBar;
class QPushButton;
class QTabWidget;
class QTableView;

namespace piper::ui {

class PlansFilterModel;
class PlansPlot;

/// The search: ranked plans above, views of them and curves around them below.
class ExplorePage : public QWidget {
    Q_OBJECT
public:
    explicit ExplorePage(Workbench& workbench, QWidget* parent = nullptr);

    void startSearch();

Q_SIGNALS:
    /// A plan was put under the sliders.
    void planChosen();

private:
    QWidget* makeControls();
    QWidget* makePlans();
    QWidget* makeBelow();
    QWidget* makeReasons();
    QWidget* makeWhyNot();
    void askWhyNot();
    void answer(const QString& said);
    void showRow(int row);
    void takeRow(int row);
    void sayTaken();
    void connectPlot();
    void applyFilter();
    void takePlans();
    void take();
    void choose(const QModelIndex& index);

    Workbench& m_workbench;
    QComboBox* m_objective = nullptr;
    QPushButton* m_search = nullptr;
    QPushButton* m_cancel = nullptr;
    QProgressBar* m_progress = nullptr;
    QLabel* m_status = nullptr;
    PlansFilterModel* m_filter = nullptr;
    QTableView* m_plans = nullptr;
    int m_chosen = -1;  ///< ranked plan that the table stands at
    QTableView* m_rejections = nullptr;
    PlansPlot* m_plot = nullptr;
    QLineEdit* m_filter_text = nullptr;
    QLabel* m_filter_note = nullptr;
    QTabWidget* m_tabs = nullptr;
    QLineEdit* m_why_not = nullptr;
    QLabel* m_answer = nullptr;
};

}  // namespace piper::ui
