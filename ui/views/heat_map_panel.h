// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/heat_map_model.h"

class QComboBox;
class QTableView;

namespace piper::ui {

/// The heat map with the lists of what it is over. Arrows move between cells; a click or Return
/// takes a cell's plan, or asks why there is none.
class HeatMapPanel : public QWidget {
    Q_OBJECT
public:
    HeatMapPanel(HeatMapModel& model, QWidget* parent);

Q_SIGNALS:
    /// Row of the ranked plans.
    void planChosen(int row);
    void whyNotAsked(const QString& asked);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QComboBox* addList(const char* name, const QString& title,
                       std::span<const HeatMapModel::Column> columns, HeatMapModel::Column current);
    void applyLists();
    void choose(const QModelIndex& index);
    void fit();
    /// As wide as the table where the cells have room, else side by side to scroll.
    void fitColumns();

    HeatMapModel& m_model;
    QComboBox* m_down;
    QComboBox* m_across;
    QComboBox* m_measure;
    QTableView* m_table;
};

}  // namespace piper::ui
