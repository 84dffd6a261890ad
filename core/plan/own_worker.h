// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace piper {

/// The worker's tokens are bytes.
inline constexpr std::int64_t kByteVocabulary = 256;

/// Every part of a plan that our own worker does not execute on CPU ranks, one sentence each; empty
/// when it runs the plan. The plan keeps the other rules, or what is said here may not be all.
[[nodiscard]] std::vector<std::string> unsupportedParts(const Plan& plan);

/// The ep rank that holds each expert: [num_experts] -> ep rank.
[[nodiscard]] std::vector<std::int64_t> expertOwners(const Plan& plan);

}  // namespace piper
