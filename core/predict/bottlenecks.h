// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "core/predict/predict.h"
#include "core/schedule/step_model.h"

namespace piper {

/// Plays the step again with other costs.
using PlayStep = std::function<Result<StepEstimate>(const StepModel::Adjust&)>;

/// What each kind of cost holds of the step, largest first. A kind's share is what the step would
/// lose without it, everything else unchanged; overlapping causes may add up to more than 1, and
/// `compute` is what no other kind explains.
[[nodiscard]] Result<std::vector<Bottleneck>> findBottlenecks(const Plan& plan,
                                                              const CostModel& cost,
                                                              const StepEstimate& step,
                                                              const PlayStep& play);

/// "42 % of the step is all-to-all bandwidth: without it a step would take 1.2 s".
[[nodiscard]] std::string bottleneckSentence(const std::vector<Bottleneck>& bottlenecks);

}  // namespace piper
