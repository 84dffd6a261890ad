// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/comparison_model.h"
#include "ui/models/workbench.h"

class QLabel;
class QComboBox;
class QSplitter;
class QTableView;

namespace piper::ui {

class ComparePlots;

/// Two runs side by side: bars per topic, every difference in a table, where the step's time went.
class ComparePage : public QWidget {
    Q_OBJECT
public:
    explicit ComparePage(Workbench& workbench, QWidget* parent = nullptr);

protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    QWidget* makeChoice();
    void takeHistory();
    void choose();
    void take();
    void showLegend();
    void shareWidth();

    Workbench& m_workbench;
    ComparisonModel m_model;
    QComboBox* m_a = nullptr;
    QComboBox* m_b = nullptr;
    QLabel* m_legend = nullptr;
    QLabel* m_sentence = nullptr;
    QSplitter* m_split = nullptr;
    ComparePlots* m_plots = nullptr;
    QTableView* m_table = nullptr;
    bool m_shared_by_hand = false;  ///< the user moved the border
};

}  // namespace piper::ui
