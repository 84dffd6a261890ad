// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/base/result.h"
#include "kernels/ops/backend.h"

namespace piper {

/// The backend of this processor: GEMM by oneDNN on one thread, everything else our own loops.
/// The allocator outlives the backend, which takes its scratch (Workspace) from it.
/// Errors: External when oneDNN cannot make its engine.
[[nodiscard]] Result<std::unique_ptr<Backend>> makeCpuBackend(TaggedAllocator& allocator);

}  // namespace piper
