// SPDX-License-Identifier: Apache-2.0
// The batch script, and beside it the files of the plan's framework that it starts.
#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/export/targets.h"

namespace piper {
namespace {

constexpr std::string_view kDirective = "#SBATCH";

std::string jobName(const Plan& plan) {
    std::string name = plan.model.name.empty() ? "piper" : plan.model.name;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.' && c != '_')
            c = '-';
    return name;
}

/// The script a job of that framework starts on each node; empty: piper-worker, one task a rank.
std::string_view startedScript(Framework framework) {
    switch (framework) {
        case Framework::Megatron:
            return kMegatronScript;
        case Framework::DeepSpeed:
            return kXMoeScript;
        case Framework::Torchtitan:
            return kTorchtitanScript;
        case Framework::Plain:
            return {};
    }
    return {};
}

Settings sbatchSettings(const Plan& plan) {
    const LaunchShape shape = launchShape(plan);
    const bool worker = plan.framework == Framework::Plain;
    Settings out;
    out.add("--job-name", jobName(plan));
    out.add("--nodes", shape.nodes);
    out.add("--ntasks-per-node", worker ? shape.ranks_per_node : 1);
    if (plan.cluster.device.kind == DeviceKind::Gpu)
        out.add("--gpus-per-node", shape.ranks_per_node);
    out.add("--time", "01:00:00");
    out.add("--output", "%x-%j.out");
    out.flag("--exclusive");
    return out;
}

std::string sbatchText(const Plan& plan) {
    std::string out = "#!/bin/bash\n";
    const Settings settings = sbatchSettings(plan);
    for (const Setting& setting : settings.list())
        out += setting.value.is_boolean()
                   ? fmt::format("{} {}\n", kDirective, setting.name)
                   : fmt::format("{} {}={}\n", kDirective, setting.name, scalarText(setting.value));
    out += fmt::format("# {}\n# Options of sbatch {}.\nset -euo pipefail\n\n", planTitle(plan),
                       optionList(OptionSet::SbatchOptions).commit());
    for (const auto& [name, value] : launchEnvironment(plan, plan.framework))
        out += fmt::format("export {}={}\n", name, value);
    const std::string_view script = startedScript(plan.framework);
    if (script.empty())
        return out + fmt::format(
                         "JOB_DIRECTORY=${{JOB_DIRECTORY:-$SLURM_SUBMIT_DIR/job-$SLURM_JOB_ID}}\n"
                         "mkdir -p \"$JOB_DIRECTORY\"\n\n"
                         "srun piper-worker --plan \"$SLURM_SUBMIT_DIR/{}\" --job "
                         "\"$JOB_DIRECTORY\"\n",
                         kPlanFile);
    return out + fmt::format(
                     "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
                     "export MASTER_ADDR\nexport NNODES=$SLURM_NNODES\n"
                     "export GPUS_PER_NODE={}\n\nsrun bash \"$SLURM_SUBMIT_DIR/{}\"\n",
                     launchShape(plan).ranks_per_node, script);
}

Result<Export> companions(const Plan& plan) {
    switch (plan.framework) {
        case Framework::Megatron:
            return exportMegatron(plan);
        case Framework::DeepSpeed:
            return exportXMoe(plan);
        case Framework::Torchtitan:
            return exportTorchtitan(plan);
        case Framework::Plain:
            break;
    }
    Export out;
    out.files.push_back({std::string(kPlanFile), writePlan(plan).dump(2) + "\n", false});
    return out;
}

Result<std::int64_t> countOf(const Settings& settings, std::string_view name,
                             std::string_view where) {
    const Json* const value = settings.find(name);
    const std::string text = value == nullptr ? "" : scalarText(*value);
    // "h100:8" is 8 of that type.
    const std::string digits = text.substr(text.rfind(':') + 1);
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    if (error != std::errc() || end != digits.data() + digits.size() || count < 1 ||
        count > (1 << 24))
        return fail(ErrorCode::InvalidInput, "{} must be a number above 0, found '{}'", name, text)
            .at(std::string(where));
    return count;
}

bool holds(const Files& files, std::string_view name) {
    return std::any_of(files.begin(), files.end(),
                       [&](const ExportedFile& file) { return file.name == name; });
}

Result<Plan> importWorker(const Files& files, const Plan& base, const LaunchShape& shape) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kPlanFile));
    PIPER_ASSIGN(Plan plan, readPlanText(file->content, file->name));
    plan.cluster = base.cluster;
    const Status placed = setWorld(plan, shape.world());
    if (!placed.ok()) return Error(placed.error()).at(std::string(kSbatchScript));
    return plan;
}

}  // namespace

Result<Export> exportSlurm(const Plan& plan) {
    PIPER_ASSIGN(Export out, companions(plan));
    out.files.insert(out.files.begin(), {std::string(kSbatchScript), sbatchText(plan), true});
    return out;
}

Result<Settings> parseSbatch(const ExportedFile& file) {
    const OptionList& options = optionList(OptionSet::SbatchOptions);
    Settings out;
    std::istringstream in(file.content);
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        if (!line.starts_with(kDirective)) continue;
        std::istringstream words(line.substr(kDirective.size()));
        std::string word;
        while (words >> word && !word.starts_with("#")) {
            const std::size_t equals = word.find('=');
            const std::string name = word.substr(0, equals);
            const Status known = options.require(name);
            if (!known.ok())
                return Error(known.error()).at(fmt::format("{}: line {}", file.name, number));
            if (equals != std::string::npos)
                out.add(name, word.substr(equals + 1));
            else if (options.find(name)->kind == OptionKind::Flag)
                out.flag(name);
            else if (words >> word)
                out.add(name, word);
            else
                return fail(ErrorCode::InvalidInput, "{} takes a value", name)
                    .at(fmt::format("{}: line {}", file.name, number));
        }
    }
    return out;
}

Result<Plan> importSlurm(const Files& files, const Plan& base) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kSbatchScript));
    PIPER_ASSIGN(const Settings settings, parseSbatch(*file));
    LaunchShape shape;
    PIPER_ASSIGN(shape.nodes, countOf(settings, "--nodes", file->name));
    const bool worker = holds(files, kPlanFile);
    PIPER_ASSIGN(shape.ranks_per_node,
                 countOf(settings, worker ? "--ntasks-per-node" : "--gpus-per-node", file->name));
    if (worker) return importWorker(files, base, shape);
    if (holds(files, kMegatronScript)) return importMegatron(files, base, shape);
    if (holds(files, kXMoeScript)) return importXMoe(files, base, shape);
    if (holds(files, kTorchtitanConfig)) return importTorchtitan(files, base, shape);
    return fail(ErrorCode::InvalidInput, "no file of a framework beside {}", file->name);
}

}  // namespace piper
