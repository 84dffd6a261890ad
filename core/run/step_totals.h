// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/run/vocabulary.h"

namespace piper {

/// Sum over some events.
struct PhaseTotal {
    std::int64_t count = 0;
    std::int64_t sum_ns = 0;      ///< sum of durations
    std::int64_t union_ns = 0;    ///< length of their union per rank and step, summed over both
    std::int64_t exposed_ns = 0;  ///< union not covered by the compute lane (communication only)
    double flops = 0.0;
    double bytes = 0.0;

    PhaseTotal& operator+=(const PhaseTotal& one);
    bool operator==(const PhaseTotal&) const = default;
};

/// What the events of one step of one rank sum up to: all that statistics by phase need of them.
/// Times are on the rank's own clock.
struct StepTotals {
    std::int32_t step = 0;
    std::int64_t events = 0;
    std::array<PhaseTotal, kNumPhases> phases{};  ///< none of idle
    std::int64_t busy_ns = 0;                     ///< union of all
    // Of the part inside the step's window; 0 of a step without one.
    std::int64_t covered_ns = 0;  ///< union of all
    std::int64_t compute_ns = 0;  ///< union of the compute lane
    std::int64_t exposed_ns = 0;  ///< union of communication outside it

    bool operator==(const StepTotals&) const = default;
};

}  // namespace piper
