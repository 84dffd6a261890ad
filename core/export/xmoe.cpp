// SPDX-License-Identifier: Apache-2.0
// X-MoE: Megatron-DeepSpeed's command line with padding-free tokens, and its ds_config.json.
#include <algorithm>

#include "core/export/residual.h"
#include "core/export/shell_script.h"
#include "core/export/targets.h"

namespace piper {
namespace {

/// Dense layers before the first expert layer; the whole model when there is none.
std::int64_t leadingDense(const ModelSpec& model) {
    const auto first = std::find(model.layers.begin(), model.layers.end(), LayerKind::Moe);
    return first - model.layers.begin();
}

bool onlyLeadingDense(const ModelSpec& model) {
    return std::find(model.layers.begin() + leadingDense(model), model.layers.end(),
                     LayerKind::Dense) == model.layers.end();
}

void addModel(const Plan& plan, Settings& out) {
    const ModelSpec& model = plan.model;
    const AttentionSpec& a = model.attention;
    out.group("model");
    out.add("--num-layers", model.num_layers);
    out.add("--hidden-size", model.hidden_size);
    // With experts this is the width of one expert.
    out.add("--ffn-hidden-size",
            model.moe ? model.moe->moe_ffn_hidden_size : model.ffn_hidden_size);
    out.add("--vocab-size", model.vocab_size);
    out.add("--seq-length", plan.seq_len);
    out.add("--max-position-embeddings", std::max(model.max_position_embeddings, plan.seq_len));
    out.add("--num-attention-heads", a.num_heads);
    if (a.num_kv_heads != a.num_heads) out.add("--num-key-value-heads", a.num_kv_heads);
    out.add("--kv-channels", a.head_dim);
    out.flag("--use-rotary-position-embeddings");
    out.add("--normalization", "rmsnorm");
    out.add("--layernorm-epsilon", model.rms_norm_eps);
    out.flag("--swiglu", (model.moe ? model.moe->mlp : model.dense_mlp) == MlpKind::SwiGlu);
    out.flag("--disable-bias-linear");
    out.flag("--untie-embeddings-and-output-weights", !model.tie_word_embeddings);
}

void addExperts(const Plan& plan, Settings& out) {
    if (!plan.model.moe) return;
    const MoeSpec& moe = *plan.model.moe;
    out.group("experts");
    out.add("--num-experts", Json::array({moe.num_experts}));
    out.add("--topk", moe.router_topk);
    out.add("--expert-interval", 1);
    if (const std::int64_t dense = leadingDense(plan.model); dense > 0) {
        out.add("--first-k-dense-replace", dense);
        out.add("--dense-ffn-hidden-size", plan.model.ffn_hidden_size);
    }
    if (moe.shared_ffn_hidden_size > 0)
        out.add("--num-shared-experts",
                Json::array({moe.shared_ffn_hidden_size / moe.moe_ffn_hidden_size}));
    // Weights are probabilities, not made to add up to 1.
    out.flag("--softmax-before-topk", !moe.norm_topk_prob);
    out.add("--moe-loss-coeff", moe.aux_loss_coefficient);
    out.flag("--disable-moe-token-dropping", !plan.capacity_factor);
    if (plan.capacity_factor) out.add("--moe-train-capacity-factor", *plan.capacity_factor);
    out.flag("--create-moe-param-group");
    out.flag("--use-uneven-all-to-all");
    out.flag("--use-pft");
    if (plan.all_to_all.algorithm == AllToAllAlgorithm::Node) {
        out.flag("--use-rbd");
        out.add("--rbd-mesh-size", launchShape(plan).ranks_per_node);
    }
}

void addLayout(const Plan& plan, Settings& out) {
    const Layout& l = plan.layout;
    out.group("layout");
    out.add("--tensor-model-parallel-size", l.tp);
    out.flag("--sequence-parallel", l.sp && l.tp > 1);
    if (l.cp > 1) out.add("--ds-sequence-parallel-size", l.cp);
    if (plan.model.moe) {
        // The degree, not the number of experts.
        out.add("--moe-expert-parallel-size", l.ep);
        // Without it the tensor-parallel ranks split the sequence before the experts instead.
        out.flag("--enable-expert-tensor-parallelism", l.tp > 1 && l.etp == l.tp);
    }
    if (l.pp > 1) {
        out.add("--pipeline-model-parallel-size", l.pp);
        if (!plan.stage_layers.empty()) out.add("--uneven-pp-partition", Json(plan.stage_layers));
    } else {
        out.flag("--no-pipeline-parallel");
    }
}

void addBatchAndMemory(const Plan& plan, Settings& out) {
    out.group("batch and memory");
    out.add("--micro-batch-size", plan.micro_batch_size);
    out.add("--global-batch-size", plan.global_batch_size);
    if (plan.precision == Precision::Bf16) out.flag("--bf16");
    if (plan.precision == Precision::Fp16) out.flag("--fp16");
    const Recompute& r = plan.recompute;
    if (r.granularity == RecomputeGranularity::Full) {
        out.flag("--checkpoint-activations");
        out.add("--checkpoint-num-layers", 1);
        out.flag("--deepspeed-activation-checkpointing");
        if (r.num_layers > 0)
            out.add("--dynamic-checkpoint-partition",
                    Json(std::vector<std::int64_t>(static_cast<std::size_t>(plan.layout.pp),
                                                   r.num_layers)));
    } else if (r.granularity == RecomputeGranularity::Selective) {
        out.add("--recompute-granularity", "selective");
    }
    out.add("--zero-stage", plan.zero_stage);
    out.flag("--cpu-optimizer", plan.offload.optimizer);
    out.group("DeepSpeed");
    out.flag("--deepspeed");
    out.add("--deepspeed_config", std::string(kDeepSpeedConfig));
    out.flag("--using-torchrun");
}

Settings xmoeSettings(const Plan& plan) {
    Settings out;
    addModel(plan, out);
    addExperts(plan, out);
    addLayout(plan, out);
    addBatchAndMemory(plan, out);
    return out;
}

Settings runSettings() {
    Settings out;
    out.add("--tokenizer-type", "NullTokenizer");
    out.add("--train-iters", 100);
    out.add("--eval-iters", 0);
    out.add("--lr", 1.2e-4);
    out.add("--min-lr", 1e-6);
    out.add("--lr-decay-style", "cosine");
    out.add("--weight-decay", 0.1);
    out.add("--clip-grad", 1.0);
    out.add("--log-interval", 1);
    return out;
}

void readExperts(SettingReader& in, Plan& plan) {
    ModelSpec& model = plan.model;
    const std::vector<std::int64_t> experts = in.integers("--num-experts");
    plan.capacity_factor.reset();
    if (experts.empty() || experts.front() <= 1) {
        model.moe.reset();
        model.ffn_hidden_size = in.positive("--ffn-hidden-size");
        return;
    }
    MoeSpec moe = model.moe.value_or(MoeSpec{});
    moe.num_experts = experts.front();
    moe.router_topk = in.positive("--topk", 1);
    moe.moe_ffn_hidden_size = in.positive("--ffn-hidden-size");
    const std::vector<std::int64_t> shared = in.integers("--num-shared-experts");
    moe.shared_ffn_hidden_size =
        shared.empty()
            ? 0
            : std::clamp<std::int64_t>(shared.front(), 0, 1 << 20) * moe.moe_ffn_hidden_size;
    moe.mlp = model.dense_mlp;
    moe.scoring = ScoringFunction::Softmax;
    moe.norm_topk_prob = !in.flag("--softmax-before-topk");
    moe.aux_loss_coefficient = in.number("--moe-loss-coeff", 0.1);
    model.moe = moe;
    const std::int64_t dense = in.integer("--first-k-dense-replace", 0);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(dense, model.num_layers); ++i)
        model.layers[static_cast<std::size_t>(i)] = LayerKind::Dense;
    model.ffn_hidden_size =
        dense > 0 ? in.positive("--dense-ffn-hidden-size", moe.moe_ffn_hidden_size) : 0;
    if (!in.flag("--disable-moe-token-dropping"))
        plan.capacity_factor = in.number("--moe-train-capacity-factor", 1.0);
    plan.all_to_all.algorithm =
        in.flag("--use-rbd") ? AllToAllAlgorithm::Node : AllToAllAlgorithm::Auto;
}

void readModel(SettingReader& in, Plan& plan) {
    ModelSpec& model = plan.model;
    model.num_layers = readNumLayers(in);
    model.hidden_size = in.positive("--hidden-size");
    model.vocab_size = in.positive("--vocab-size", model.vocab_size);
    model.max_position_embeddings = in.positive("--max-position-embeddings", 1);
    AttentionSpec& a = model.attention;
    a.kind = AttentionKind::Gqa;
    a.num_heads = in.positive("--num-attention-heads");
    a.num_kv_heads = in.positive("--num-key-value-heads", a.num_heads);
    a.head_dim =
        in.positive("--kv-channels", std::max<std::int64_t>(1, model.hidden_size / a.num_heads));
    model.rms_norm_eps = in.number("--layernorm-epsilon", 1e-5);
    model.dense_mlp = in.flag("--swiglu") ? MlpKind::SwiGlu : MlpKind::TwoMatrix;
    model.tie_word_embeddings = !in.flag("--untie-embeddings-and-output-weights");
    const bool moe = in.has("--num-experts");
    model.layers.assign(static_cast<std::size_t>(model.num_layers),
                        moe ? LayerKind::Moe : LayerKind::Dense);
    readExperts(in, plan);
}

void readLayout(SettingReader& in, Plan& plan) {
    Layout& l = plan.layout;
    l.tp = in.positive("--tensor-model-parallel-size", 1);
    l.sp = in.flag("--sequence-parallel") && l.tp > 1;
    l.cp = in.positive("--ds-sequence-parallel-size", 1);
    l.ep = in.positive("--moe-expert-parallel-size", 1);
    l.etp = in.flag("--enable-expert-tensor-parallelism") ? l.tp : 1;
    l.pp = in.flag("--no-pipeline-parallel") ? 1 : in.positive("--pipeline-model-parallel-size", 1);
    l.vpp = 1;
    plan.stage_layers = in.integers("--uneven-pp-partition");
    plan.schedule = ScheduleKind::OneF1B;
}

void readBatchAndMemory(SettingReader& in, Plan& plan) {
    plan.seq_len = in.positive("--seq-length");
    plan.micro_batch_size = in.positive("--micro-batch-size");
    plan.global_batch_size = in.positive("--global-batch-size", plan.micro_batch_size);
    plan.precision = in.flag("--bf16")   ? Precision::Bf16
                     : in.flag("--fp16") ? Precision::Fp16
                                         : Precision::Fp32;
    Recompute r;
    if (in.flag("--checkpoint-activations")) {
        r.granularity = RecomputeGranularity::Full;
        const std::vector<std::int64_t> each = in.integers("--dynamic-checkpoint-partition");
        r.num_layers = each.empty() ? 0 : each.front();
    } else if (in.text("--recompute-granularity") == "selective") {
        r.granularity = RecomputeGranularity::Selective;
        r.modules = {"core_attn"};
    }
    plan.recompute = r;
    plan.zero_stage =
        static_cast<int>(std::clamp<std::int64_t>(in.integer("--zero-stage", 1), 0, 9));
    plan.offload.optimizer = in.flag("--cpu-optimizer");
    plan.framework = Framework::DeepSpeed;
}

Result<Plan> readBack(const Settings& settings, std::int64_t world, const Plan& start,
                      const std::string& where) {
    Plan plan = start;
    SettingReader in(settings, where);
    readLayout(in, plan);
    readModel(in, plan);
    readBatchAndMemory(in, plan);
    PIPER_TRY(in.finish());
    const Status placed = setWorld(plan, world);
    if (!placed.ok()) return Error(placed.error()).at(where);
    return plan;
}

/// Both files say batch and ZeRO stage; DeepSpeed stops when they differ.
Status sameInBoth(const Settings& script, const Settings& config) {
    const std::pair<const char*, const char*> twice[] = {
        {"--global-batch-size", "train_batch_size"},
        {"--micro-batch-size", "train_micro_batch_size_per_gpu"},
        {"--zero-stage", "zero_optimization.stage"}};
    for (const auto& [option, key] : twice) {
        const Json* const a = script.find(option);
        const Json* const b = config.find(key);
        if (a == nullptr || b == nullptr || *a == *b) continue;
        return fail(ErrorCode::InvalidInput, "{} {} in {}, but {} {} in {}: set both", option,
                    a->dump(), kXMoeScript, key, b->dump(), kDeepSpeedConfig);
    }
    return {};
}

}  // namespace

std::vector<std::string> xmoeReasons(const Plan& plan) {
    std::vector<std::string> out;
    const ModelSpec& model = plan.model;
    if (model.attention.kind == AttentionKind::Mla)
        out.emplace_back(
            "X-MoE's Megatron-DeepSpeed has no multi-latent attention: it would train other "
            "attention weights; export to megatron instead");
    if (model.moe && !onlyLeadingDense(model))
        out.emplace_back(
            "X-MoE's Megatron-DeepSpeed takes dense layers only before all expert layers "
            "(--first-k-dense-replace)");
    if (model.moe && model.moe->shared_ffn_hidden_size % model.moe->moe_ffn_hidden_size != 0)
        out.push_back(
            fmt::format("shared experts of width {} are no whole number of experts of width {} "
                        "(--num-shared-experts)",
                        model.moe->shared_ffn_hidden_size, model.moe->moe_ffn_hidden_size));
    if (plan.precision != Precision::Bf16 && plan.precision != Precision::Fp16 &&
        plan.precision != Precision::Fp32)
        out.push_back(
            fmt::format("X-MoE trains in fp16, bf16 or fp32, not {}", toText(plan.precision)));
    return out;
}

Result<Export> exportXMoe(const Plan& plan) {
    ShellScript script;
    script.title = planTitle(plan);
    script.options = OptionSet::MegatronDeepSpeedArguments;
    script.shape = launchShape(plan);
    script.environment = launchEnvironment(plan, Framework::DeepSpeed);
    script.plan = xmoeSettings(plan);
    script.run = runSettings();
    script.program = "pretrain_gpt_deepspeed.py";
    PIPER_ASSIGN(const Plan back, readBack(script.plan, plan.layout.world(),
                                           blankPlan(plan.cluster), std::string(kXMoeScript)));
    script.residual = residualOf(plan, back);
    Export out;
    out.files.push_back({std::string(kXMoeScript), writeShellScript(script), true});
    out.files.push_back({std::string(kDeepSpeedConfig), deepSpeedConfigText(plan), false});
    out.not_expressed = residualSentences(script.residual, "X-MoE's Megatron-DeepSpeed");
    if (plan.model.moe && plan.model.moe->norm_topk_prob)
        out.not_expressed.emplace_back(
            "model.moe.norm_topk_prob true: X-MoE weights experts by raw router logits, or by "
            "probabilities that do not add up to 1 (--softmax-before-topk)");
    return out;
}

Result<Plan> importXMoe(const Files& files, const Plan& base, GivenShape shape) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kXMoeScript));
    PIPER_ASSIGN(const ParsedScript script,
                 parseShellScript(file->content, optionList(OptionSet::MegatronDeepSpeedArguments),
                                  file->name));
    PIPER_ASSIGN(const ExportedFile* config, findFile(files, kDeepSpeedConfig));
    PIPER_ASSIGN(const Settings settings, parseDeepSpeedConfig(*config));
    PIPER_TRY(sameInBoth(script.settings, settings));
    if (!shape) {
        PIPER_ASSIGN(shape, scriptShape(script, file->name));
    }
    const Plan start = script.residual.is_object() ? blankPlan(base.cluster) : base;
    PIPER_ASSIGN(const Plan back, readBack(script.settings, shape->world(), start, file->name));
    return applyResidual(back, script.residual, file->name);
}

}  // namespace piper
