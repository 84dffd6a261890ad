// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/run/device_statistics.h"

namespace piper::test {

/// Device work of a run in memory.
inline DeviceStatistics deviceStatistics(const Run& run, const CommunicationRule& rule) {
    DeviceAccumulator sum(rule);
    for (const RankTimeline& rank : run.ranks) {
        sum.beginRank(rank);
        sum.add(rank.events);
    }
    return sum.finish();
}

}  // namespace piper::test
