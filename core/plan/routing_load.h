// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/plan/plan.h"

namespace piper {

/// The `routing_load` of a plan file; null: uniform. Errors: InvalidInput with the key's path.
[[nodiscard]] Result<RoutingLoad> readRoutingLoad(const Json& json, std::string where);

}  // namespace piper
