// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/run/run.h"

namespace piper {

/// Length of intervals that mergeIntervals() gave.
[[nodiscard]] inline std::int64_t mergedLength(const std::vector<Interval>& merged) {
    std::int64_t length = 0;
    for (const Interval& i : merged) length += i.end - i.begin;
    return length;
}

}  // namespace piper
