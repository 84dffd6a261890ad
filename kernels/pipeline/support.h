// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/plan.h"

namespace piper {

/// Every part of a plan that the CPU worker does not execute, one sentence each; empty when it runs
/// the plan. The plan was validated.
[[nodiscard]] std::vector<std::string> unsupportedParts(const Plan& plan);

/// Errors: Unsupported with all of unsupportedParts.
[[nodiscard]] Status canRun(const Plan& plan);

/// The ep rank that holds each expert: [num_experts] -> ep rank.
[[nodiscard]] std::vector<std::int64_t> expertOwners(const Plan& plan);

}  // namespace piper
