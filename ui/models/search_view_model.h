// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include "core/search/search.h"
#include "ui/models/executor.h"
#include "ui/models/ranked_plans_model.h"

namespace piper::ui {

/// The search of the explore page: runs on the executor, with progress and cancel.
class SearchViewModel : public QObject {
    Q_OBJECT
public:
    explicit SearchViewModel(Executor& executor, QObject* parent = nullptr);
    /// How the search uses the processors; one after the other unless set.
    void setParallelFor(ParallelFor parallel_for) { m_parallel_for = std::move(parallel_for); }

    [[nodiscard]] RankedPlansModel& plans() { return m_plans; }
    [[nodiscard]] RejectionsModel& rejections() { return m_rejections; }
    [[nodiscard]] bool running() const { return m_running; }
    /// One sentence: what is going on or what was found.
    [[nodiscard]] const QString& status() const { return m_status; }
    [[nodiscard]] double fraction() const { return m_fraction; }

    void start(const Plan& base, std::vector<std::string> fixed, Objective objective,
               std::size_t top);

public Q_SLOTS:
    void cancel();

Q_SIGNALS:
    void changed();

private:
    void progress(std::int64_t done, std::int64_t total, double best_mfu);
    void finish(Result<SearchResult> result);

    Executor& m_executor;
    ParallelFor m_parallel_for = sequentialFor();
    RankedPlansModel m_plans;
    RejectionsModel m_rejections;
    bool m_running = false;
    double m_fraction = 0.0;
    QString m_status;
};

}  // namespace piper::ui
