// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <memory>
#include <vector>

#include "ui/models/ranked_plans.h"

namespace piper::ui {

/// Ranked plans as a table; Qt::UserRole gives the sortable number of a cell.
class RankedPlansModel : public QAbstractTableModel {
    Q_OBJECT
public:
    using Column = RankedPlans::Column;

    using QAbstractTableModel::QAbstractTableModel;

    void setPlans(std::shared_ptr<const RankedPlans> plans);
    [[nodiscard]] const RankedPlans& plans() const { return *m_plans; }
    [[nodiscard]] std::shared_ptr<const RankedPlans> sharedPlans() const { return m_plans; }
    [[nodiscard]] const RankedPlan& planAt(int row) const {
        return plans()[static_cast<std::size_t>(row)];
    }
    [[nodiscard]] double number(int row, int column) const {
        return plans().number(static_cast<std::size_t>(row), column);
    }
    [[nodiscard]] QString cellText(int row, int column) const {
        return plans().cellText(static_cast<std::size_t>(row), column);
    }

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    std::shared_ptr<const RankedPlans> m_plans = std::make_shared<const RankedPlans>();
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
