// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/pair_view_model.h"

#include <algorithm>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

/// Ranks up to which a modelled run is drawn rank by rank; above it one rank a stage.
constexpr std::int64_t kEveryRankLimit = 64;
/// First steps of a measured run left out of the comparison: allocations and caches warm up.
constexpr int kSkipSteps = 1;

/// A run of more events is drawn from its file but not compared: that needs all of them in memory.
constexpr std::int64_t kMostCompared = 1'000'000;

Result<ShownRun> modelOf(const Run& run) {
    PIPER_ASSIGN(const Plan plan, readPlanText(run.plan_json, "the plan of run " + run.name));
    return modelledRun(plan, plan.layout.world() <= kEveryRankLimit);
}

Result<ShownRun> fileRun(const RunLibrary& library, const QString& file, const QString& name) {
    PIPER_ASSIGN(std::shared_ptr<TimelineSource> timeline, library.timeline(file, name));
    const Run* header = &timeline->header();
    return ShownRun{{timeline, header}, timeline};
}

}  // namespace

struct PairViewModel::Loaded {
    ShownRun first, second;
    std::shared_ptr<const Comparison> comparison;
    QString status;
};

std::int64_t ShownRun::numEvents() const {
    std::int64_t events = 0;
    for (const TimelineRow& row : timeline->rows()) events += row.events;
    return events;
}

QString ShownRun::label() const {
    const QString kind =
        run->kind == RunKind::Modelled ? QStringLiteral("Modelled") : QStringLiteral("Measured");
    return run->name.empty() || text(run->name).compare(kind, Qt::CaseInsensitive) == 0
               ? kind
               : kind + QStringLiteral(" · ") + text(run->name);
}

ComparedRuns PairViewModel::compared() const {
    if (m_comparison == nullptr) return {};
    const std::size_t ranks = std::min(m_first.run->ranks.size(), m_second.run->ranks.size());
    return {m_comparison, static_cast<double>(std::max<std::size_t>(1, ranks)), m_first.label(),
            m_second.label()};
}

ShownRun shownRun(Run run) {
    auto shared = std::make_shared<const Run>(std::move(run));
    return {shared, makeRunTimeline(*shared)};
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
        if (!b.isEmpty()) take(fileRun(library, workspace, b), out.second);
        if (!a.isEmpty())
            take(fileRun(library, workspace, a), out.first);
        else if (!out.second.empty())
            take(modelOf(*out.second.run), out.first);
        else if (plan)
            take(modelledRun(*plan, plan->layout.world() <= kEveryRankLimit), out.first);
        if (!out.first.empty() && !out.second.empty()) compare(library, workspace, a, b, out);
        return out;
    };
    m_workspace = workspace;
    m_name_a = a;
    m_name_b = b;
    m_has_second = !b.isEmpty();
    m_plan_revision = m_plan.revision();
    m_executor.submit(QStringLiteral("pair"), Executor::Lane::Background,
                      [load, this](const Executor::Context&) -> Executor::OnWindow {
                          auto loaded = std::make_shared<Loaded>(load());
                          return [loaded, this] { accept(std::move(*loaded)); };
                      });
}

/// Reads the events of the runs that come from a file, for as long as they are compared.
void PairViewModel::compare(const RunLibrary& library, const QString& workspace, const QString& a,
                            const QString& b, Loaded& out) {
    const auto most = std::max(out.first.numEvents(), out.second.numEvents());
    if (most > kMostCompared) {
        out.status =
            QStringLiteral("%1 events are too many to compare here: piperctl compare does.")
                .arg(countText(static_cast<double>(most)));
        return;
    }
    const auto whole = [&](const ShownRun& shown, const QString& name) -> Result<Run> {
        if (name.isEmpty()) return *shown.run;
        return library.load(workspace, name);
    };
    const Result<Run> first = whole(out.first, a), second = whole(out.second, b);
    if (first.ok() && second.ok())
        out.comparison =
            std::make_shared<const Comparison>(compareRuns(*first, *second, kSkipSteps));
    else
        out.status = errorText(first.ok() ? second.error() : first.error());
}

void PairViewModel::followFile(const QString& workspace) {
    const auto lacks = [](const ShownRun& shown) {
        return !shown.empty() && shown.run->notes.contains("digest");
    };
    if (workspace == m_workspace && (lacks(m_first) || lacks(m_second)))
        select(m_workspace, m_name_a, m_name_b);
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
