// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/comparison_model.h"

#include <cmath>

#include "core/base/enum_text.h"
#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

const std::vector<ComparisonRow>& rawRows(const Comparison& c, CompareTopic topic) {
    switch (topic) {
        case CompareTopic::Memory:
            return c.memory_bytes;
        case CompareTopic::Flops:
            return c.phase_flops;
        case CompareTopic::Bytes:
        case CompareTopic::Bandwidth:
            return c.phase_bytes;
        default:
            return c.phase_seconds;
    }
}

const ComparisonRow* find(const std::vector<ComparisonRow>& rows, const std::string& key) {
    for (const ComparisonRow& row : rows)
        if (row.key == key) return &row;
    return nullptr;
}

QString signedValue(CompareTopic topic, double difference) {
    return (difference > 0 ? QStringLiteral("+") : QString()) + topicValue(topic, difference);
}

QString signedSeconds(double v) {
    return (v > 0 ? QStringLiteral("+") : QString()) + secondsText(Seconds(v));
}

}  // namespace

QString topicTitle(CompareTopic topic) {
    switch (topic) {
        case CompareTopic::Time:
            return QStringLiteral("Time");
        case CompareTopic::Memory:
            return QStringLiteral("Memory");
        case CompareTopic::Flops:
            return QStringLiteral("FLOPs");
        case CompareTopic::Bytes:
            return QStringLiteral("Bytes sent");
        case CompareTopic::Bandwidth:
            return QStringLiteral("Bandwidth");
    }
    return {};
}

QString topicScope(CompareTopic topic) {
    switch (topic) {
        case CompareTopic::Time:
            return QStringLiteral("per step, mean of ranks");
        case CompareTopic::Memory:
            return QStringLiteral("peak of each term, largest rank");
        case CompareTopic::Flops:
        case CompareTopic::Bytes:
            return QStringLiteral("per step, all ranks");
        case CompareTopic::Bandwidth:
            return QStringLiteral("bytes sent over time, per rank");
    }
    return {};
}

QString topicValue(CompareTopic topic, double value) {
    switch (topic) {
        case CompareTopic::Time:
            return secondsText(Seconds(value));
        case CompareTopic::Memory:
        case CompareTopic::Bytes:
            return bytesText(Bytes(value));
        case CompareTopic::Flops:
            return flopsText(Flops(value));
        case CompareTopic::Bandwidth:
            return text(humanBytesPerSecond(BytesPerSecond(value)));
    }
    return {};
}

std::vector<ComparisonRow> topicRows(const Comparison& comparison, CompareTopic topic,
                                     double ranks) {
    std::vector<ComparisonRow> out;
    for (ComparisonRow row : rawRows(comparison, topic)) {
        if (topic == CompareTopic::Bandwidth) {
            const ComparisonRow* time = find(comparison.phase_seconds, row.key);
            if (time == nullptr || ranks <= 0) continue;
            row.a = time->a > 0 ? row.a / ranks / time->a : 0.0;
            row.b = time->b > 0 ? row.b / ranks / time->b : 0.0;
        }
        if (row.a != 0.0 || row.b != 0.0) out.push_back(row);
    }
    return out;
}

QString rowLabel(CompareTopic topic, const std::string& key) {
    if (topic == CompareTopic::Memory) {
        const Result<MemoryTerm> term = parseEnum<MemoryTerm>(key, "memory term");
        return term.ok() ? memoryTermLabel(*term) : text(key);
    }
    const Result<Phase> phase = parseEnum<Phase>(key, "phase");
    return phase.ok() ? phaseLabel(*phase) : text(key);
}

void ComparisonModel::setRuns(const ComparedRuns& runs) {
    beginResetModel();
    m_lines.clear();
    if (runs.comparison != nullptr)
        for (const CompareTopic topic : kCompareTopics)
            for (ComparisonRow& row : topicRows(*runs.comparison, topic, runs.num_ranks))
                m_lines.push_back({topic, std::move(row)});
    m_a = runs.a;
    m_b = runs.b;
    endResetModel();
}

int ComparisonModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_lines.size());
}

int ComparisonModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant ComparisonModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const auto row = static_cast<std::size_t>(index.row());
    const auto& [topic, values] = m_lines[row];
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (index.column() >= A ? Qt::AlignRight : Qt::AlignLeft));
    if (role == Qt::ToolTipRole) return topicScope(topic);
    if (role != Qt::DisplayRole) return {};
    switch (index.column()) {
        case Topic:
            // The title stands once, at the first row of its block.
            return row == 0 || m_lines[row - 1].topic != topic ? topicTitle(topic) : QString();
        case Key:
            return rowLabel(topic, values.key);
        case A:
            return topicValue(topic, values.a);
        case B:
            return topicValue(topic, values.b);
        case Difference:
            return signedValue(topic, values.difference());
        default:
            return differenceText(values.a, values.b);
    }
}

QVariant ComparisonModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (section >= A ? Qt::AlignRight : Qt::AlignLeft));
    if (role != Qt::DisplayRole) return {};
    switch (section) {
        case Topic:
            return QStringLiteral("Quantity");
        case Key:
            return QStringLiteral("Phase or term");
        case A:
            return m_a;
        case B:
            return m_b;
        case Difference:
            return QStringLiteral("B − A");
        default:
            return QStringLiteral("(B − A) ÷ A");
    }
}

QString attributionText(const Attribution& a) {
    const double difference = a.step_b_seconds - a.step_a_seconds;
    return QStringLiteral(
               "Step: %1 → %2 (%3, %4). Of this compute %5, exposed communication %6, "
               "bubble %7, rest %8.")
        .arg(secondsText(Seconds(a.step_a_seconds)), secondsText(Seconds(a.step_b_seconds)),
             signedSeconds(difference), differenceText(a.step_a_seconds, a.step_b_seconds),
             signedSeconds(a.compute_seconds), signedSeconds(a.exposed_communication_seconds),
             signedSeconds(a.bubble_seconds), signedSeconds(a.rest_seconds));
}

}  // namespace piper::ui
