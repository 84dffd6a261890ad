// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <optional>
#include <set>
#include <vector>

#include "ui/models/ranked_plans_model.h"

namespace piper::ui {

/// Ranked plans, sorted by number and narrowed down by a text and by a brushed set of rows.
///
/// The text is words that all must hold: "pp<=4 ep=8 memory<70 mfu>=40 interleaved". A comparison
/// names a column (docs/workbench.md): percent for shares, GiB for memory, seconds for the step;
/// any other word is looked for in schedule, recompute and bottleneck.
///
/// No QSortFilterProxyModel: that one takes rows away run by run, which a hundred thousand rows
/// make seconds of.
class PlansFilterModel : public QAbstractTableModel {
    Q_OBJECT
public:
    explicit PlansFilterModel(RankedPlansModel& plans, QObject* parent = nullptr);

    /// What is wrong with the text, empty when it took effect; else the one before stays.
    QString setText(const QString& text);
    /// Rows of the ranked plans; nullopt: all.
    void setBrushed(std::optional<std::set<int>> rows);
    /// Rows of the ranked plans that are shown, in their own order.
    [[nodiscard]] std::vector<int> shownRows() const;
    /// The ranked plan of a row of this model.
    [[nodiscard]] int planRow(int row) const { return m_shown[static_cast<std::size_t>(row)]; }
    /// The row of a ranked plan; -1 where it is not shown.
    [[nodiscard]] int rowOf(int plan) const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;
    void sort(int column, Qt::SortOrder order) override;

Q_SIGNALS:
    void shownChanged();

private:
    enum class Comparison { Less, LessEqual, Equal, NotEqual, GreaterEqual, Greater };
    struct Condition {
        RankedPlans::Column column = RankedPlans::Rank;
        Comparison comparison = Comparison::Equal;
        double value = 0.0;
        double scale = 1.0;  ///< of the column's number in the text's unit
        [[nodiscard]] bool holds(double number) const;
    };

    [[nodiscard]] static QString read(const QString& word, std::vector<Condition>& conditions,
                                      std::vector<QString>& words);
    void sortRows();
    void filterRows();
    void filterChanged();

    const RankedPlansModel& m_plans;
    std::vector<Condition> m_conditions;
    std::vector<QString> m_words;
    std::optional<std::set<int>> m_brushed;
    int m_column = RankedPlans::Rank;
    Qt::SortOrder m_order = Qt::AscendingOrder;
    std::vector<int> m_sorted;  ///< every plan
    std::vector<int> m_shown;   ///< those that are shown, in the same order
    std::vector<int> m_row_of;  ///< [plan]; -1: not shown
};

}  // namespace piper::ui
