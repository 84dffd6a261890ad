// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/store_library.h"

#include <cmath>
#include <limits>

#include "collectors/store/workspace.h"
#include "core/run/expert_load.h"
#include "core/run/statistics.h"
#include "sessions/plan_run.h"
#include "ui/models/model_card.h"
#include "ui/models/text_format.h"

namespace piper::app {
namespace {

void fillFromRun(const Run& run, ui::RunSummary& row) {
    const RunStatistics statistics = computeStatistics(run, 1);
    row.step_seconds = static_cast<double>(statistics.step_ns_median) * 1e-9;
    row.load = lastStepLoad(run);
    row.rank_peak_bytes = statistics.rank_peak_bytes;
    for (const RankTimeline& rank : run.ranks) {
        for (const StepRecord& step : rank.steps)
            if (std::isfinite(step.loss)) row.losses.emplace_back(step.step + 1, step.loss);
        if (row.losses.empty()) continue;
        row.last_loss = row.losses.back().y();
        return;
    }
}

void fillLaunch(const Run& run, ui::RunSummary& row) {
    row.session = ui::text(noteOf(run, kSessionNote));
    row.launcher = ui::text(noteOf(run, kLauncherNote));
    row.steps_wanted = ui::text(noteOf(run, kStepsNote)).toLongLong();
}

}  // namespace

Result<std::vector<ui::RunSummary>> StoreLibrary::list(const QString& path) const {
    PIPER_ASSIGN(Workspace file, Workspace::open(path.toStdString()));
    PIPER_ASSIGN(const std::vector<RunSummary> rows, file.runs());
    std::vector<ui::RunSummary> out;
    for (const RunSummary& r : rows) {
        ui::RunSummary row;
        row.name = ui::text(r.name);
        row.kind = r.kind;
        row.outcome = r.outcome;
        row.outcome_reason = ui::text(r.outcome_reason);
        row.started_at = ui::text(r.started_at);
        row.ranks = r.ranks;
        row.steps = r.steps;
        row.labels = r.labels;
        row.last_loss = std::numeric_limits<double>::quiet_NaN();
        const Result<Run> run = file.readWithoutEvents(r.name);
        if (run.ok()) {
            Result<Plan> plan = readPlanText(run->plan_json, "plan of run " + r.name);
            if (plan.ok()) {
                row.layout = ui::layoutText(*plan);
                row.plan = std::make_shared<const Plan>(std::move(plan).value());
            }
            fillLaunch(*run, row);
            fillFromRun(*run, row);
        }
        out.push_back(std::move(row));
    }
    return out;
}

Result<Run> StoreLibrary::load(const QString& path, const QString& run) const {
    PIPER_ASSIGN(Workspace file, Workspace::open(path.toStdString()));
    return file.readRun(run.toStdString());
}

Result<std::shared_ptr<TimelineSource>> StoreLibrary::timeline(const QString& path,
                                                               const QString& run) const {
    return Workspace::openTimeline(path.toStdString(), run.toStdString());
}

Status StoreLibrary::label(const QString& path, const QString& run, const RunLabels& labels) const {
    PIPER_ASSIGN(Workspace file, Workspace::open(path.toStdString(), Workspace::Mode::ReadWrite));
    PIPER_TRY(file.setLabels(run.toStdString(), labels));
    return file.close();
}

}  // namespace piper::app
