// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "sessions/job_report.h"
#include "sessions/plan_run.h"
#include "ui/models/sessions_view_model.h"

namespace piper::ui {

/// The jobs of the chosen session, newest first, also those of earlier windows.
/// Read when the session is opened or chosen, and on refresh().
class JobsModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Name, State, Steps, Loss, Message, ColumnCount };

    JobsModel(Executor& executor, SessionsViewModel& sessions, QObject* parent = nullptr);

    /// How many go on.
    [[nodiscard]] int going() const;
    /// The newest one that goes on, -1 without one.
    [[nodiscard]] int firstGoing() const;
    /// One sentence: what there is, what is being done, or what went wrong.
    [[nodiscard]] const QString& status() const { return m_status; }
    [[nodiscard]] QString directory(int row) const;
    [[nodiscard]] bool isGoing(int row) const;
    /// The rows as text.
    [[nodiscard]] QString dump() const;

    void refresh();
    /// Ends every rank of that job.
    void cancel(int row);
    /// Collects what that job recorded so far into the workspace file; fetched() follows, of a job
    /// that has ended first with its digest and again when its events are there.
    void fetch(int row, const QString& workspace);

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

Q_SIGNALS:
    void changed();  ///< rows or status()
    void fetched(const QString& workspace, const QString& run);

private:
    struct Fetch {
        std::shared_ptr<Session> session;  ///< of the host that has the job
        std::string directory;
        std::string run;  ///< its name in the workspace
        QString workspace;
        bool digest = false;
    };
    void fetch(const Fetch& what);
    /// On the executor, where the model must not be touched.
    [[nodiscard]] static TransferProgress progressOf(const std::string& directory,
                                                     std::function<void(const QString&)> say);
    void take(const Result<StoredRun>& stored, Fetch what);
    void take(Result<std::vector<JobSummary>> jobs);
    void setStatus(const QString& status);
    [[nodiscard]] QString cell(int row, int column) const;

    Executor& m_executor;
    SessionsViewModel& m_sessions;
    std::vector<JobSummary> m_jobs;
    QString m_status;
};

}  // namespace piper::ui
