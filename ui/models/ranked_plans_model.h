// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <array>
#include <vector>

#include "core/search/search.h"

namespace piper::ui {

/// Ranked plans as a table; Qt::UserRole gives the sortable number of a cell.
class RankedPlansModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column {
        Rank,
        Mfu,
        Step,
        Tokens,
        Memory,
        Bubble,
        Exposed,
        Tp,
        Cp,
        Pp,
        Vpp,
        Ep,
        Dp,
        Micro,
        Zero,
        Schedule,
        Recompute,
        Limit,
        ColumnCount
    };

    using QAbstractTableModel::QAbstractTableModel;

    void setPlans(std::vector<RankedPlan> plans);
    [[nodiscard]] const RankedPlan& planAt(int row) const {
        return m_plans[static_cast<std::size_t>(row)];
    }
    /// What a cell is sorted by, in the unit of core; and what it says.
    [[nodiscard]] double number(int row, int column) const {
        return m_numbers[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
    }
    [[nodiscard]] QString cellText(int row, int column) const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    std::vector<RankedPlan> m_plans;
    std::vector<std::array<double, ColumnCount>> m_numbers;  ///< of every cell: sorting asks often
};

/// Why the other layouts lost.
class RejectionsModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Layout, Rule, Message, ColumnCount };

    using QAbstractTableModel::QAbstractTableModel;

    void setRejections(std::vector<Rejection> rejections);

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    std::vector<Rejection> m_rejections;
};

/// Header and rows, tab separated: for tests and for copying.
[[nodiscard]] QString tableText(const QAbstractItemModel& model);

}  // namespace piper::ui
