// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/plan.h"
#include "core/run/communication_match.h"

namespace piper {

/// The groups of the plan's grids among the ranks that the run has records of. A rank outside the
/// plan's world is in none. A plan whose degrees do not fit together: groupsByStage().
[[nodiscard]] CommunicationGroups groupsOfPlan(const Plan& plan, const Run& run);

}  // namespace piper
