// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "ui/models/run_controller.h"

namespace piper::ui {

/// The runs of a workspace file.
class RunHistoryModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Name, Kind, Outcome, Started, Layout, Ranks, Steps, StepTime, Loss, ColumnCount };

    using QAbstractTableModel::QAbstractTableModel;

    void setRuns(std::vector<RunSummary> runs);
    [[nodiscard]] const std::vector<RunSummary>& runs() const { return m_runs; }
    [[nodiscard]] const RunSummary* find(const QString& name) const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    std::vector<RunSummary> m_runs;
};

}  // namespace piper::ui
