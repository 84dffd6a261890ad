// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <functional>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "core/run/recorder.h"
#include "kernels/pipeline/training.h"
#include "kernels/transport/transport.h"

namespace piper {

/// A model of mixture-of-experts layers alone (8 experts, top-2, half as many key heads as query
/// heads), and the batch a rank trains on.
struct SmallShape {
    std::int64_t hidden = 0, heads = 0, ffn = 0, seq_len = 0;
    std::int64_t layers = 3, micro_batch_size = 2, micro_batches = 2;
    auto operator<=>(const SmallShape&) const = default;
};

/// One replica a device of the cluster.
[[nodiscard]] Plan replicas(const ClusterSpec& cluster, const SmallShape& shape);

/// Trains it on text in which some letters are rare, so that routing is neither even nor fixed.
/// Every rank of the plan's world calls it. Errors: those of train().
[[nodiscard]] Status trainReplicas(Transport& transport, const Plan& plan, Recorder& recorder,
                                   std::int64_t steps,
                                   std::function<Status(const StepProgress&)> progress = {});

}  // namespace piper
