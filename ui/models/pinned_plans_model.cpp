// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/pinned_plans_model.h"

#include <QFont>

#include "ui/models/plan_summary.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

struct RowInfo {
    const char* label;
    QString (*text)(const Plan&, const Prediction*);
};

QString predicted(const Prediction* p, QString (*text)(const Prediction&)) {
    return p != nullptr ? text(*p) : QStringLiteral("–");
}

constexpr auto kRows = std::to_array<RowInfo>({
    {"MFU",
     [](const Plan&, const Prediction* p) {
         return predicted(p, [](const Prediction& q) { return percentText(q.mfu); });
     }},
    {"Step time",
     [](const Plan&, const Prediction* p) {
         return predicted(p, [](const Prediction& q) { return secondsText(q.step); });
     }},
    {"Tokens/s per device",
     [](const Plan&, const Prediction* p) {
         return predicted(
             p, [](const Prediction& q) { return countText(q.tokens_per_second_per_device); });
     }},
    {"Peak memory",
     [](const Plan&, const Prediction* p) {
         return predicted(p, [](const Prediction& q) { return bytesText(q.memory.peak); });
     }},
    {"Bubble",
     [](const Plan&, const Prediction* p) {
         return predicted(p, [](const Prediction& q) { return percentText(q.bubble_fraction); });
     }},
    {"Exposed communication",
     [](const Plan&, const Prediction* p) {
         return predicted(p, [](const Prediction& q) { return secondsText(exposedTotal(q)); });
     }},
    {"Devices", [](const Plan& p, const Prediction*) { return countText(p.layout.world()); }},
    {"TP, CP, ETP",
     [](const Plan& p, const Prediction*) {
         return QStringLiteral("%1, %2, %3").arg(p.layout.tp).arg(p.layout.cp).arg(p.layout.etp);
     }},
    {"PP, VPP",
     [](const Plan& p, const Prediction*) {
         return QStringLiteral("%1, %2").arg(p.layout.pp).arg(p.layout.vpp);
     }},
    {"EP, DP",
     [](const Plan& p, const Prediction*) {
         return QStringLiteral("%1, %2").arg(p.layout.ep).arg(p.layout.dp);
     }},
    {"Micro-batch, global batch",
     [](const Plan& p, const Prediction*) {
         return countText(p.micro_batch_size) + QStringLiteral(", ") +
                countText(p.global_batch_size);
     }},
    {"Sequence", [](const Plan& p, const Prediction*) { return countText(p.seq_len); }},
    {"Schedule", [](const Plan& p, const Prediction*) { return text(toText(p.schedule)); }},
    {"Recompute",
     [](const Plan& p, const Prediction*) { return text(toText(p.recompute.granularity)); }},
    {"ZeRO",
     [](const Plan& p, const Prediction*) { return countText(std::int64_t{p.zero_stage}); }},
    {"Layers", [](const Plan& p, const Prediction*) { return countText(p.model.num_layers); }},
    {"Experts, top-k, width",
     [](const Plan& p, const Prediction*) {
         if (!p.model.moe) return QStringLiteral("dense");
         const MoeSpec& moe = *p.model.moe;
         return countText(moe.num_experts) + QStringLiteral(", ") + countText(moe.router_topk) +
                QStringLiteral(", ") + countText(moe.moe_ffn_hidden_size);
     }},
});

}  // namespace

PinnedPlansModel::PinnedPlansModel(PlanViewModel& plan, QObject* parent)
    : QAbstractTableModel(parent), m_plan(plan), m_columns(1) {
    connect(&plan, &PlanViewModel::predictionChanged, this, &PinnedPlansModel::takePrediction);
    takePrediction();
}

PinnedPlansModel::Cells PinnedPlansModel::cellsOf(const Plan& plan, const Prediction* prediction) {
    Cells out;
    for (const RowInfo& row : kRows) out.push_back(row.text(plan, prediction));
    return out;
}

bool PinnedPlansModel::canPin() const {
    return m_pins.size() < kMostPins && m_plan.hasPlan() && m_plan.prediction() != nullptr;
}

void PinnedPlansModel::takePrediction() {
    m_columns[0] =
        m_plan.hasPlan() ? cellsOf(m_plan.plan(), m_plan.prediction()) : Cells(kRows.size());
    // Whether a pin differs follows from the first column.
    Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

void PinnedPlansModel::pin() {
    if (!canPin()) return;
    const int column = columnCount();
    beginInsertColumns({}, column, column);
    m_pins.push_back({m_plan.plan(), *m_plan.prediction()});
    m_columns.push_back(cellsOf(m_pins.back().plan, &m_pins.back().prediction));
    endInsertColumns();
    Q_EMIT pinsChanged();
}

void PinnedPlansModel::unpin(int column) {
    if (column < 1 || column >= columnCount()) return;
    beginRemoveColumns({}, column, column);
    m_pins.erase(m_pins.begin() + (column - 1));
    m_columns.erase(m_columns.begin() + column);
    endRemoveColumns();
    Q_EMIT pinsChanged();
}

void PinnedPlansModel::choose(int column) {
    if (column < 1 || column >= columnCount()) return;
    m_plan.setPlan(m_pins[static_cast<std::size_t>(column) - 1].plan);
}

int PinnedPlansModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(kRows.size());
}

int PinnedPlansModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_columns.size());
}

QVariant PinnedPlansModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const auto row = static_cast<std::size_t>(index.row());
    const QString& cell = m_columns[static_cast<std::size_t>(index.column())][row];
    const bool differs = cell != m_columns[0][row];
    if (role == Qt::DisplayRole) return cell;
    if (role == DiffersRole) return differs;
    if (role == Qt::TextAlignmentRole) return QVariant(Qt::AlignVCenter | Qt::AlignRight);
    if (role == Qt::FontRole && differs) {
        QFont font;
        font.setBold(true);
        return font;
    }
    return {};
}

QVariant PinnedPlansModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (role == Qt::TextAlignmentRole && orientation == Qt::Horizontal)
        return QVariant(Qt::AlignVCenter | Qt::AlignRight);
    if (role != Qt::DisplayRole) return {};
    if (orientation == Qt::Vertical)
        return QString::fromLatin1(kRows[static_cast<std::size_t>(section)].label);
    return section == 0 ? QStringLiteral("Now") : QStringLiteral("Pin %1").arg(section);
}

}  // namespace piper::ui
