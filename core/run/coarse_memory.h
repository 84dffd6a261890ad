// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// The samples of some moments, with the value of every term as it was then: of `stretches` equal
/// parts of the time the highest sum and the end, and of each term its highest value. Peaks of the
/// sum and of each term stay exact. All samples where those would be no fewer.
[[nodiscard]] std::vector<MemorySample> coarseMemory(const std::vector<MemorySample>& samples,
                                                     std::size_t stretches);

}  // namespace piper
