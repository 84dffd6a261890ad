// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/plan/plan.h"

namespace piper {

/// The plan file's `overlap`; a key not given is that of `usual`. Errors: InvalidInput.
[[nodiscard]] Result<Overlap> readOverlap(const Json& json, std::string where,
                                          const Overlap& usual);
[[nodiscard]] Json writeOverlap(const Overlap& overlap);

}  // namespace piper
