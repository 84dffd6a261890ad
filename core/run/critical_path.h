// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/run/communication_match.h"
#include "core/run/step_windows.h"

namespace piper {

/// A stretch of the critical path, on rank 0's clock.
struct PathSegment {
    std::size_t rank = 0;  ///< position in Run::ranks
    std::int64_t begin_ns = 0, end_ns = 0;
    std::int64_t event = -1;    ///< position in the rank's events; -1: nothing ran
    Phase phase = Phase::Idle;  ///< of the event
};

/// The chain of work and communication of one step that nothing in it could have waited less for:
/// from the step's last end back to its first start.
///
/// The chain runs along a rank while that rank computes. Where it stood still, it goes on along the
/// communication that ended the wait, and from there on the rank that came last to it (the member
/// who started last, the sender of a message) when that was after this rank had stopped computing.
/// Segments lie end to end: they add up to the step.
struct CriticalPath {
    std::int32_t step = 0;
    std::int64_t begin_ns = 0, end_ns = 0;
    std::vector<PathSegment> segments;  ///< in time order
};

/// One path a step.
[[nodiscard]] std::vector<CriticalPath> criticalPaths(const Run& run,
                                                      const CommunicationMatch& match,
                                                      const std::vector<RankClock>& clocks,
                                                      const std::vector<StepWindows>& windows,
                                                      const std::vector<std::int32_t>& steps);

}  // namespace piper
