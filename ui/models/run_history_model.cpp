// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/run_history_model.h"

#include <QLocale>
#include <array>
#include <cmath>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

QString outcomeText(RunOutcome outcome) {
    switch (outcome) {
        case RunOutcome::Running:
            return QStringLiteral("running");
        case RunOutcome::Finished:
            return QStringLiteral("finished");
        case RunOutcome::Failed:
            return QStringLiteral("failed");
        case RunOutcome::Cancelled:
            return QStringLiteral("cancelled");
    }
    return {};
}

QString cellText(const RunSummary& r, int column) {
    switch (column) {
        case RunHistoryModel::Name:
            return r.name;
        case RunHistoryModel::Kind:
            return r.kind == RunKind::Modelled ? QStringLiteral("modelled")
                                               : QStringLiteral("measured");
        case RunHistoryModel::Outcome:
            return outcomeText(r.outcome);
        case RunHistoryModel::Started:
            return r.started_at;
        case RunHistoryModel::Layout:
            return r.layout;
        case RunHistoryModel::Ranks:
            return countText(static_cast<double>(r.ranks));
        case RunHistoryModel::Steps:
            return countText(static_cast<double>(r.steps));
        case RunHistoryModel::StepTime:
            return r.step_seconds > 0 ? secondsText(Seconds(r.step_seconds)) : QStringLiteral("–");
        default:
            return std::isfinite(r.last_loss) ? QLocale().toString(r.last_loss, 'f', 4)
                                              : QStringLiteral("–");
    }
}

bool isNumber(int column) {
    return column >= RunHistoryModel::Ranks;
}

}  // namespace

void RunHistoryModel::setRuns(std::vector<RunSummary> runs) {
    beginResetModel();
    m_runs = std::move(runs);
    endResetModel();
}

const RunSummary* RunHistoryModel::find(const QString& name) const {
    for (const RunSummary& r : m_runs)
        if (r.name == name) return &r;
    return nullptr;
}

int RunHistoryModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_runs.size());
}

int RunHistoryModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant RunHistoryModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const RunSummary& r = m_runs[static_cast<std::size_t>(index.row())];
    if (role == Qt::DisplayRole) return cellText(r, index.column());
    if (role == Qt::ToolTipRole) return r.outcome_reason;
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (isNumber(index.column()) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

QVariant RunHistoryModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static constexpr std::array<const char*, ColumnCount> titles = {
        "Run", "Kind", "Outcome", "Started (UTC)", "Layout", "Ranks", "Steps", "Step time", "Loss"};
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::DisplayRole)
        return QString::fromLatin1(titles[static_cast<std::size_t>(section)]);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (isNumber(section) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

}  // namespace piper::ui
