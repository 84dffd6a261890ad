// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/pair_view_model.h"

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

/// Ranks up to which a modelled run is drawn rank by rank; above it one rank a stage.
constexpr std::int64_t kEveryRankLimit = 64;
/// First steps of a measured run left out of the comparison: allocations and caches warm up.
constexpr int kSkipSteps = 1;

Result<ShownRun> modelOf(const Run& run) {
    PIPER_ASSIGN(const Plan plan, readPlanText(run.plan_json, "the plan of run " + run.name));
    return modelledRun(plan, plan.layout.world() <= kEveryRankLimit);
}

}  // namespace

struct PairViewModel::Loaded {
    ShownRun first, second;
    std::shared_ptr<const Comparison> comparison;
    QString status;
};

ShownRun shownRun(Run run) {
    auto shared = std::make_shared<const Run>(std::move(run));
    return {shared, makeRunTimelineSource(*shared)};
}

Result<ShownRun> modelledRun(const Plan& plan, bool every_rank) {
    PIPER_ASSIGN(PredictedRun predicted, predictRun(plan, every_rank));
    if (predicted.run.name.empty()) predicted.run.name = "modelled";
    return shownRun(std::move(predicted.run));
}

PairViewModel::PairViewModel(Executor& executor, const RunLibrary& library, PlanViewModel& plan,
                             QObject* parent)
    : QObject(parent),
      m_executor(executor),
      m_library(library),
      m_plan(plan),
      m_status(QStringLiteral("No run is open.")) {}

void PairViewModel::select(const QString& workspace, const QString& a, const QString& b) {
    const auto load = [workspace, &library = m_library, plan = m_plan.sharedPlan(), a, b]() {
        Loaded out;
        const auto take = [&](Result<ShownRun> run, ShownRun& into) {
            if (run.ok())
                into = std::move(run).value();
            else
                out.status = errorText(run.error());
        };
        const auto fromFile = [&](const QString& name) -> Result<ShownRun> {
            PIPER_ASSIGN(Run run, library.load(workspace, name));
            return shownRun(std::move(run));
        };
        if (!b.isEmpty()) take(fromFile(b), out.second);
        if (!a.isEmpty())
            take(fromFile(a), out.first);
        else if (!out.second.empty())
            take(modelOf(*out.second.run), out.first);
        else if (plan)
            take(modelledRun(*plan, plan->layout.world() <= kEveryRankLimit), out.first);
        if (!out.first.empty() && !out.second.empty())
            out.comparison = std::make_shared<const Comparison>(
                compareRuns(*out.first.run, *out.second.run, kSkipSteps));
        return out;
    };
    m_has_second = !b.isEmpty();
    m_plan_revision = m_plan.revision();
    m_executor.submit(QStringLiteral("pair"), Executor::Lane::Background,
                      [load, this](const Executor::Context&) -> Executor::OnWindow {
                          auto loaded = std::make_shared<Loaded>(load());
                          return [loaded, this] { accept(std::move(*loaded)); };
                      });
}

void PairViewModel::followPlan() {
    if (m_has_second || !m_plan.hasPlan() || m_plan.revision() == m_plan_revision) return;
    select({}, {}, {});
}

void PairViewModel::accept(Loaded loaded) {
    m_first = std::move(loaded.first);
    m_second = std::move(loaded.second);
    m_comparison = std::move(loaded.comparison);
    m_status = std::move(loaded.status);
    if (m_status.isEmpty() && m_second.empty())
        m_status = QStringLiteral("No measured run yet: press Run on the runs page.");
    Q_EMIT changed();
}

}  // namespace piper::ui
