// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/units.h"
#include "core/plan/plan.h"

namespace piper {

/// Bytes that one token makes its rank hand to others in the forward pass, over all layers of the
/// model. Rows that stay on their rank count nothing.
struct TokenTraffic {
    Bytes dispatch;        ///< hidden * element for each row of each MoE layer (exchange.h)
    Bytes combine;         ///< the same back
    Bytes between_nodes;   ///< part of both that goes to ranks of other nodes
    Bytes stage_boundary;  ///< hidden * element for each boundary between pipeline stages
};

/// Under the plan's all-to-all and routing load. Source: the arithmetic of
/// https://github.com/marin-community/marin/issues/7706, which its counters confirm.
/// Errors: none; the plan was validated.
[[nodiscard]] TokenTraffic tokenTraffic(const Plan& plan);

}  // namespace piper
