// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/plan/pipeline_shape.h"

namespace piper {

/// One rank's slots of a step, each as long as if nothing had to be waited for.
struct RankSlots {
    std::int64_t span_ns = 0;     ///< all of them, without the end of the step
    std::int64_t tail_ns = 0;     ///< gradient reduction, optimizer, parameter gathering
    std::int64_t message_ns = 0;  ///< its messages to other ranks
    /// Mean over its chunks of one slot of a kind, 0 where the schedule has none.
    std::int64_t forward_ns = 0, input_grad_ns = 0, weight_grad_ns = 0;
    std::int64_t backward_ns = 0;  ///< both gradients in one slot
    std::int64_t pair_ns = 0;      ///< a forward and a backward together
};

/// The step without playing it: the slowest rank's slots, the filling of the pipeline, its
/// messages, and the longest end. Exact for equal ranks and free messages but for
/// interleaved_1f1b; zb_h2 and zb_v count the time until the last rank starts, unless each rank's
/// step is from its own first slot to its own end (`own_spans`: OptimizerChoice::post_validation).
/// `ranks` [pp].
[[nodiscard]] std::int64_t closedFormStepNs(const PipelineShape& shape,
                                            std::span<const RankSlots> ranks, bool own_spans);

}  // namespace piper
