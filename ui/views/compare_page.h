// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <array>

#include "ui/models/comparison_model.h"
#include "ui/models/workbench.h"

class QLabel;
class QComboBox;
class QTableView;

namespace piper::ui {

class GroupedBarsPlot;

/// Two runs side by side: bars per topic, every difference in a table, where the step's time went.
class ComparePage : public QWidget {
    Q_OBJECT
public:
    explicit ComparePage(Workbench& workbench, QWidget* parent = nullptr);

protected:
    void changeEvent(QEvent* event) override;

private:
    static constexpr std::array kPlotTopics = {CompareTopic::Time, CompareTopic::Memory,
                                               CompareTopic::Flops, CompareTopic::Bandwidth};
    QWidget* makeChoice();
    void takeHistory();
    void choose();
    void take();
    void fillPlot(std::size_t index, const Comparison& comparison, double ranks);
    void showLegend();

    Workbench& m_workbench;
    ComparisonModel m_model;
    QComboBox* m_a = nullptr;
    QComboBox* m_b = nullptr;
    QLabel* m_legend = nullptr;
    QLabel* m_sentence = nullptr;
    std::array<GroupedBarsPlot*, 4> m_plots{};
    QTableView* m_table = nullptr;
};

}  // namespace piper::ui
