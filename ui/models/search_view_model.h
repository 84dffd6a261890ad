// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include "core/search/search.h"
#include "core/search/why_not.h"
#include "ui/models/executor.h"
#include "ui/models/heat_map_model.h"
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
    [[nodiscard]] HeatMapModel& heatMap() { return m_heat_map; }
    [[nodiscard]] RejectionsModel& rejections() { return m_rejections; }
    [[nodiscard]] bool running() const { return m_running; }
    /// One sentence: what is going on or what was found.
    [[nodiscard]] const QString& status() const { return m_status; }
    [[nodiscard]] double fraction() const { return m_fraction; }

    void start(const Plan& base, std::vector<std::string> fixed, Objective objective,
               std::size_t top);

    /// Why a plan ("tp=8 pp=8 ep=8 recompute=full"; degrees not named are 1, dp follows) is not the
    /// best of the last search, or of the plan given when there was none.
    void askWhyNot(const Plan& base, const QString& asked);
    [[nodiscard]] const QString& whyNotText() const { return m_why_not; }

public Q_SLOTS:
    void cancel();

Q_SIGNALS:
    void changed();
    void answered();

private:
    void progress(std::int64_t done, std::int64_t total, double best_mfu);
    struct Found {
        SearchResult result;  ///< without its plans
        std::shared_ptr<const RankedPlans> plans;
    };
    void finish(Result<Found> found);

    Executor& m_executor;
    ParallelFor m_parallel_for = sequentialFor();
    RankedPlansModel m_plans;
    HeatMapModel m_heat_map{m_plans};
    RejectionsModel m_rejections;
    bool m_running = false;
    double m_fraction = 0.0;
    QString m_status;
    SearchSpace m_asked, m_space;  ///< of the search that runs, and of the plans shown
    QString m_why_not;
};

}  // namespace piper::ui
