// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/plan_options.h"

#include <algorithm>

#include "app/command_line/command_line.h"
#include "app/files/files.h"
#include "core/base/json.h"
#include "core/schedule/chunk_split.h"

namespace piper::app {

void addWorkloadOptions(CLI::App& app, PlanOptions& options) {
    app.add_option("--model", options.model, "Hugging Face config.json or our own model file");
    app.add_option("--cluster", options.cluster,
                   "Cluster file, or DEVICE:NODES with a catalogue device (\"H100 SXM:8\")");
    app.add_option("--global-batch-size", options.global_batch_size, "Sequences of one step")
        ->check(aboveZero());
    app.add_option("--seq-len", options.seq_len, "Tokens of one sequence")->check(aboveZero());
    app.add_option("--framework", options.framework, "Whose rules hold; default: plain")
        ->type_name(choices<Framework>());
    app.add_option("--precision", options.precision, "Main precision; default: bf16 on GPUs")
        ->type_name(choices<Precision>());
    app.add_option("--optimizer", options.optimizer, "What updates the weights; default: adamw")
        ->type_name(choices<OptimizerKind>());
}

namespace {

/// A name given replaces the plan's value; not given, it stays.
template <class Value>
Status replace(Value& value, const std::string& name, std::string_view option) {
    if (name.empty()) return {};
    PIPER_ASSIGN(value, parseEnum<Value>(name, option));
    return {};
}

Status replaceNamed(Plan& plan, const PlanOptions& options) {
    PIPER_TRY(replace(plan.framework, options.framework, "framework"));
    PIPER_TRY(replace(plan.precision, options.precision, "precision"));
    return replace(plan.optimizer.kind, options.optimizer, "optimizer");
}

}  // namespace

void addPlanOptions(CLI::App& app, PlanOptions& options) {
    app.add_option("plan", options.plan,
                   "Plan file, instead of --model and --cluster; other options replace its values");
    addWorkloadOptions(app, options);
    app.add_option("--layout", options.layout, "Degrees: \"pp=4 ep=8\"; dp follows from the world");
    app.add_option("--world", options.world, "Ranks; default: every device of the cluster")
        ->check(aboveZero());
    app.add_option("--schedule", options.schedule,
                   "Pipeline schedule; default: 1f1b, interleaved_1f1b with vpp above 1")
        ->type_name(choices<ScheduleKind>());
    app.add_option("--micro-batch-size", options.micro_batch_size,
                   "Sequences of one micro-batch; default: 1")
        ->check(aboveZero());
    app.add_option("--recompute", options.recompute,
                   "none, full or modules: \"moe_act,layernorm\"; default: none");
    app.add_option(
        "--stage-layers", options.stage_layers,
        "Layers of each stage chunk, \"8/7/7/8\", a Megatron layout string, or best: the "
        "split whose slowest rank is the fastest");
    app.add_option("--zero-stage", options.zero_stage, "0 to 3; default: 0");
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
    plan.precision =
        plan.cluster.device.kind == DeviceKind::Cpu ? Precision::Fp32 : Precision::Bf16;
    PIPER_TRY(replaceNamed(plan, options));
    const std::int64_t longest = plan.model.max_position_embeddings;
    plan.seq_len = options.seq_len > 0 ? options.seq_len
                   : longest > 0       ? std::min<std::int64_t>(4096, longest)
                                       : 4096;
    plan.global_batch_size = std::max<std::int64_t>(1, options.global_batch_size);
    return plan;
}

Result<Plan> searchedWorkload(const PlanOptions& options) {
    constexpr std::int64_t kTokensOfABatch = 4 * 1024 * 1024;
    PIPER_ASSIGN(Plan plan, workloadFrom(options));
    if (options.global_batch_size > 0) return plan;
    const std::int64_t devices = plan.cluster.numDevices();
    const std::int64_t each = kTokensOfABatch / plan.seq_len / devices;
    plan.global_batch_size = devices * std::max<std::int64_t>(1, each);
    return plan;
}

namespace {

constexpr std::string_view kBestSplit = "best";

Status setRecompute(Plan& plan, const std::string& text) {
    for (const EnumName<RecomputeGranularity>& row : enumNames<RecomputeGranularity>()) {
        if (row.name != text) continue;
        plan.recompute = {};
        plan.recompute.granularity = row.value;
        if (row.value == RecomputeGranularity::Selective) plan.recompute.modules = {"core_attn"};
        return {};
    }
    plan.recompute = {};
    plan.recompute.granularity = RecomputeGranularity::Selective;
    std::string_view rest = text;
    while (true) {
        const std::size_t at = rest.find(',');
        plan.recompute.modules.emplace_back(rest.substr(0, at));
        if (at == std::string_view::npos) return {};
        rest.remove_prefix(at + 1);
    }
}

Status setStageLayers(Plan& plan, const std::string& text) {
    plan.stage_layers.clear();
    if (text.find_first_of("EtL|") != std::string::npos) {
        PIPER_ASSIGN(const std::vector<PipelineChunk> chunks, parsePipelineLayout(text));
        for (const PipelineChunk& chunk : chunks) plan.stage_layers.push_back(chunk.layers);
        return {};
    }
    std::string list = "[" + text + "]";
    std::ranges::replace(list, '/', ',');
    PIPER_ASSIGN(const Json numbers, parseJson(list, "--stage-layers"));
    for (const Json& number : numbers) {
        if (!number.is_number_integer() || number.get<std::int64_t>() < 0)
            return fail(ErrorCode::InvalidInput, "--stage-layers {}: expected \"8/7/7/8\"", text);
        plan.stage_layers.push_back(number.get<std::int64_t>());
    }
    return {};
}

/// Layout, schedule and options given beside a plan file or in place of one.
Status applyPlanOptions(Plan& plan, const PlanOptions& options) {
    if (!options.layout.empty() || options.world > 0 || options.plan.empty()) {
        const std::int64_t world = options.world > 0 ? options.world : plan.cluster.numDevices();
        PIPER_ASSIGN(const CompletedLayout completed,
                     completeLayout(options.layout, world, plan.framework));
        plan.layout = completed.layout;
        plan.stage_layers.clear();
        if (plan.layout.vpp > 1) plan.schedule = ScheduleKind::InterleavedOneF1B;
    }
    PIPER_TRY(replace(plan.schedule, options.schedule, "schedule"));
    if (!options.recompute.empty()) PIPER_TRY(setRecompute(plan, options.recompute));
    const bool best = options.stage_layers == kBestSplit;
    if (best) plan.stage_layers.clear();
    if (!options.stage_layers.empty() && !best)
        PIPER_TRY(setStageLayers(plan, options.stage_layers));
    if (options.zero_stage) plan.zero_stage = *options.zero_stage;
    if (options.micro_batch_size > 0) plan.micro_batch_size = options.micro_batch_size;
    return {};
}

/// Model, cluster, batch and sequence given beside a plan file.
Status applyWorkloadOptions(Plan& plan, const PlanOptions& options) {
    if (!options.model.empty()) {
        PIPER_ASSIGN(plan.model, loadModel(options.model));
    }
    if (!options.cluster.empty()) {
        PIPER_ASSIGN(plan.cluster, loadCluster(options.cluster));
    }
    PIPER_TRY(replaceNamed(plan, options));
    if (options.seq_len > 0) plan.seq_len = options.seq_len;
    if (options.global_batch_size > 0) plan.global_batch_size = options.global_batch_size;
    return {};
}

}  // namespace

Result<Plan> planFrom(const PlanOptions& options) {
    Plan plan;
    if (options.plan.empty()) {
        PIPER_ASSIGN(plan, workloadFrom(options));
    } else {
        PIPER_ASSIGN(plan, loadPlan(options.plan));
        PIPER_TRY(applyWorkloadOptions(plan, options));
    }
    PIPER_TRY(applyPlanOptions(plan, options));
    if (options.plan.empty() && options.global_batch_size == 0)
        plan.global_batch_size = plan.micro_batch_size * plan.layout.dp * 4 * plan.layout.pp;
    if (options.stage_layers == kBestSplit) {
        PIPER_ASSIGN(BalancedPlan balanced, balancedPlan(plan));
        plan = std::move(balanced.plan);
    }
    return plan;
}

}  // namespace piper::app
