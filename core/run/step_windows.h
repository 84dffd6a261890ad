// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// When a rank was in which step, on its own clock.
using StepWindows = std::map<std::int32_t, Interval>;

/// Widens the windows of the events' steps, or begins them.
void widen(StepWindows& windows, std::span<const Event> events);
/// By the rank's step records.
[[nodiscard]] StepWindows recordedSteps(const RankTimeline& rank);

/// [rank]: by the step records where any rank has some, else from first to last event.
[[nodiscard]] std::vector<StepWindows> stepWindows(const Run& run);

/// Steps that every rank with steps completed, in order, without the first `skip_steps` when there
/// are more.
[[nodiscard]] std::vector<std::int32_t> countedSteps(const std::vector<StepWindows>& ranks,
                                                     int skip_steps);

/// True for work of the compute lane or of a device's stream that is no communication.
[[nodiscard]] bool isCompute(const Event& e);

/// Merged intervals cut to a window.
[[nodiscard]] std::vector<Interval> inside(const std::vector<Interval>& merged, Interval window);
/// What of merged intervals lies outside others.
[[nodiscard]] std::vector<Interval> outside(const std::vector<Interval>& merged,
                                            const std::vector<Interval>& cover);

}  // namespace piper
