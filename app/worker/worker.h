// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/worker/options.h"

namespace piper {

/// One rank of a run from its plan to its exit status (docs/formats.md).
[[nodiscard]] int runWorker(const WorkerOptions& options);

}  // namespace piper
