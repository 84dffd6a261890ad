// SPDX-License-Identifier: Apache-2.0
// Layout, batch and memory options of Megatron-LM, and its launch script.
#include <array>

#include "core/export/residual.h"
#include "core/export/shell_script.h"
#include "core/export/targets.h"

namespace piper {
namespace {

constexpr std::string_view kOtherOrder = "tp-cp-ep-pp-dp";  // --use-tp-pp-dp-mapping

void addLayout(const Plan& plan, Settings& out) {
    const Layout& l = plan.layout;
    out.group("layout");
    out.add("--tensor-model-parallel-size", l.tp);
    out.flag("--sequence-parallel", l.sp && l.tp > 1);
    out.add("--context-parallel-size", l.cp);
    out.add("--pipeline-model-parallel-size", l.pp);
    if (!plan.stage_layers.empty())
        out.add("--pipeline-model-parallel-layout",
                pipelineLayoutText(plan.stage_layers, plan.model.mtp_num_layers));
    else if (l.vpp > 1)
        out.add("--num-virtual-stages-per-pipeline-rank", l.vpp);
    if (plan.model.moe) {
        out.add("--expert-model-parallel-size", l.ep);
        // Left out it would fall back to the tensor-parallel size.
        out.add("--expert-tensor-parallel-size", l.etp);
    }
    out.flag("--use-tp-pp-dp-mapping", plan.rank_order == kOtherOrder);
}

void addExpertExchange(const Plan& plan, Settings& out) {
    if (!plan.model.moe) return;
    out.group("expert exchange");
    out.add("--moe-token-dispatcher-type", "alltoall");
    if (plan.capacity_factor) out.add("--moe-expert-capacity-factor", *plan.capacity_factor);
    const bool half = plan.precision != Precision::Fp32 && plan.precision != Precision::Tf32 &&
                      plan.precision != Precision::Fp16;
    out.flag("--moe-grouped-gemm", half);
}

struct PrecisionRow {
    Precision precision;
    std::string_view format;  ///< of --fp8-format, or of --fp4-format for Nvfp4
    std::string_view recipe;
};
constexpr std::array<PrecisionRow, 4> kLowPrecision = {{
    {Precision::Fp8, "hybrid", "tensorwise"},
    {Precision::Fp8Block, "e4m3", "blockwise"},
    {Precision::Mxfp8, "e4m3", "mxfp8"},
    {Precision::Nvfp4, "e2m1", "nvfp4"},
}};

void addPrecision(Precision precision, Settings& out) {
    out.group("precision");
    if (precision == Precision::Fp32 || precision == Precision::Tf32) return;
    out.flag(precision == Precision::Fp16 ? "--fp16" : "--bf16");
    for (const PrecisionRow& row : kLowPrecision) {
        if (row.precision != precision) continue;
        const bool four = precision == Precision::Nvfp4;
        out.add(four ? "--fp4-format" : "--fp8-format", std::string(row.format));
        out.add(four ? "--fp4-recipe" : "--fp8-recipe", std::string(row.recipe));
    }
}

Precision readPrecision(SettingReader& in) {
    if (in.has("--fp4-format")) return Precision::Nvfp4;
    if (in.has("--fp8-format")) {
        const std::string recipe = in.text("--fp8-recipe", "delayed");
        for (const PrecisionRow& row : kLowPrecision)
            if (row.recipe == recipe) return row.precision;
        return Precision::Fp8;
    }
    const bool fp16 = in.flag("--fp16");
    const bool bf16 = in.flag("--bf16");
    if (fp16 && bf16)
        in.note(
            fail(ErrorCode::InvalidInput, "--fp16 and --bf16 exclude each other").at(in.where()));
    return fp16 ? Precision::Fp16 : bf16 ? Precision::Bf16 : Precision::Fp32;
}

void addMemory(const Plan& plan, Settings& out) {
    out.group("memory");
    const Recompute& r = plan.recompute;
    if (r.granularity == RecomputeGranularity::Full) {
        out.add("--recompute-granularity", "full");
        out.add("--recompute-method", r.num_layers == 0 ? "uniform" : "block");
        out.add("--recompute-num-layers", std::max<std::int64_t>(1, r.num_layers));
    } else if (r.granularity == RecomputeGranularity::Selective) {
        out.add("--recompute-granularity", "selective");
        out.add("--recompute-modules", Json(r.modules));
    }
    out.flag("--use-distributed-optimizer", plan.zero_stage >= 1 || plan.offload.optimizer);
    if (plan.zero_stage >= 2) {
        out.flag("--use-megatron-fsdp");
        out.add("--data-parallel-sharding-strategy",
                plan.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
        out.flag("--no-gradient-accumulation-fusion");
        out.add("--ckpt-format", "fsdp_dtensor");
    }
    if (plan.offload.optimizer) {
        out.flag("--optimizer-cpu-offload");
        out.add("--optimizer-offload-fraction", plan.offload.fraction);
        out.flag("--use-precision-aware-optimizer");
    }
}

int readZeroStage(SettingReader& in) {
    if (!in.flag("--use-megatron-fsdp")) return in.flag("--use-distributed-optimizer") ? 1 : 0;
    const std::string strategy = in.text("--data-parallel-sharding-strategy", "no_shard");
    constexpr std::array<std::string_view, 4> kStrategies = {"no_shard", "optim", "optim_grads",
                                                             "optim_grads_params"};
    for (std::size_t i = 0; i < kStrategies.size(); ++i)
        if (kStrategies[i] == strategy) return static_cast<int>(i);
    in.note(fail(ErrorCode::InvalidInput,
                 "unknown --data-parallel-sharding-strategy '{}'; nearest known: '{}'", strategy,
                 nearestWord(strategy, kStrategies))
                .at(in.where()));
    return 0;
}

void readMemory(SettingReader& in, Plan& plan) {
    Recompute r;
    const std::string granularity = in.text("--recompute-granularity");
    if (granularity == "full") {
        r.granularity = RecomputeGranularity::Full;
        const bool block = in.text("--recompute-method") == "block";
        r.num_layers = block ? in.positive("--recompute-num-layers", 1) : 0;
    } else if (granularity == "selective" || in.flag("--recompute-activations")) {
        r.granularity = RecomputeGranularity::Selective;
        r.modules = in.texts("--recompute-modules");
        if (r.modules.empty()) r.modules = {"core_attn"};
    } else if (!granularity.empty()) {
        in.note(fail(ErrorCode::InvalidInput,
                     "--recompute-granularity '{}' is neither full nor selective", granularity)
                    .at(in.where()));
    }
    plan.recompute = r;
    plan.zero_stage = readZeroStage(in);
    plan.offload.optimizer = in.flag("--optimizer-cpu-offload");
    plan.offload.fraction = in.number("--optimizer-offload-fraction", 1.0);
}

void readStages(SettingReader& in, Plan& plan) {
    Layout& l = plan.layout;
    plan.stage_layers.clear();
    l.vpp = in.positive("--num-virtual-stages-per-pipeline-rank", 1);
    const std::int64_t chunk_layers = in.integer("--num-layers-per-virtual-pipeline-stage", 0);
    if (chunk_layers > 0)
        l.vpp = std::max<std::int64_t>(1, plan.model.num_layers / l.pp / chunk_layers);
    const std::string text = in.text("--pipeline-model-parallel-layout");
    if (!text.empty()) {
        const Result<std::vector<PipelineChunk>> chunks = parsePipelineLayout(text);
        if (!chunks.ok()) return in.note(Error(chunks.error()).at(in.where()));
        for (const PipelineChunk& chunk : *chunks) plan.stage_layers.push_back(chunk.layers);
        const auto count = static_cast<std::int64_t>(chunks->size());
        if (count % l.pp != 0)
            return in.note(fail(ErrorCode::InvalidInput,
                                "--pipeline-model-parallel-layout has {} chunks, no multiple of "
                                "--pipeline-model-parallel-size {}",
                                count, l.pp)
                               .at(in.where()));
        l.vpp = count / l.pp;
    }
    plan.schedule = l.vpp > 1 ? ScheduleKind::InterleavedOneF1B : ScheduleKind::OneF1B;
}

}  // namespace

Settings megatronSettings(const Plan& plan) {
    Settings out;
    addMegatronModel(plan.model, plan.seq_len, out);
    addLayout(plan, out);
    addExpertExchange(plan, out);
    out.group("batch");
    out.add("--micro-batch-size", plan.micro_batch_size);
    out.add("--global-batch-size", plan.global_batch_size);
    addPrecision(plan.precision, out);
    addMemory(plan, out);
    return out;
}

Settings megatronRunSettings() {
    Settings out;
    out.flag("--mock-data");
    out.add("--tokenizer-type", "NullTokenizer");
    out.add("--train-iters", 100);
    out.add("--eval-iters", 0);
    out.add("--lr", 1e-4);
    out.add("--min-lr", 1e-5);
    out.add("--lr-decay-style", "cosine");
    out.add("--weight-decay", 0.1);
    out.add("--clip-grad", 1.0);
    out.add("--attention-dropout", 0.0);
    out.add("--hidden-dropout", 0.0);
    out.add("--log-interval", 1);
    out.flag("--log-throughput");
    return out;
}

void readMegatronSettings(SettingReader& in, Plan& plan) {
    Layout& l = plan.layout;
    l.tp = in.positive("--tensor-model-parallel-size", 1);
    l.sp = in.flag("--sequence-parallel") && l.tp > 1;
    l.cp = in.positive("--context-parallel-size", 1);
    l.pp = in.positive("--pipeline-model-parallel-size", 1);
    readMegatronModel(in, plan.model);
    l.ep = in.positive("--expert-model-parallel-size", 1);
    l.etp = in.positive("--expert-tensor-parallel-size", l.tp);
    readStages(in, plan);
    plan.rank_order = in.flag("--use-tp-pp-dp-mapping") ? kOtherOrder : "tp-cp-ep-dp-pp";
    plan.seq_len = in.positive("--seq-length");
    plan.micro_batch_size = in.positive("--micro-batch-size");
    plan.global_batch_size = in.positive("--global-batch-size", plan.micro_batch_size);
    plan.capacity_factor.reset();
    if (in.has("--moe-expert-capacity-factor"))
        plan.capacity_factor = in.number("--moe-expert-capacity-factor", 1.0);
    plan.precision = readPrecision(in);
    readMemory(in, plan);
    plan.framework = Framework::Megatron;
}

namespace {

/// The plan as the options alone give it back.
Result<Plan> readBack(const Settings& settings, std::int64_t world, const Plan& start,
                      std::string_view where) {
    Plan plan = start;
    SettingReader in(settings, std::string(where));
    readMegatronSettings(in, plan);
    PIPER_TRY(in.finish());
    const Status placed = setWorld(plan, world);
    if (!placed.ok()) return Error(placed.error()).at(std::string(where));
    return plan;
}

}  // namespace

Result<Export> exportMegatron(const Plan& plan) {
    ShellScript script;
    script.title = planTitle(plan);
    script.options = OptionSet::MegatronArguments;
    script.shape = launchShape(plan);
    script.environment = launchEnvironment(plan, Framework::Megatron);
    script.plan = megatronSettings(plan);
    script.run = megatronRunSettings();
    script.program = "pretrain_gpt.py";
    PIPER_ASSIGN(const Plan back, readBack(script.plan, plan.layout.world(),
                                           blankPlan(plan.cluster), kMegatronScript));
    script.residual = residualOf(plan, back);
    Export out;
    out.files.push_back({std::string(kMegatronScript), writeShellScript(script), true});
    out.not_expressed = residualSentences(script.residual, "Megatron-LM");
    return out;
}

Result<Plan> importMegatron(const Files& files, const Plan& base, GivenShape shape) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kMegatronScript));
    PIPER_ASSIGN(
        const ParsedScript script,
        parseShellScript(file->content, optionList(OptionSet::MegatronArguments), file->name));
    if (!shape) {
        PIPER_ASSIGN(shape, scriptShape(script, file->name));
    }
    const Plan start = script.residual.is_object() ? blankPlan(base.cluster) : base;
    PIPER_ASSIGN(const Plan back, readBack(script.settings, shape->world(), start, file->name));
    return applyResidual(back, script.residual, file->name);
}

}  // namespace piper
