// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <utility>

#include "ui/models/curves_view_model.h"
#include "ui/models/export_view_model.h"
#include "ui/models/jobs_model.h"
#include "ui/models/pair_view_model.h"
#include "ui/models/pinned_plans_model.h"
#include "ui/models/plan_view_model.h"
#include "ui/models/preferences.h"
#include "ui/models/roofline_view_model.h"
#include "ui/models/runs_view_model.h"
#include "ui/models/schedule_view_model.h"
#include "ui/models/search_view_model.h"
#include "ui/models/sessions_view_model.h"
#include "ui/models/timeline_keys.h"
#include "ui/models/tour.h"

namespace piper::ui {

/// Everything the window shows, without a window: what the pages are given. Executor, library and
/// controller outlive it.
struct Workbench {
    Workbench(Executor& executor_in, const RunLibrary& library, RunController& controller,
              SessionStore store, const QString& preferences_file = {})
        : executor(executor_in),
          preferences(executor, preferences_file),
          timeline_keys(preferences),
          tour(preferences),
          sessions(executor, std::move(store)),
          plan(executor),
          pinned(plan),
          roofline(executor, plan),
          search(executor),
          curves(executor),
          schedule(executor, plan),
          runs(executor, library, controller, plan, sessions),
          jobs(executor, sessions),
          pair(executor, library, plan),
          exporting(executor, plan) {}

    Executor& executor;
    Preferences preferences;
    TimelineKeys timeline_keys;
    Tour tour;
    SessionsViewModel sessions;
    PlanViewModel plan;
    PinnedPlansModel pinned;
    RooflineViewModel roofline;
    SearchViewModel search;
    CurvesViewModel curves;
    ScheduleViewModel schedule;
    RunsViewModel runs;
    JobsModel jobs;
    PairViewModel pair;
    ExportViewModel exporting;
    QString local_plan;  ///< file of a plan this machine can run, empty without one
};

}  // namespace piper::ui
