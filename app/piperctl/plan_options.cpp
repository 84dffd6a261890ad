// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/plan_options.h"

#include <algorithm>

#include "app/files/files.h"

namespace piper::app {

void addWorkloadOptions(CLI::App& app, PlanOptions& options) {
    app.add_option("--model", options.model, "Hugging Face config.json or our own model file");
    app.add_option("--cluster", options.cluster,
                   "Cluster file, or DEVICE:NODES with a catalogue device (\"H100 SXM:8\")");
    app.add_option("--global-batch-size", options.global_batch_size, "Sequences of one step")
        ->check(CLI::PositiveNumber);
    app.add_option("--seq-len", options.seq_len, "Tokens of one sequence")
        ->check(CLI::PositiveNumber);
    app.add_option("--framework", options.framework, "plain, megatron, deepspeed or torchtitan")
        ->capture_default_str();
    app.add_option("--precision", options.precision, "fp32, bf16, fp8, ...; default: bf16 on GPUs");
}

void addPlanOptions(CLI::App& app, PlanOptions& options) {
    app.add_option("plan", options.plan, "Plan file, instead of --model and --cluster");
    addWorkloadOptions(app, options);
    app.add_option("--layout", options.layout, "Degrees: \"pp=4 ep=8\"; dp follows from the world");
    app.add_option("--world", options.world, "Ranks; default: every device of the cluster");
    app.add_option("--schedule", options.schedule, "1f1b, gpipe, ...")->capture_default_str();
    app.add_option("--micro-batch-size", options.micro_batch_size, "Sequences of one micro-batch")
        ->check(CLI::PositiveNumber);
    app.add_option("--recompute", options.recompute, "none, selective or full")
        ->capture_default_str();
}

Result<Plan> workloadFrom(const PlanOptions& options) {
    if (options.model.empty() || options.cluster.empty()) {
        Error error = fail(ErrorCode::InvalidInput, "--model and --cluster are both needed");
        error.hint = "or give a plan file where the command takes one";
        return error;
    }
    Plan plan;
    PIPER_ASSIGN(plan.model, loadModel(options.model));
    PIPER_ASSIGN(plan.cluster, loadCluster(options.cluster));
    PIPER_ASSIGN(plan.framework, parseEnum<Framework>(options.framework, "framework"));
    plan.precision =
        plan.cluster.device.kind == DeviceKind::Cpu ? Precision::Fp32 : Precision::Bf16;
    if (!options.precision.empty()) {
        PIPER_ASSIGN(plan.precision, parseEnum<Precision>(options.precision, "precision"));
    }
    const std::int64_t longest = plan.model.max_position_embeddings;
    plan.seq_len = options.seq_len > 0 ? options.seq_len
                   : longest > 0       ? std::min<std::int64_t>(4096, longest)
                                       : 4096;
    plan.global_batch_size = std::max<std::int64_t>(1, options.global_batch_size);
    return plan;
}

Result<Plan> planFrom(const PlanOptions& options) {
    if (!options.plan.empty()) return loadPlan(options.plan);
    PIPER_ASSIGN(Plan plan, workloadFrom(options));
    const std::int64_t world = options.world > 0 ? options.world : plan.cluster.numDevices();
    PIPER_ASSIGN(const CompletedLayout completed,
                 completeLayout(options.layout, world, plan.framework));
    plan.layout = completed.layout;
    PIPER_ASSIGN(plan.schedule, parseEnum<ScheduleKind>(options.schedule, "schedule"));
    PIPER_ASSIGN(plan.recompute.granularity,
                 parseEnum<RecomputeGranularity>(options.recompute, "recompute"));
    plan.micro_batch_size = options.micro_batch_size;
    if (options.global_batch_size == 0)
        plan.global_batch_size = plan.micro_batch_size * plan.layout.dp * 4 * plan.layout.pp;
    return plan;
}

}  // namespace piper::app
