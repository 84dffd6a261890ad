// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/search/search.h"

namespace piper {

/// Why a plan is not the answer.
enum class WhyNotVerdict { Rule, Memory, Slower, Best };

struct WhyNotTerm {
    std::string name;      ///< "compute", "dispatch exposed", "waiting for the pipeline"
    double seconds = 0.0;  ///< of the asked plan's step over the best plan's
};

struct WhyNot {
    std::string layout;
    WhyNotVerdict verdict = WhyNotVerdict::Best;
    std::string message;
    std::vector<std::string> fixes;  ///< legal neighbours, or what would make it fit
    std::vector<WhyNotTerm> terms;   ///< Slower: largest first; they add up to the difference
};

/// The base with `text` ("tp=8 pp=8 ep=8 recompute=full") written over it; degrees not named are 1,
/// dp follows from the devices. Errors: InvalidInput for an unknown key or value.
[[nodiscard]] Result<Plan> askedPlan(const SearchSpace& space, std::string_view text);

/// Holds a plan against the best one found (null: none fits). Errors: those of predict.
[[nodiscard]] Result<WhyNot> whyNot(const SearchSpace& space, const Plan& asked,
                                    const RankedPlan* best);

[[nodiscard]] Json whyNotJson(const WhyNot& answer);

}  // namespace piper
