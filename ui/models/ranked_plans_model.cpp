// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/ranked_plans_model.h"

#include <QStringList>
#include <array>

#include "ui/models/plan_summary.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

struct ColumnInfo {
    const char* title;
    const char* definition;
};

constexpr std::array<ColumnInfo, RankedPlans::ColumnCount> kColumns = {
    {{"#", "Rank by the objective of the search."},
     {"MFU", "Model FLOPs over step time, devices and dense peak."},
     {"Step", "Predicted time of one optimizer step."},
     {"Tokens/s/device", "Tokens of the global batch over step time and devices."},
     {"Memory", "Predicted peak of the fullest stage."},
     {"Bubble", "Share of the step in which compute waits."},
     {"Exposed", "Communication that compute does not hide, as a share of the step."},
     {"TP", "Tensor parallel degree."},
     {"CP", "Context parallel degree."},
     {"PP", "Pipeline stages."},
     {"VPP", "Model chunks a stage."},
     {"EP", "Expert parallel degree."},
     {"DP", "Data parallel replicas."},
     {"Micro", "Sequences of a micro-batch."},
     {"ZeRO", "Stage of sharding over replicas: optimizer 1, gradients 2, weights 3."},
     {"Schedule", "Order of forward and backward passes on a stage."},
     {"Recompute", "What the backward pass computes again instead of keeping."},
     {"Limited by", "The largest bottleneck and its share of the step."}}};

}  // namespace

void RankedPlansModel::setPlans(std::shared_ptr<const RankedPlans> plans) {
    beginResetModel();
    m_plans = std::move(plans);
    endResetModel();
}

int RankedPlansModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(plans().size());
}

int RankedPlansModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : RankedPlans::ColumnCount;
}

QVariant RankedPlansModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::DisplayRole) return cellText(index.row(), index.column());
    if (role == Qt::UserRole) return number(index.row(), index.column());
    if (role == Qt::TextAlignmentRole)
        return QVariant(
            Qt::AlignVCenter |
            (isText(static_cast<Column>(index.column())) ? Qt::AlignLeft : Qt::AlignRight));
    if (role == Qt::ToolTipRole) return bottleneckText(planAt(index.row()).prediction);
    return {};
}

QVariant RankedPlansModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= RankedPlans::ColumnCount)
        return {};
    const ColumnInfo& info = kColumns[static_cast<std::size_t>(section)];
    if (role == Qt::DisplayRole) return QString::fromLatin1(info.title);
    if (role == Qt::ToolTipRole) return QString::fromLatin1(info.definition);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (isText(static_cast<Column>(section)) ? Qt::AlignLeft : Qt::AlignRight));
    return {};
}

void RejectionsModel::setRejections(std::vector<Rejection> rejections) {
    beginResetModel();
    m_rejections = std::move(rejections);
    endResetModel();
}

int RejectionsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_rejections.size());
}

int RejectionsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant RejectionsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || (role != Qt::DisplayRole && role != Qt::ToolTipRole)) return {};
    const Rejection& r = m_rejections[static_cast<std::size_t>(index.row())];
    switch (index.column()) {
        case Layout:
            return text(r.layout);
        case Rule:
            return text(r.rule).replace(u'_', u' ');
        default:
            return text(r.message);
    }
}

QVariant RejectionsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static constexpr std::array<const char*, ColumnCount> titles = {"Layout", "Rule", "Why"};
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return QString::fromLatin1(titles[static_cast<std::size_t>(section)]);
}

QString tableText(const QAbstractItemModel& model) {
    QString out;
    QStringList cells;
    for (int c = 0; c < model.columnCount(); ++c)
        cells << model.headerData(c, Qt::Horizontal, Qt::DisplayRole).toString();
    out += cells.join(u'\t') + u'\n';
    for (int r = 0; r < model.rowCount(); ++r) {
        cells.clear();
        for (int c = 0; c < model.columnCount(); ++c)
            cells << model.data(model.index(r, c), Qt::DisplayRole).toString();
        out += cells.join(u'\t') + u'\n';
    }
    return out;
}

}  // namespace piper::ui
