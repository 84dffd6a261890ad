// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/run/run.h"

namespace piper {

[[nodiscard]] inline std::vector<MemorySample> sortedByTime(std::vector<MemorySample> samples) {
    std::stable_sort(
        samples.begin(), samples.end(),
        [](const MemorySample& a, const MemorySample& b) { return a.time_ns < b.time_ns; });
    return samples;
}

/// Calls `visit(moment, time_ns, bytes)` with the bytes of every term after all samples of a moment
/// took effect together: a transfer between two terms is no peak. Moments count from 0.
template <class Visit>
void eachMoment(const std::vector<MemorySample>& sorted, Visit visit) {
    std::array<std::int64_t, kNumMemoryTerms> now{};
    std::size_t moment = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        now[static_cast<std::size_t>(sorted[i].term)] = sorted[i].bytes;
        if (i + 1 < sorted.size() && sorted[i + 1].time_ns == sorted[i].time_ns) continue;
        visit(moment++, sorted[i].time_ns, std::as_const(now));
    }
}

}  // namespace piper
