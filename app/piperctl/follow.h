// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "app/piperctl/command.h"
#include "sessions/plan_run.h"

namespace piper::app {

/// Follows a job to its end; Ctrl-C cancels it. Returns its last status.
[[nodiscard]] Result<JobStatus> follow(PlanRun& run);

/// Exit status of a command that saw a job end so.
[[nodiscard]] int statusOf(const JobStatus& status);

/// Which part of what the ranks recorded is brought.
struct CollectedPart {
    bool digest = false;
    std::set<std::int32_t> ranks;  ///< empty: all
};

/// Brings what the ranks recorded, or a part of it, into a workspace file and says what came.
[[nodiscard]] Outcome collectInto(PlanRun& run, const JobStatus& status, const std::string& output,
                                  const std::string& name, bool json,
                                  const CollectedPart& part = {});

/// Shows how far a transfer is, on a terminal only.
[[nodiscard]] TransferProgress transferProgress(std::string what);

}  // namespace piper::app
