// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QStringList>
#include <span>
#include <vector>

#include "ui/models/ranked_plans_model.h"

namespace piper::ui {

/// The plans of a search over two of their dimensions: in each cell the best value of one number
/// and the plan that has it. Degrees also show the powers of two between those found and one
/// beyond, so that one can ask why there is nothing.
class HeatMapModel : public QAbstractTableModel {
    Q_OBJECT
public:
    using Column = RankedPlans::Column;
    enum Role {
        ShareRole = Qt::UserRole,  ///< from the worst cell (0) to the best (1); invalid when empty
        PlanRole                   ///< row of the ranked plans; -1 when empty
    };

    explicit HeatMapModel(const RankedPlansModel& plans, QObject* parent = nullptr);

    [[nodiscard]] static std::span<const Column> dimensions();
    [[nodiscard]] static std::span<const Column> measures();
    [[nodiscard]] QString title(Column column) const;

    void setDimensions(Column down, Column across);
    void setMeasure(Column measure);
    [[nodiscard]] Column down() const { return m_down; }
    [[nodiscard]] Column across() const { return m_across; }
    [[nodiscard]] Column measure() const { return m_measure; }

    /// The best plan of the search with the two values of that cell in place of its own, as
    /// SearchViewModel::askWhyNot() reads it; empty without a search.
    [[nodiscard]] QString asked(const QModelIndex& index) const;
    /// The cell with the best value of all; invalid when there is none.
    [[nodiscard]] QModelIndex best() const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    struct Cell {
        int plan = -1;
        double value = 0.0;
        int count = 0;
    };
    void rebuild();
    [[nodiscard]] const Cell& cell(const QModelIndex& index) const;
    /// The values of a dimension, as sorted and as the table of plans says them.
    struct Axis {
        std::vector<double> values;
        QStringList texts;
    };
    [[nodiscard]] Axis axisOf(Column column) const;
    [[nodiscard]] QString valueText(Column column, double value) const;

    const RankedPlansModel& m_plans;
    Column m_down = RankedPlans::Ep, m_across = RankedPlans::Pp;
    Column m_measure = RankedPlans::Mfu;
    Axis m_rows, m_columns;
    std::vector<Cell> m_cells;  ///< [rows, columns]
    double m_worst = 0.0, m_best = 0.0;
};

}  // namespace piper::ui
