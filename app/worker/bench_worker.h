// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "kernels/transport/transport.h"

namespace piper {

/// What the worker reaches on one thread of this processor beside its limits, in interleaved pairs
/// of processor time, as one document (docs/formats.md): "experts" (the expert phase beside
/// oneDNN's products), "step" (a whole training step beside the best 2048-cubed product) and
/// "collecting" (a step whose operations are recorded into a file of `directory` beside one that
/// records nothing). quick: fewer shapes and pairs, a smaller step. Errors: External for a wrong
/// result, InvalidInput for more ranks than one; those of training.
[[nodiscard]] Result<Json> benchWorker(Transport& transport, const std::string& directory,
                                       bool quick);

}  // namespace piper
