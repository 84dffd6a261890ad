// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/plan.h"

namespace piper {

/// validatePlan for callers that go no further with a broken plan. Errors: RuleBroken with every
/// broken rule and its message, what to set instead as the hint.
[[nodiscard]] Status validated(const Plan& plan);

/// The two parts of validatePlan: a model or cluster with faults is judged no further, and a search
/// judges both once for all its plans.
[[nodiscard]] std::vector<Violation> validateModelAndCluster(const Plan& plan);
[[nodiscard]] std::vector<Violation> validateChoices(const Plan& plan);

}  // namespace piper
