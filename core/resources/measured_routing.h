// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/plan/plan.h"
#include "core/run/run.h"

namespace piper {

/// The routing load of a measured run of `plan`, for a prediction beside it. Ranks wait for the
/// hottest of each micro-batch, and which one that is changes: the mean over a run evens out what
/// every micro-batch had. So each layer's rows are shared out over the ep ranks as its
/// micro-batches were on average, hottest rank first, in the order of the ranks' rows of the whole
/// run; a rank's share goes to its experts as their rows of the whole run. Layers nobody recorded
/// are even. The largest loads of its stages go with it (RoutingLoad::peaks), where all ranks
/// recorded. Nothing for a run without recorded routing, or a model without experts.
[[nodiscard]] std::optional<RoutingLoad> measuredRouting(const Run& run, const Plan& plan);

}  // namespace piper
