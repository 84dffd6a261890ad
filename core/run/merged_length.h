// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// Length of intervals that mergeIntervals() gave.
[[nodiscard]] inline std::int64_t mergedLength(const std::vector<Interval>& merged) {
    std::int64_t length = 0;
    for (const Interval& i : merged) length += i.end - i.begin;
    return length;
}

/// The stretches [begin, end) of what `wanted` accepts, merged.
template <class Stretches, class Wanted>
[[nodiscard]] std::vector<Interval> mergedWhere(const Stretches& stretches, Wanted wanted) {
    std::vector<Interval> out;
    for (const auto& s : stretches)
        if (wanted(s)) out.push_back({s.begin, s.end});
    return mergeIntervals(std::move(out));
}

}  // namespace piper
