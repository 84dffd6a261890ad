// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/run_history_model.h"

#include <QLocale>
#include <algorithm>
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
        case RunHistoryModel::Tags:
            return text(tagsText(r.labels.tags));
        case RunHistoryModel::Note:
            return text(r.labels.note);
        default:
            return std::isfinite(r.last_loss) ? QLocale().toString(r.last_loss, 'f', 4)
                                              : QStringLiteral("–");
    }
}

bool isNumber(int column) {
    return column >= RunHistoryModel::Ranks && column <= RunHistoryModel::Loss;
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
    if (role == Qt::DisplayRole || role == Qt::EditRole) return cellText(r, index.column());
    if (role == Qt::ToolTipRole)
        return index.column() == Note ? text(r.labels.note) : r.outcome_reason;
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (isNumber(index.column()) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

QVariant RunHistoryModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static constexpr std::array<const char*, ColumnCount> titles = {
        "Run",   "Kind",      "Outcome", "Started (UTC)", "Layout", "Ranks",
        "Steps", "Step time", "Loss",    "Tags",          "Note"};
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::DisplayRole)
        return QString::fromLatin1(titles[static_cast<std::size_t>(section)]);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (isNumber(section) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

Qt::ItemFlags RunHistoryModel::flags(const QModelIndex& index) const {
    const Qt::ItemFlags flags = QAbstractTableModel::flags(index);
    return index.column() == Tags || index.column() == Note ? flags | Qt::ItemIsEditable : flags;
}

bool RunHistoryModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (role != Qt::EditRole || !(flags(index) & Qt::ItemIsEditable)) return false;
    RunSummary& run = m_runs[static_cast<std::size_t>(index.row())];
    RunLabels labels = run.labels;
    const std::string given = value.toString().trimmed().toStdString();
    if (index.column() == Note) {
        labels.note = given;
    } else {
        Result<std::vector<std::string>> tags = parseTags(given);
        if (!tags.ok()) {
            Q_EMIT refused(errorText(tags.error()));
            return false;
        }
        labels.tags = std::move(tags).value();
    }
    if (labels == run.labels) return true;
    run.labels = std::move(labels);
    Q_EMIT dataChanged(index, index);
    Q_EMIT labelled(run.name, run.labels);
    return true;
}

RunFilterModel::RunFilterModel(RunHistoryModel& runs, QObject* parent)
    : QSortFilterProxyModel(parent), m_runs(runs) {
    setSourceModel(&runs);
}

void RunFilterModel::setText(const QString& text) {
    m_words = text.split(u' ', Qt::SkipEmptyParts);
    invalidateFilter();
}

const RunSummary* RunFilterModel::run(const QModelIndex& index) const {
    const QModelIndex source = mapToSource(index);
    return source.isValid() ? &m_runs.runs()[static_cast<std::size_t>(source.row())] : nullptr;
}

QModelIndex RunFilterModel::indexOf(const QString& run, int column) const {
    for (int row = 0; row < rowCount(); ++row)
        if (this->run(index(row, 0))->name == run) return index(row, column);
    return {};
}

bool RunFilterModel::filterAcceptsRow(int row, const QModelIndex& parent) const {
    const RunSummary& run = m_runs.runs()[static_cast<std::size_t>(row)];
    QString all;
    for (int column = 0; column < m_runs.columnCount(parent); ++column)
        all += cellText(run, column) + u'\n';
    const auto holds = [&](const QString& word) {
        if (!word.startsWith(u'#')) return all.contains(word, Qt::CaseInsensitive);
        return std::ranges::any_of(run.labels.tags, [&](const std::string& tag) {
            return text(tag).compare(word.mid(1), Qt::CaseInsensitive) == 0;
        });
    };
    return std::ranges::all_of(m_words, holds);
}

}  // namespace piper::ui
