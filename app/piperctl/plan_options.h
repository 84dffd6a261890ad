// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/plan/plan.h"

namespace piper::app {

/// A plan given as a file, or as model, cluster and the numbers that matter. An option beside a
/// plan file replaces what the file says; empty or 0: not given.
struct PlanOptions {
    std::string plan;
    std::string model;
    std::string cluster;
    std::string layout;
    std::string framework;  ///< plain
    std::string schedule;   ///< 1f1b; interleaved_1f1b with vpp above 1
    std::string precision;  ///< bf16 on GPUs, fp32 on CPUs
    std::string optimizer;  ///< adamw
    std::string recompute;  ///< none
    std::string stage_layers;
    std::optional<int> zero_stage;       ///< 0
    std::int64_t world = 0;              ///< every device of the cluster
    std::int64_t micro_batch_size = 0;   ///< 1
    std::int64_t global_batch_size = 0;  ///< four micro-batches per replica and stage
    std::int64_t seq_len = 0;            ///< 4096, or what the model allows
};

void addPlanOptions(CLI::App& app, PlanOptions& options);
/// Only model, cluster, batch and sequence: what a search starts from.
void addWorkloadOptions(CLI::App& app, PlanOptions& options);

/// Errors: InvalidInput when neither a plan nor model and cluster are given.
[[nodiscard]] Result<Plan> planFrom(const PlanOptions& options);
/// The same without a layout: every degree 1.
[[nodiscard]] Result<Plan> workloadFrom(const PlanOptions& options);
/// The same for a search; without a global batch one of four million tokens, a whole number of
/// sequences on every device.
[[nodiscard]] Result<Plan> searchedWorkload(const PlanOptions& options);

}  // namespace piper::app
