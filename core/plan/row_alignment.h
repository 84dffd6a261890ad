// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/cluster/cluster.h"

namespace piper {

/// Rows of a group of a grouped GEMM come in multiples of this.
[[nodiscard]] std::int64_t rowAlignment(Precision precision);

}  // namespace piper
