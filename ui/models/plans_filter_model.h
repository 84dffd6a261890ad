// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSortFilterProxyModel>
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
class PlansFilterModel : public QSortFilterProxyModel {
    Q_OBJECT
public:
    explicit PlansFilterModel(RankedPlansModel& plans, QObject* parent = nullptr);

    /// What is wrong with the text, empty when it took effect; else the one before stays.
    QString setText(const QString& text);
    /// Rows of the ranked plans; nullopt: all.
    void setBrushed(std::optional<std::set<int>> rows);
    /// Rows of the ranked plans that are shown, in their own order.
    [[nodiscard]] std::vector<int> shownRows() const;

Q_SIGNALS:
    void shownChanged();

protected:
    [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
    [[nodiscard]] bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

private:
    enum class Comparison { Less, LessEqual, Equal, NotEqual, GreaterEqual, Greater };
    struct Condition {
        int column = 0;
        Comparison comparison = Comparison::Equal;
        double value = 0.0;
        double scale = 1.0;  ///< of the column's number in the text's unit
        [[nodiscard]] bool holds(double number) const;
    };

    [[nodiscard]] static QString read(const QString& word, std::vector<Condition>& conditions,
                                      std::vector<QString>& words);
    [[nodiscard]] bool contains(int row, const QString& word) const;
    void filterChanged();

    const RankedPlansModel& m_plans;
    std::vector<Condition> m_conditions;
    std::vector<QString> m_words;
    std::optional<std::set<int>> m_brushed;
};

}  // namespace piper::ui
