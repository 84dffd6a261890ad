// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// How even a MoE layer's load was: tokens of the expert that got most over the mean of its
/// experts.
struct LayerLoad {
    LayerId layer;
    double hottest_over_mean = 1.0;
    bool operator==(const LayerLoad&) const = default;
};

/// What the experts of a step got, all ranks together.
struct ExpertLoadSummary {
    std::vector<std::int64_t> tokens;  ///< [num_experts] over all MoE layers
    std::vector<LayerLoad> layers;     ///< in order, those that routed anything
    bool operator==(const ExpertLoadSummary&) const = default;

    [[nodiscard]] bool empty() const { return tokens.empty(); }
    /// Of `tokens`; 1 without any.
    [[nodiscard]] double hottestOverMean() const;
    /// The least even layer; null without any.
    [[nodiscard]] const LayerLoad* worstLayer() const;
};

/// The most of `tokens` over their mean; 1 where nothing was routed.
[[nodiscard]] double hottestOverMean(std::span<const std::int64_t> tokens);
/// Of records of one step; those of one layer are added up.
[[nodiscard]] ExpertLoadSummary summarizeLoad(std::span<const ExpertLoad> loads);
/// Of the last step of which a run has any; empty without.
[[nodiscard]] ExpertLoadSummary lastStepLoad(const Run& run);

/// "hottest expert 1.42 times the mean, in layer 3 1.90 times"; empty without a load.
[[nodiscard]] std::string describe(const ExpertLoadSummary& load);

}  // namespace piper
