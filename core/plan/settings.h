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

/// Other ways Megatron-LM has of saying how layers are split over stages.
struct StageSplit {
    bool account_for_embedding = false;
    bool account_for_loss = false;
    std::optional<std::int64_t> first_stage_layers, last_stage_layers;
    std::optional<std::int64_t> layers_per_virtual_stage;
};

struct CheckedPlan {
    Plan plan;
    RuleScope scope;
    std::vector<EffectiveValue> effective;       ///< of the layout
    std::map<std::string, std::string> origins;  ///< of every other value
    std::vector<Violation> layout_string;        ///< faults of the pipeline layout string
    std::vector<PipelineChunk> chunks;           ///< of it, empty without
    bool precision_given = false;
    bool mtp_given = false;
    GivenDegrees degrees;  ///< given as settings
    StageSplit split;
    std::string label;  ///< a run's name that spells its degrees: "tp1_pp2_ep2"
};

/// Applies one "KEY=VALUE". Errors: InvalidInput for an unknown key or a value that cannot be read.
[[nodiscard]] Status applySetting(CheckedPlan& checked, std::string_view setting);

[[nodiscard]] Result<CheckedPlan> planOf(const CheckRequest& request);

/// Where a label says another degree than the one in force.
void labelDifferences(const CheckedPlan& checked, Violations& out);

}  // namespace piper
