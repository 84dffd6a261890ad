// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "core/cost/cost.h"
#include "core/run/run.h"
#include "core/schedule/schedule.h"

namespace piper {

/// One step of a schedule played in time: every lane runs its operations in order, an operation
/// starts when its lane is free and its dependencies have ended. A link is full duplex: a Receive
/// spans its peer's Send, and sends wait for sends only.
struct SimulatedStage {
    std::vector<std::int64_t> start_ns;  ///< [operations]
    std::vector<std::int64_t> end_ns;
    std::int64_t busy_compute_ns = 0;
    Bytes peak;  ///< of the sum of all terms
    std::array<Bytes, kNumMemoryTerms> at_peak{};
    std::int32_t peak_operation = -1;
};

struct Simulation {
    std::int64_t step_ns = 0;
    std::vector<SimulatedStage> stages;    ///< [pp]
    std::vector<std::vector<Cost>> costs;  ///< [pp][operations]
    double bubble_fraction = 0.0;          ///< 1 - mean(compute busy) / step
};

/// The same with given durations [pp][operations]; that of a Receive is its Send's.
[[nodiscard]] Result<Simulation> simulateDurations(
    const Schedule& schedule, const std::vector<std::vector<std::int64_t>>& durations_ns);

/// Errors: External "deadlock" names the operations that wait for each other.
[[nodiscard]] Result<Simulation> simulate(const Plan& plan, const Schedule& schedule,
                                          const CostModel& cost);

/// The simulated step as a modelled Run: one timeline per rank (`every_rank`), or one per stage.
[[nodiscard]] Run simulatedRun(const Plan& plan, const Schedule& schedule,
                               const Simulation& simulation, bool every_rank, int steps = 1);

}  // namespace piper
