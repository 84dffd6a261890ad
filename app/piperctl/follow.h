// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "app/piperctl/command.h"
#include "sessions/plan_run.h"

namespace piper::app {

/// Follows a job to its end; Ctrl-C cancels it. Returns its last status.
[[nodiscard]] Result<JobStatus> follow(PlanRun& run);

/// Exit status of a command that saw a job end so.
[[nodiscard]] int statusOf(const JobStatus& status);

/// Brings what the ranks recorded, or its digest, into a workspace file and says what came.
[[nodiscard]] Outcome collectInto(PlanRun& run, const JobStatus& status, const std::string& output,
                                  const std::string& name, bool json, bool digest = false);

/// Shows how far a transfer is, on a terminal only.
[[nodiscard]] TransferProgress transferProgress(std::string what);

}  // namespace piper::app
