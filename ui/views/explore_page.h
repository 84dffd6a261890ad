// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;
class QSortFilterProxyModel;
class QTableView;

namespace piper::ui {

/// The search: ranked plans above, reasons of the others below.
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
    void take();
    void choose(const QModelIndex& index);

    Workbench& m_workbench;
    QComboBox* m_objective = nullptr;
    QPushButton* m_search = nullptr;
    QPushButton* m_cancel = nullptr;
    QProgressBar* m_progress = nullptr;
    QLabel* m_status = nullptr;
    QSortFilterProxyModel* m_sorted = nullptr;
    QTableView* m_plans = nullptr;
};

}  // namespace piper::ui
