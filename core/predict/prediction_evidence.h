// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "core/cost/cost.h"
#include "core/predict/predict.h"

namespace piper {

/// Evidence of every number of the JSON document that comes from the model, under its key, and the
/// warnings that follow: what is extrapolated, what is assumed. `phases`: the costs of one step by
/// phase. Private to this room.
void addEvidence(Prediction& out, const Plan& plan, const std::array<Cost, kNumPhases>& phases);

}  // namespace piper
