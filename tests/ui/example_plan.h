// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "core/plan/plan.h"

namespace piper::ui::test {

/// The bundled Mixtral-8x7B on 8 nodes of 8 H100: pp 4, ep 8, dp 16.
[[nodiscard]] Plan clusterPlan();
/// The bundled small model on four CPU ranks of one machine: pp 2, ep 2, dp 2.
[[nodiscard]] Plan localPlan();

}  // namespace piper::ui::test
