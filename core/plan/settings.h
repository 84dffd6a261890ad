// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/check.h"
#include "core/plan/layout.h"
#include "core/plan/rules.h"

// A CheckRequest turned to a plan and what of it is known; not for other folders.
namespace piper {

struct CheckedPlan {
    Plan plan;
    RuleScope scope;
    std::vector<EffectiveValue> effective;       ///< of the layout
    std::map<std::string, std::string> origins;  ///< of every other value
    std::vector<Violation> layout_string;        ///< faults of the pipeline layout string
    std::vector<PipelineChunk> chunks;           ///< of it, empty without
    bool precision_given = false;
};

[[nodiscard]] Result<CheckedPlan> planOf(const CheckRequest& request);

}  // namespace piper
