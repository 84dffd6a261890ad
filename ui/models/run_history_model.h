// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QSortFilterProxyModel>
#include <QStringList>
#include <vector>

#include "ui/models/run_controller.h"

namespace piper::ui {

/// The runs of a workspace file.
class RunHistoryModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column {
        Name,
        Kind,
        Outcome,
        Started,
        Layout,
        Ranks,
        Steps,
        StepTime,
        Loss,
        Tags,
        Note,
        ColumnCount
    };

    using QAbstractTableModel::QAbstractTableModel;

    void setRuns(std::vector<RunSummary> runs);
    [[nodiscard]] const std::vector<RunSummary>& runs() const { return m_runs; }
    [[nodiscard]] const RunSummary* find(const QString& name) const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;
    /// Tags and notes can be edited.
    [[nodiscard]] Qt::ItemFlags flags(const QModelIndex& index) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;

Q_SIGNALS:
    void labelled(const QString& run, const piper::RunLabels& labels);  ///< by setData()
    void refused(const QString& message);  ///< what setData() was given

private:
    std::vector<RunSummary> m_runs;
};

/// Those runs for which all words of a text hold: "#baseline" is a tag they have, any other word is
/// part of what a row says.
class RunFilterModel : public QSortFilterProxyModel {
    Q_OBJECT
public:
    explicit RunFilterModel(RunHistoryModel& runs, QObject* parent = nullptr);
    void setText(const QString& text);
    /// The run of a row of this model, null for none.
    [[nodiscard]] const RunSummary* run(const QModelIndex& index) const;
    /// The row of a run, an invalid index where it is not shown.
    [[nodiscard]] QModelIndex indexOf(const QString& run, int column = 0) const;

protected:
    [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

private:
    RunHistoryModel& m_runs;
    QStringList m_words;
};

}  // namespace piper::ui
