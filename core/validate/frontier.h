// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/predict/predict.h"

namespace piper {

/// A published run on Frontier whose batch and layout were not published, beside the plan that the
/// model finds best under the rules its source states.
struct FrontierRow {
    std::string name;
    std::string source;
    double measured_tflops = 0.0;  ///< a device (one GCD)
    Plan plan;
    Prediction prediction;

    [[nodiscard]] double error() const {
        return inTflops(prediction.flops_per_device) / measured_tflops - 1.0;
    }
};

struct FrontierComparison {
    std::vector<FrontierRow> rows;
    double small_ratio = 0.0, large_ratio = 0.0;  ///< Piper over X-MoE, predicted
};

/// Measured ratios of the same two models (arXiv 2605.05049 over 2508.13337).
inline constexpr double kSmallRatio = 2.06, kLargeRatio = 1.95;

/// Piper's rows: pp x ep = devices, ep at most 32 (the nodes of one switch), no tensor parallelism,
/// 1F1B, 16 bytes a parameter; the best of every such layout and micro-batch that fits, by
/// throughput. X-MoE's: its published expert parallelism, ZeRO-1, no pipeline.
/// Source of rows and rules: docs/validation.md. Errors: those of predict.
[[nodiscard]] Result<FrontierComparison> compareFrontier();
[[nodiscard]] Json frontierJson(const FrontierComparison& comparison);

}  // namespace piper
