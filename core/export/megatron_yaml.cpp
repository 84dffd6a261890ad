// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's YAML file: the command line's options under the names of its configuration classes.
#include <yaml-cpp/yaml.h>

#include <array>
#include <charconv>

#include "core/export/residual.h"
#include "core/export/shell_script.h"
#include "core/export/targets.h"

namespace piper {
namespace {

struct NamePair {
    std::string_view argument;
    std::string_view key;
};

/// Where the key is not the argument with underscores.
constexpr std::array<NamePair, 4> kRenamed = {{
    {"--num-experts", "num_moe_experts"},
    {"--norm-epsilon", "layernorm_epsilon"},
    {"--fp8-format", "fp8"},
    {"--fp4-format", "fp4"},
}};

std::string keyOf(std::string_view argument) {
    for (const NamePair& pair : kRenamed)
        if (pair.argument == argument) return std::string(pair.key);
    std::string key(argument.substr(2));
    std::replace(key.begin(), key.end(), '-', '_');
    return key;
}

std::string argumentOf(std::string_view key) {
    for (const NamePair& pair : kRenamed)
        if (pair.key == key) return std::string(pair.argument);
    std::string argument = "--" + std::string(key);
    std::replace(argument.begin(), argument.end(), '_', '-');
    return argument;
}

/// "language_model.num_layers" of "num_layers"; empty when no section has it.
std::string pathOf(const std::string& key) {
    const OptionList& options = optionList(OptionSet::MegatronYaml);
    for (const std::string_view prefix : {"language_model.", "model_parallel.", ""})
        if (options.find(std::string(prefix) + key) != nullptr) return std::string(prefix) + key;
    return "";
}

Json listOf(const std::vector<LayerKind>& layers) {
    Json out = Json::array();
    for (const LayerKind kind : layers) out.push_back(kind == LayerKind::Moe ? 1 : 0);
    return out;
}

/// The arguments whose value or sense differs in the file; false for the others.
bool addSpecial(const Setting& setting, const Plan& plan, Settings& out) {
    const std::string& name = setting.name;
    if (name == "--swiglu") {
        out.add("language_model.activation_func", "swiglu");
        out.add("language_model.gated_linear_unit", true);
        out.add("swiglu", true);
    } else if (name == "--disable-bias-linear") {
        out.add("language_model.add_bias_linear", false);
    } else if (name == "--no-gradient-accumulation-fusion") {
        out.add("model_parallel.gradient_accumulation_fusion", false);
    } else if (name == "--num-virtual-stages-per-pipeline-rank") {
        out.add("num_layers_per_virtual_pipeline_stage",
                plan.model.num_layers / (plan.layout.pp * plan.layout.vpp));
    } else if (name == "--moe-layer-freq") {
        out.add("language_model.moe_layer_freq", listOf(plan.model.layers));
    } else if (name == "--window-size") {
        out.add("language_model.window_size",
                Json::array({plan.model.attention.sliding_window - 1, 0}));
    } else if (name == "--moe-router-load-balancing-type" || name == "--moe-aux-loss-coeff") {
        out.add(pathOf(keyOf(name)), setting.value.front());
    } else {
        return false;
    }
    return true;
}

Settings yamlSettings(const Plan& plan) {
    Settings out;
    const Settings arguments = megatronSettings(plan);
    for (const Setting& setting : arguments.list())
        if (!addSpecial(setting, plan, out)) out.add(pathOf(keyOf(setting.name)), setting.value);
    if (plan.model.moe && plan.model.moe->shared_gate)
        out.add("language_model.moe_shared_expert_gate", true);
    return out;
}

/// Back to the arguments' names, for the reader of the command line.
Settings argumentsOf(const Settings& yaml) {
    Settings out;
    const OptionList& arguments = optionList(OptionSet::MegatronArguments);
    for (const Setting& setting : yaml.list()) {
        const std::string key = setting.name.substr(setting.name.rfind('.') + 1);
        if (key == "activation_func") {
            out.flag("--swiglu", setting.value == Json("swiglu"));
            continue;
        }
        const std::string name = argumentOf(key);
        const OptionEntry* const entry = arguments.find(name);
        const bool off = setting.value.is_null() || setting.value == Json(false);
        if (entry == nullptr || off || name == "--swiglu") continue;
        const bool wrap = entry->kind == OptionKind::List && !setting.value.is_array();
        out.add(name, wrap ? Json::array({setting.value}) : setting.value);
    }
    return out;
}

/// YAML 1.1 as PyYAML reads it: a real number needs its point.
std::string yamlScalar(const Json& value) {
    if (value.is_string()) {
        std::string out = "'";
        for (const char c : value.get<std::string>())
            out += c == '\'' ? std::string("''") : std::string(1, c);
        return out + "'";
    }
    std::string text = value.dump();
    if (!value.is_number_float() || text.find('.') != std::string::npos) return text;
    const std::size_t exponent = text.find('e');
    if (exponent == std::string::npos) return text + ".0";
    return text.insert(exponent, ".0");
}

std::string yamlValue(const Json& value) {
    if (!value.is_array()) return yamlScalar(value);
    std::string out;
    for (const Json& item : value) out += (out.empty() ? "" : ", ") + yamlScalar(item);
    return "[" + out + "]";
}

std::string yamlText(const Settings& settings, const Json& residual, const std::string& title) {
    const OptionList& options = optionList(OptionSet::MegatronYaml);
    std::string out = fmt::format(
        "# {}\n# Keys of {} ({}).\n{}# Keys that the plan sets end with \"# plan\"; the others are "
        "defaults.\n",
        title, options.repository(), options.source(), residualLine(residual));
    std::string section;
    for (const OptionEntry& entry : options.entries()) {
        const std::size_t dot = entry.name.find('.');
        const std::string of = dot == std::string::npos ? "" : entry.name.substr(0, dot);
        if (of != section) out += of.empty() ? "\n" : fmt::format("\n{}:\n", of);
        section = of;
        const Json* const value = settings.find(entry.name);
        const std::string key = entry.name.substr(dot == std::string::npos ? 0 : dot + 1);
        out += fmt::format("{}{}: {}{}\n", of.empty() ? "" : "  ", key,
                           value == nullptr ? entry.fallback : yamlValue(*value),
                           value == nullptr ? "" : "  # plan");
    }
    return out;
}

Json scalarOf(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;  // quoted
    if (text == "true" || text == "True") return true;
    if (text == "false" || text == "False") return false;
    if (text == "null" || text == "~" || text.empty()) return nullptr;
    const char* const end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto r = std::from_chars(text.data(), end, whole);
        r.ec == std::errc() && r.ptr == end)
        return whole;
    double real = 0.0;
    if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc() && r.ptr == end)
        return real;
    return text;
}

Json jsonOf(const YAML::Node& node, int depth) {
    if (depth > 20) return nullptr;
    if (node.IsMap()) {
        Json out = Json::object();
        for (const auto& pair : node) out[pair.first.Scalar()] = jsonOf(pair.second, depth + 1);
        return out;
    }
    if (node.IsSequence()) {
        Json out = Json::array();
        for (const auto& item : node) out.push_back(jsonOf(item, depth + 1));
        return out;
    }
    return node.IsScalar() ? scalarOf(node) : Json(nullptr);
}

Result<Plan> readBack(const Settings& yaml, std::int64_t world, const Plan& start,
                      const std::string& where) {
    const Settings arguments = argumentsOf(yaml);
    Plan plan = start;
    SettingReader in(arguments, where);
    readMegatronSettings(in, plan);
    SettingReader keys(yaml, where);
    if (plan.model.moe)
        plan.model.moe->shared_gate = keys.flag("language_model.moe_shared_expert_gate");
    PIPER_TRY(in.finish());
    PIPER_TRY(keys.finish());
    const Status placed = setWorld(plan, world);
    if (!placed.ok()) return Error(placed.error()).at(where);
    return plan;
}

std::string launchScript(const Plan& plan) {
    ShellScript script;
    script.title = planTitle(plan);
    script.shape = launchShape(plan);
    script.environment = launchEnvironment(plan, Framework::Megatron);
    script.plan.add("--yaml-cfg", std::string(kMegatronYaml));
    script.program = "pretrain_gpt.py";
    return writeShellScript(script);
}

}  // namespace

std::vector<std::string> megatronYamlReasons(const Plan& plan) {
    std::vector<std::string> out;
    if (plan.model.attention.kind == AttentionKind::Mla)
        out.emplace_back(
            "Megatron-LM's YAML reader takes only the fields of TransformerConfig: the sizes of "
            "multi-latent attention would silently be its defaults; export to megatron instead");
    if (plan.layout.vpp > 1 && plan.layout.pp <= 2)
        out.push_back(
            fmt::format("Megatron-LM's YAML reader takes several chunks a rank only with "
                        "pp above 2, not {}; export to megatron instead",
                        plan.layout.pp));
    if (plan.layout.vpp > 1 && !plan.stage_layers.empty())
        out.emplace_back(
            "Megatron-LM's YAML reader takes no layout string together with several chunks a rank; "
            "export to megatron instead");
    if (plan.precision == Precision::Fp16 && plan.layout.ep > 1)
        out.push_back(
            fmt::format("Megatron-LM's YAML reader refuses fp16 with ep {}", plan.layout.ep));
    return out;
}

Result<Export> exportMegatronYaml(const Plan& plan) {
    const Settings settings = yamlSettings(plan);
    PIPER_ASSIGN(const Plan back, readBack(settings, plan.layout.world(), blankPlan(plan.cluster),
                                           std::string(kMegatronYaml)));
    const Json residual = residualOf(plan, back);
    Export out;
    out.files.push_back(
        {std::string(kMegatronYaml), yamlText(settings, residual, planTitle(plan)), false});
    out.files.push_back({std::string(kMegatronYamlScript), launchScript(plan), true});
    out.not_expressed = residualSentences(residual, "Megatron-LM");
    return out;
}

Result<Settings> parseMegatronYaml(const ExportedFile& file) {
    Json document;
    try {
        document = jsonOf(YAML::Load(file.content), 0);
    } catch (const YAML::Exception& error) {
        return fail(ErrorCode::InvalidInput, "not YAML: {}", error.what()).at(file.name);
    }
    if (!document.is_object())
        return fail(ErrorCode::InvalidInput, "expected keys with values").at(file.name);
    const OptionList& options = optionList(OptionSet::MegatronYaml);
    Settings out = flatten(document, options);
    PIPER_TRY(requireAll(out, options, file.name));
    return out;
}

Result<Plan> importMegatronYaml(const Files& files, const Plan& base, GivenShape shape) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kMegatronYaml));
    PIPER_ASSIGN(const Settings settings, parseMegatronYaml(*file));
    PIPER_ASSIGN(const Json residual, readResidualLine(file->content, file->name));
    if (!shape) {
        PIPER_ASSIGN(const ExportedFile* script, findFile(files, kMegatronYamlScript));
        PIPER_ASSIGN(const ParsedScript parsed,
                     parseShellScript(script->content, optionList(OptionSet::MegatronArguments),
                                      script->name));
        PIPER_ASSIGN(shape, scriptShape(parsed, script->name));
    }
    const Plan start = residual.is_object() ? blankPlan(base.cluster) : base;
    PIPER_ASSIGN(const Plan back, readBack(settings, shape->world(), start, file->name));
    return applyResidual(back, residual, file->name);
}

}  // namespace piper
