// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/search/capacity.h"

namespace piper {

/// What is varied. Link: one level by name (empty: every level that joins nodes). RoutingSkew: the
/// values are Zipf exponents, not factors.
enum class SensitivityKnob { Link, Memory, RoutingSkew, GlobalBatch };

struct SensitivityQuestion {
    SensitivityKnob knob = SensitivityKnob::Link;
    std::string level;           ///< Link
    std::vector<double> values;  ///< factors of the base's value, or exponents; above 0
};

/// The best plan at one value.
struct SensitivityPoint {
    double value = 1.0;
    std::string setting;             ///< "ib 25.0 GB/s", "global batch 512"
    std::optional<RankedPlan> best;  ///< none: nothing fits
    Shortfall shortfall;
    /// The base's plan (that of the first value nearest to no change) held on to; nothing where it
    /// cannot run there.
    std::optional<Seconds> held_step;
    double exposed_share = 0.0;    ///< of the best plan's step: dispatch and combine in sight
    std::int64_t nodes_of_ep = 1;  ///< nodes that an ep group of the best plan spans
};

struct SensitivityCurve {
    SensitivityQuestion question;
    std::vector<SensitivityPoint> points;  ///< in the order of the values
    /// First value, in that order, from which the best plan is another one than at the point
    /// before.
    [[nodiscard]] std::vector<std::size_t> turns() const;
};

/// A search at every value. Errors: InvalidInput for no values, a value that is not positive (an
/// exponent: negative), an unknown level, a batch that comes out below one sequence; those of
/// searchPlans.
[[nodiscard]] Result<SensitivityCurve> sensitivity(const SearchSpace& space,
                                                   const SensitivityQuestion& question,
                                                   const SearchRun& run);

/// The sentence on where expert parallelism gives way: the first value at which ep groups span
/// fewer nodes, and what the exchange took before it; empty when they never do.
[[nodiscard]] std::string expertTurn(const SensitivityCurve& curve);

[[nodiscard]] Json sensitivityJson(const SensitivityCurve& curve);

}  // namespace piper
