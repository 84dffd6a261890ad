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

constexpr std::array<ColumnInfo, RankedPlansModel::ColumnCount> kColumns = {
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

bool isText(int column) {
    return column >= RankedPlansModel::Schedule;
}

QString limitText(const Prediction& p) {
    if (p.bottlenecks.empty()) return {};
    return text(toText(p.bottlenecks.front().kind)).replace(u'_', u' ') + u' ' +
           percentText(p.bottlenecks.front().share_of_step, 0);
}

double numberOf(const RankedPlan& r, int row, int column) {
    const Layout& l = r.plan.layout;
    switch (column) {
        case RankedPlansModel::Rank:
            return row + 1;
        case RankedPlansModel::Mfu:
            return r.prediction.mfu;
        case RankedPlansModel::Step:
            return r.prediction.step.value;
        case RankedPlansModel::Tokens:
            return r.prediction.tokens_per_second_per_device;
        case RankedPlansModel::Memory:
            return r.prediction.memory.peak.value;
        case RankedPlansModel::Bubble:
            return r.prediction.bubble_fraction;
        case RankedPlansModel::Exposed:
            return r.prediction.step.value > 0 ? exposedTotal(r.prediction) / r.prediction.step : 0;
        case RankedPlansModel::Tp:
            return static_cast<double>(l.tp);
        case RankedPlansModel::Cp:
            return static_cast<double>(l.cp);
        case RankedPlansModel::Vpp:
            return static_cast<double>(l.vpp);
        case RankedPlansModel::Zero:
            return static_cast<double>(r.plan.zero_stage);
        case RankedPlansModel::Pp:
            return static_cast<double>(l.pp);
        case RankedPlansModel::Ep:
            return static_cast<double>(l.ep);
        case RankedPlansModel::Dp:
            return static_cast<double>(l.dp);
        case RankedPlansModel::Micro:
            return static_cast<double>(r.plan.micro_batch_size);
        case RankedPlansModel::Schedule:
            return static_cast<double>(r.plan.schedule);
        case RankedPlansModel::Recompute:
            return static_cast<double>(r.plan.recompute.granularity);
        default:
            return r.prediction.bottlenecks.empty()
                       ? 0
                       : r.prediction.bottlenecks.front().share_of_step;
    }
}

QString textOf(const RankedPlan& r, double v, int column) {
    switch (column) {
        case RankedPlansModel::Mfu:
        case RankedPlansModel::Bubble:
        case RankedPlansModel::Exposed:
            return percentText(v);
        case RankedPlansModel::Step:
            return secondsText(Seconds(v));
        case RankedPlansModel::Memory:
            return bytesText(Bytes(v));
        case RankedPlansModel::Schedule:
            return text(toText(r.plan.schedule));
        case RankedPlansModel::Recompute:
            return text(toText(r.plan.recompute.granularity));
        case RankedPlansModel::Limit:
            return limitText(r.prediction);
        default:
            return countText(v);
    }
}

}  // namespace

void RankedPlansModel::setPlans(std::vector<RankedPlan> plans) {
    beginResetModel();
    m_plans = std::move(plans);
    m_numbers.resize(m_plans.size());
    for (std::size_t row = 0; row < m_plans.size(); ++row)
        for (std::size_t column = 0; column < ColumnCount; ++column)
            m_numbers[row][column] =
                numberOf(m_plans[row], static_cast<int>(row), static_cast<int>(column));
    endResetModel();
}

QString RankedPlansModel::cellText(int row, int column) const {
    return textOf(planAt(row), number(row, column), column);
}

int RankedPlansModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_plans.size());
}

int RankedPlansModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant RankedPlansModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::DisplayRole) return cellText(index.row(), index.column());
    if (role == Qt::UserRole) return number(index.row(), index.column());
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (isText(index.column()) ? Qt::AlignLeft : Qt::AlignRight));
    if (role == Qt::ToolTipRole) return bottleneckText(planAt(index.row()).prediction);
    return {};
}

QVariant RankedPlansModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= ColumnCount) return {};
    const ColumnInfo& info = kColumns[static_cast<std::size_t>(section)];
    if (role == Qt::DisplayRole) return QString::fromLatin1(info.title);
    if (role == Qt::ToolTipRole) return QString::fromLatin1(info.definition);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (isText(section) ? Qt::AlignLeft : Qt::AlignRight));
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
