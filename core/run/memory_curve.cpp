// SPDX-License-Identifier: Apache-2.0
#include "core/run/memory_curve.h"

#include <algorithm>
#include <numeric>

#include "core/run/coarse_memory.h"
#include "core/run/memory_moments.h"
#include "core/run/rank_clock.h"

namespace piper {
namespace {

constexpr std::size_t kStretches = 4096;

}  // namespace

MemoryCurve::MemoryCurve(const RankTimeline& rank) {
    const RankClock clock(rank);
    eachMoment(sortedByTime(coarseMemory(rank.memory, kStretches)),
               [&](std::size_t, std::int64_t time_ns, const auto& terms) {
                   m_times.push_back(clock.toCommon(time_ns));
                   m_bytes.push_back(std::accumulate(terms.begin(), terms.end(), std::int64_t{0}));
               });
    if (!m_bytes.empty()) m_peak = std::ranges::max(m_bytes);
}

std::int64_t MemoryCurve::at(std::int64_t time_ns) const {
    const auto after = std::ranges::upper_bound(m_times, time_ns);
    return after == m_times.begin()
               ? 0
               : m_bytes[static_cast<std::size_t>(after - m_times.begin()) - 1];
}

std::int64_t MemoryCurve::mostIn(std::int64_t begin_ns, std::int64_t end_ns) const {
    std::int64_t most = at(begin_ns);
    auto i =
        static_cast<std::size_t>(std::ranges::upper_bound(m_times, begin_ns) - m_times.begin());
    for (; i < m_times.size() && m_times[i] < end_ns; ++i) most = std::max(most, m_bytes[i]);
    return most;
}

}  // namespace piper
