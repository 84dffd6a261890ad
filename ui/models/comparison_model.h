// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <array>
#include <vector>

#include "ui/models/pair_view_model.h"

namespace piper::ui {

/// Which figures of a comparison a table or plot shows.
enum class CompareTopic { Time, Memory, Flops, Bytes, Bandwidth };
inline constexpr std::array kCompareTopics = {CompareTopic::Time, CompareTopic::Memory,
                                              CompareTopic::Flops, CompareTopic::Bytes,
                                              CompareTopic::Bandwidth};

[[nodiscard]] QString topicTitle(CompareTopic topic);
/// "per step, mean of ranks": what the numbers are taken over.
[[nodiscard]] QString topicScope(CompareTopic topic);
/// A value of the topic with its unit.
[[nodiscard]] QString topicValue(CompareTopic topic, double value);
/// Rows of the topic that hold anything, in the order of the vocabulary. Bandwidth is bytes over
/// time of each communication phase, per rank.
[[nodiscard]] std::vector<ComparisonRow> topicRows(const Comparison& comparison, CompareTopic topic,
                                                   double ranks);
/// "head_loss" -> "Head and loss".
[[nodiscard]] QString rowLabel(CompareTopic topic, const std::string& key);

/// All topics one below the other: what, A, B, difference, difference in percent.
class ComparisonModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Topic, Key, A, B, Difference, Percent, ColumnCount };

    using QAbstractTableModel::QAbstractTableModel;

    void setRuns(const ComparedRuns& runs);

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    struct Line {
        CompareTopic topic;
        ComparisonRow row;
    };
    std::vector<Line> m_lines;
    QString m_a = ComparedRuns().a, m_b = ComparedRuns().b;
};

/// "B is 12.0 ms slower: compute +8.0 ms, exposed communication +3.0 ms, bubble +1.0 ms."
[[nodiscard]] QString attributionText(const Attribution& attribution);

}  // namespace piper::ui
