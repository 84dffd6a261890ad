// SPDX-License-Identifier: Apache-2.0
#include "core/run/sub_lanes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace piper {
namespace {

constexpr std::size_t kMostRows = 1024;

}  // namespace

std::uint16_t SubLanes::rowFor(const Event& event) {
    std::size_t row = 0;
    while (row < m_ends.size() && m_ends[row] > event.start_ns) ++row;
    if (row == m_ends.size() && row < kMostRows) m_ends.push_back(INT64_MIN);
    row = std::min(row, m_ends.size() - 1);
    m_ends[row] = std::max(event.end_ns(), m_ends[row]);
    return static_cast<std::uint16_t>(row);
}

void assignSubLanes(RankTimeline& rank) {
    std::vector<std::size_t> order(rank.events.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return startsBeforeOrLonger(rank.events[a], rank.events[b]);
    });
    std::map<std::pair<Lane, std::int32_t>, SubLanes> tracks;
    for (const std::size_t i : order) {
        Event& e = rank.events[i];
        e.sub_lane = isMark(e.category) ? kMarkRow : tracks[{e.lane, e.track}].rowFor(e);
    }
}

}  // namespace piper
