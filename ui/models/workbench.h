// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>
#include <vector>

#include "ui/models/export_view_model.h"
#include "ui/models/pair_view_model.h"
#include "ui/models/pinned_plans_model.h"
#include "ui/models/plan_view_model.h"
#include "ui/models/runs_view_model.h"
#include "ui/models/schedule_view_model.h"
#include "ui/models/search_view_model.h"
#include "ui/models/session_view_model.h"

namespace piper::ui {

/// Everything the window shows, without a window: what the pages are given. Executor, library and
/// controller outlive it.
struct Workbench {
    Workbench(Executor& executor_in, const RunLibrary& library, RunController& controller)
        : executor(executor_in),
          plan(executor),
          pinned(plan),
          search(executor),
          schedule(executor, plan),
          runs(executor, library, controller, plan),
          pair(executor, library, plan),
          exporting(executor, plan) {}

    Executor& executor;
    PlanViewModel plan;
    PinnedPlansModel pinned;
    SearchViewModel search;
    ScheduleViewModel schedule;
    RunsViewModel runs;
    PairViewModel pair;
    ExportViewModel exporting;
    std::vector<std::unique_ptr<SessionViewModel>> sessions;  ///< the first is this machine
    QString local_plan;  ///< file of a plan this machine can run, empty without one
};

}  // namespace piper::ui
