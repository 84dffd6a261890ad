// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/result.h"
#include "core/plan/own_worker.h"

namespace piper {

/// Errors: Unsupported with all of unsupportedParts.
[[nodiscard]] Status canRun(const Plan& plan);

}  // namespace piper
