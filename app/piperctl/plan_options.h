// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/plan/plan.h"

namespace piper::app {

/// A plan given as a file, or as model, cluster and the numbers that matter.
struct PlanOptions {
    std::string plan;
    std::string model;
    std::string cluster;
    std::string layout;
    std::string framework = "plain";
    std::string schedule = "1f1b";
    std::string precision;
    std::string recompute = "none";
    std::int64_t world = 0;  ///< 0: every device of the cluster
    std::int64_t micro_batch_size = 1;
    std::int64_t global_batch_size = 0;  ///< 0: one micro-batch per replica and stage
    std::int64_t seq_len = 0;            ///< 0: 4096, or what the model allows
};

void addPlanOptions(CLI::App& app, PlanOptions& options);
/// Only model, cluster, batch and sequence: what a search starts from.
void addWorkloadOptions(CLI::App& app, PlanOptions& options);

/// Errors: InvalidInput when neither a plan nor model and cluster are given.
[[nodiscard]] Result<Plan> planFrom(const PlanOptions& options);
/// The same without a layout: every degree 1.
[[nodiscard]] Result<Plan> workloadFrom(const PlanOptions& options);

}  // namespace piper::app
