// SPDX-License-Identifier: Apache-2.0
// torchtitan's job file. It names the model; the sizes are those of its flavour in torchtitan's
// code.
#include <algorithm>
#include <array>
#include <sstream>

#include <toml++/toml.h>

#include "core/export/residual.h"
#include "core/export/shell_script.h"
#include "core/export/targets.h"

namespace piper {
namespace {

struct Flavor {
    std::string_view model, flavor;
    std::int64_t hidden_size, num_layers, num_experts;
};
constexpr std::array<Flavor, 8> kFlavors = {{
    {"llama3", "8B", 4096, 32, 0},
    {"llama3", "70B", 8192, 80, 0},
    {"llama3", "405B", 16384, 126, 0},
    {"deepseek_v3", "16B", 2048, 27, 64},
    {"deepseek_v3", "236B", 5120, 60, 160},
    {"deepseek_v3", "671B", 7168, 61, 256},
    {"qwen3", "30B-A3B", 2048, 48, 128},
    {"qwen3", "235B-A22B", 4096, 94, 128},
}};

const Flavor* flavorOf(const ModelSpec& model) {
    const std::int64_t experts = model.moe ? model.moe->num_experts : 0;
    const bool mla = model.attention.kind == AttentionKind::Mla;
    for (const Flavor& row : kFlavors)
        if (row.hidden_size == model.hidden_size && row.num_layers == model.num_layers &&
            row.num_experts == experts && mla == (row.model == "deepseek_v3"))
            return &row;
    return nullptr;
}

std::string slug(std::string text) {
    for (char& c : text)
        c = std::isalnum(static_cast<unsigned char>(c)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                : '_';
    return text.empty() ? "model" : text;
}

struct ScheduleName {
    ScheduleKind kind;
    std::string_view name;
};
constexpr std::array<ScheduleName, 5> kSchedules = {{
    {ScheduleKind::OneF1B, "1F1B"},
    {ScheduleKind::GPipe, "GPipe"},
    {ScheduleKind::InterleavedOneF1B, "Interleaved1F1B"},
    {ScheduleKind::ZbV, "ZBVZeroBubble"},
    {ScheduleKind::DualPipeV, "DualPipeV"},
}};

Json modulesOfChunks(const std::vector<std::int64_t>& stage_layers) {
    Json parts = Json::array();
    std::int64_t layer = 0;
    for (std::size_t i = 0; i < stage_layers.size(); ++i) {
        Json part = Json::array();
        if (i == 0) part.push_back("tok_embeddings");
        for (std::int64_t n = 0; n < stage_layers[i]; ++n)
            part.push_back(fmt::format("layers.{}", layer++));
        if (i + 1 == stage_layers.size()) {
            part.push_back("norm");
            part.push_back("output");
        }
        parts.push_back(std::move(part));
    }
    return parts;
}

/// FSDP is what experts are cut from, so that ep needs it.
bool shards(const Plan& plan) {
    return plan.layout.dp > 1 && (plan.zero_stage >= 1 || plan.layout.ep > 1);
}

void addParallelism(const Plan& plan, Settings& out) {
    const Layout& l = plan.layout;
    const bool sharded = shards(plan);
    out.add("parallelism.data_parallel_replicate_degree", sharded ? 1 : l.dp);
    out.add("parallelism.data_parallel_shard_degree", sharded ? l.dp : 1);
    if (sharded)
        out.add("parallelism.fsdp_reshard_after_forward",
                plan.zero_stage == 3 ? "always" : "never");
    out.add("parallelism.tensor_parallel_degree", l.tp);
    out.add("parallelism.context_parallel_degree", l.cp);
    out.add("parallelism.pipeline_parallel_degree", l.pp);
    if (l.pp > 1) {
        for (const ScheduleName& row : kSchedules)
            if (row.kind == plan.schedule)
                out.add("parallelism.pipeline_parallel_schedule", std::string(row.name));
        out.add("parallelism.pipeline_parallel_microbatch_size", plan.micro_batch_size);
        // torchtitan's own split leaves a layer out of the outer stages.
        out.add("parallelism.module_fqns_per_model_part",
                modulesOfChunks(effectiveStageLayers(plan)));
    }
    if (plan.model.moe) {
        out.add("parallelism.expert_parallel_degree", l.ep);
        out.add("parallelism.expert_tensor_parallel_degree", l.etp);
    }
}

void addPrecision(Precision precision, Settings& out) {
    out.add("training.mixed_precision_param",
            precision == Precision::Fp32 || precision == Precision::Tf32 ? "float32" : "bfloat16");
    out.add("training.mixed_precision_reduce", "float32");
    if (precision == Precision::Fp8) {
        out.add("model.converters",
                Json::array({"quantize.linear.float8", "quantize.grouped_mm.float8"}));
        out.add("quantize.linear.float8.recipe_name", "rowwise");
        out.add("quantize.grouped_mm.float8.fqns", Json::array({"experts"}));
    } else if (precision == Precision::Mxfp8) {
        out.add("model.converters", Json::array({"quantize.linear.mx", "quantize.grouped_mm.mx"}));
        out.add("quantize.linear.mx.recipe_name", "mxfp8_cublas");
        out.add("quantize.grouped_mm.mx.fqns", Json::array({"experts"}));
    }
}

Settings torchtitanSettings(const Plan& plan) {
    Settings out;
    const Flavor* const flavor = flavorOf(plan.model);
    out.add("model.name", flavor != nullptr ? std::string(flavor->model) : slug(plan.model.name));
    out.add("model.flavor", flavor != nullptr ? std::string(flavor->flavor) : "piper");
    // Under a pipeline the local batch holds all micro-batches of a step.
    out.add("training.local_batch_size",
            plan.layout.pp > 1 ? plan.global_batch_size / plan.layout.dp : plan.micro_batch_size);
    out.add("training.global_batch_size", plan.global_batch_size);
    out.add("training.seq_len", plan.seq_len);
    out.add("training.enable_cpu_offload", plan.offload.optimizer);
    addPrecision(plan.precision, out);
    addParallelism(plan, out);
    const RecomputeGranularity granularity = plan.recompute.granularity;
    out.add("activation_checkpoint.mode", granularity == RecomputeGranularity::None ? "none"
                                          : granularity == RecomputeGranularity::Full
                                              ? "full"
                                              : "selective");
    if (granularity == RecomputeGranularity::Selective)
        out.add("activation_checkpoint.selective_ac_option", "op");
    return out;
}

Settings runSettings() {
    Settings out;
    out.add("training.steps", 100);
    out.add("training.dataset", "c4_test");
    out.add("training.max_norm", 1.0);
    out.add("optimizer.name", "AdamW");
    out.add("optimizer.lr", 3e-4);
    out.add("metrics.log_freq", 1);
    return out;
}

void readStages(SettingReader& in, const Settings& settings, Plan& plan) {
    Layout& l = plan.layout;
    l.vpp = 1;
    plan.stage_layers.clear();
    const Json* const parts = settings.find("parallelism.module_fqns_per_model_part");
    if (parts == nullptr || !parts->is_array() || l.pp == 1) return;
    std::vector<std::int64_t> layers;
    for (const Json& part : *parts) {
        std::int64_t count = 0;
        for (const Json& module : part)
            if (module.is_string() && module.get<std::string>().starts_with("layers.")) ++count;
        layers.push_back(count);
    }
    const auto count = static_cast<std::int64_t>(layers.size());
    if (count % l.pp != 0)
        return in.note(fail(ErrorCode::InvalidInput,
                            "parallelism.module_fqns_per_model_part has {} parts, no multiple of "
                            "pipeline_parallel_degree {}",
                            count, l.pp)
                           .at(in.where()));
    l.vpp = count / l.pp;
    std::int64_t sum = 0;
    for (const std::int64_t n : layers) sum += n;
    if (layers != balancedStageLayers(sum, count)) plan.stage_layers = std::move(layers);
}

void readParallelism(SettingReader& in, const Settings& settings, Plan& plan) {
    Layout& l = plan.layout;
    const std::int64_t replicate = in.positive("parallelism.data_parallel_replicate_degree", 1);
    const std::int64_t shard = in.positive("parallelism.data_parallel_shard_degree", 1);
    l.dp = replicate * shard;
    plan.zero_stage = shard == 1                                                                ? 0
                      : in.text("parallelism.fsdp_reshard_after_forward", "default") == "never" ? 2
                                                                                                : 3;
    l.tp = in.positive("parallelism.tensor_parallel_degree", 1);
    l.sp = l.tp > 1;
    l.cp = in.positive("parallelism.context_parallel_degree", 1);
    l.pp = in.positive("parallelism.pipeline_parallel_degree", 1);
    l.ep = in.positive("parallelism.expert_parallel_degree", 1);
    l.etp = in.positive("parallelism.expert_tensor_parallel_degree", 1);
    readStages(in, settings, plan);
    plan.schedule = ScheduleKind::OneF1B;
    if (l.pp == 1) return;
    const std::string name = in.text("parallelism.pipeline_parallel_schedule", "1F1B");
    std::vector<std::string_view> names;
    for (const ScheduleName& row : kSchedules) {
        names.push_back(row.name);
        if (row.name != name) continue;
        plan.schedule = row.kind;
        return;
    }
    in.note(fail(ErrorCode::InvalidInput,
                 "unknown parallelism.pipeline_parallel_schedule '{}'; nearest known: '{}'", name,
                 nearestWord(name, names))
                .at(in.where()));
}

Precision readPrecision(SettingReader& in) {
    for (const std::string& converter : in.texts("model.converters")) {
        if (converter.ends_with(".mx")) return Precision::Mxfp8;
        if (converter.find("float8") != std::string::npos) return Precision::Fp8;
    }
    return in.text("training.mixed_precision_param", "bfloat16") == "float32" ? Precision::Fp32
                                                                              : Precision::Bf16;
}

Result<Plan> readBack(const Settings& settings, const Plan& start, const std::string& where) {
    Plan plan = start;
    SettingReader in(settings, where);
    readParallelism(in, settings, plan);
    const std::int64_t local = in.positive("training.local_batch_size", 8);
    plan.micro_batch_size = plan.layout.pp > 1
                                ? in.positive("parallelism.pipeline_parallel_microbatch_size", 1)
                                : local;
    // -1: every rank its local batch.
    const std::int64_t global = in.integer("training.global_batch_size", -1);
    plan.global_batch_size = global > 0 ? global : local * plan.layout.dp;
    plan.seq_len = in.positive("training.seq_len", 2048);
    plan.offload.optimizer = in.flag("training.enable_cpu_offload");
    plan.offload.fraction = 1.0;
    plan.precision = readPrecision(in);
    const std::string mode = in.text("activation_checkpoint.mode", "selective");
    plan.recompute = {};
    if (mode == "full") plan.recompute.granularity = RecomputeGranularity::Full;
    if (mode == "selective") plan.recompute.granularity = RecomputeGranularity::Selective;
    plan.capacity_factor.reset();
    plan.framework = Framework::Torchtitan;
    PIPER_TRY(in.finish());
    return plan;
}

std::string tomlValue(const Json& value) {
    if (value.is_string()) return Json(value).dump();
    if (!value.is_array()) return value.dump();
    std::string out;
    for (const Json& item : value) out += (out.empty() ? "" : ", ") + tomlValue(item);
    return "[" + out + "]";
}

std::string tomlText(const Settings& settings, const Json& residual, const std::string& title) {
    const OptionList& options = optionList(OptionSet::TorchtitanConfig);
    std::string out = fmt::format("# {}\n# Keys of {} ({}).\n{}", title, options.repository(),
                                  options.source(), residualLine(residual));
    std::vector<std::string> sections;
    for (const Setting& setting : settings.list()) {
        std::string section = setting.name.substr(0, setting.name.rfind('.'));
        if (std::find(sections.begin(), sections.end(), section) == sections.end())
            sections.push_back(std::move(section));
    }
    std::sort(sections.begin(), sections.end());
    for (const std::string& section : sections) {
        out += fmt::format("\n[{}]\n", section);
        for (const Setting& setting : settings.list())
            if (setting.name.substr(0, setting.name.rfind('.')) == section)
                out += fmt::format("{} = {}\n", setting.name.substr(section.size() + 1),
                                   tomlValue(setting.value));
    }
    return out;
}

Json jsonOf(const toml::node& node) {
    if (const auto* table = node.as_table()) {
        Json out = Json::object();
        for (const auto& [key, value] : *table) out[std::string(key.str())] = jsonOf(value);
        return out;
    }
    if (const auto* array = node.as_array()) {
        Json out = Json::array();
        for (const auto& item : *array) out.push_back(jsonOf(item));
        return out;
    }
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* whole = node.as_integer()) return whole->get();
    if (const auto* real = node.as_floating_point()) return real->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    return nullptr;
}

std::string launchScript(const Plan& plan) {
    const LaunchShape shape = launchShape(plan);
    std::string out = fmt::format("#!/bin/bash\n# {}\nset -euo pipefail\n\n", planTitle(plan));
    out += fmt::format(
        "NNODES=${{NNODES:-{}}}\nGPUS_PER_NODE=${{GPUS_PER_NODE:-{}}}\n"
        "NODE_RANK=${{NODE_RANK:-${{SLURM_NODEID:-0}}}}\n"
        "MASTER_ADDR=${{MASTER_ADDR:-localhost}}\nMASTER_PORT=${{MASTER_PORT:-29500}}\n",
        shape.nodes, shape.ranks_per_node);
    for (const auto& [name, value] : launchEnvironment(plan, Framework::Torchtitan))
        out += fmt::format("export {}={}\n", name, value);
    return out + fmt::format(
                     "\nexec torchrun \\\n    --nnodes \"$NNODES\" --nproc-per-node "
                     "\"$GPUS_PER_NODE\" \\\n    --node-rank \"$NODE_RANK\" --master-addr "
                     "\"$MASTER_ADDR\" --master-port \"$MASTER_PORT\" \\\n    -m torchtitan.train "
                     "--job.config_file {} \"$@\"\n",
                     kTorchtitanConfig);
}

}  // namespace

std::vector<std::string> torchtitanReasons(const Plan& plan) {
    std::vector<std::string> out;
    if (plan.precision == Precision::Fp16 || plan.precision == Precision::Fp8Block ||
        plan.precision == Precision::Nvfp4)
        out.push_back(fmt::format("torchtitan trains in float32, bfloat16, float8 or mxfp8, not {}",
                                  toText(plan.precision)));
    return out;
}

Result<Export> exportTorchtitan(const Plan& plan) {
    Settings settings = torchtitanSettings(plan);
    PIPER_ASSIGN(const Plan back,
                 readBack(settings, blankPlan(plan.cluster), std::string(kTorchtitanConfig)));
    const Json residual = residualOf(plan, back);
    const Settings run = runSettings();
    for (const Setting& setting : run.list()) settings.add(setting.name, setting.value);
    Export out;
    out.files.push_back(
        {std::string(kTorchtitanConfig), tomlText(settings, residual, planTitle(plan)), false});
    out.files.push_back({std::string(kTorchtitanScript), launchScript(plan), true});
    out.not_expressed = residualSentences(residual, "torchtitan");
    if (flavorOf(plan.model) == nullptr)
        out.not_expressed.push_back(fmt::format(
            "model: torchtitan has no flavour of these sizes; register '{}' with flavour 'piper' "
            "(experimental.custom_import)",
            slug(plan.model.name)));
    return out;
}

Result<Settings> parseTorchtitanConfig(const ExportedFile& file) {
    Json document;
    try {
        document = jsonOf(toml::parse(file.content));
    } catch (const toml::parse_error& error) {
        const toml::source_position& at = error.source().begin;
        return fail(ErrorCode::InvalidInput, "not TOML at line {}, column {}: {}", at.line,
                    at.column, std::string(error.description()))
            .at(file.name);
    }
    const OptionList& options = optionList(OptionSet::TorchtitanConfig);
    Settings out = flatten(document, options);
    PIPER_TRY(requireAll(out, options, file.name));
    return out;
}

Result<Plan> importTorchtitan(const Files& files, const Plan& base, GivenShape shape) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kTorchtitanConfig));
    PIPER_ASSIGN(const Settings settings, parseTorchtitanConfig(*file));
    PIPER_ASSIGN(const Json residual, readResidualLine(file->content, file->name));
    const Plan start = residual.is_object() ? blankPlan(base.cluster) : base;
    PIPER_ASSIGN(const Plan back, readBack(settings, start, file->name));
    if (shape && shape->world() != back.layout.world())
        return fail(ErrorCode::InvalidInput, "{} takes {} ranks, the job starts {}", file->name,
                    back.layout.world(), shape->world());
    return applyResidual(back, residual, file->name);
}

}  // namespace piper
