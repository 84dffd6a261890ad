// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/plan.h"

namespace piper {

/// validatePlan for callers that go no further with a broken plan. Errors: RuleBroken with every
/// broken rule and its message, what to set instead as the hint.
[[nodiscard]] Status validated(const Plan& plan);

}  // namespace piper
