// SPDX-License-Identifier: Apache-2.0
#include "core/export/export.h"

#include <array>

#include "core/export/targets.h"

namespace piper {
namespace {

constexpr std::array<EnumName<ExportTarget>, 6> kTargets = {{
    {ExportTarget::Megatron, "megatron"},
    {ExportTarget::MegatronYaml, "megatron-yaml"},
    {ExportTarget::DeepSpeed, "deepspeed"},
    {ExportTarget::XMoe, "xmoe"},
    {ExportTarget::Torchtitan, "torchtitan"},
    {ExportTarget::Slurm, "slurm"},
}};

/// The framework whose rules the plan must keep.
Framework frameworkOf(ExportTarget target, const Plan& plan) {
    switch (target) {
        case ExportTarget::Megatron:
        case ExportTarget::MegatronYaml:
            return Framework::Megatron;
        case ExportTarget::DeepSpeed:
        case ExportTarget::XMoe:
            return Framework::DeepSpeed;
        case ExportTarget::Torchtitan:
            return Framework::Torchtitan;
        case ExportTarget::Slurm:
            return plan.framework;
    }
    return plan.framework;
}

std::vector<std::string> ownReasons(ExportTarget target, const Plan& plan) {
    if (target == ExportTarget::MegatronYaml) return megatronYamlReasons(plan);
    const Framework framework = plan.framework;
    const bool job = target == ExportTarget::Slurm;
    if (target == ExportTarget::XMoe || (job && framework == Framework::DeepSpeed))
        return xmoeReasons(plan);
    if (target == ExportTarget::Torchtitan || (job && framework == Framework::Torchtitan))
        return torchtitanReasons(plan);
    return {};
}

Status mayLaunch(const Plan& plan, ExportTarget target) {
    Plan as_framework = plan;
    as_framework.framework = frameworkOf(target, plan);
    std::vector<std::string> reasons = ownReasons(target, plan);
    for (const Violation& violation : validatePlan(as_framework))
        reasons.push_back(violation.message);
    if (reasons.empty()) return {};
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    Error error =
        fail(ErrorCode::RuleBroken, "{} cannot launch this plan: {}", toText(target), text);
    error.hint = fmt::format("piperctl check --framework {} names the legal neighbours",
                             toText(as_framework.framework));
    return error;
}

Result<Export> exportTo(const Plan& plan, ExportTarget target) {
    switch (target) {
        case ExportTarget::Megatron:
            return exportMegatron(plan);
        case ExportTarget::MegatronYaml:
            return exportMegatronYaml(plan);
        case ExportTarget::DeepSpeed:
            return exportDeepSpeed(plan);
        case ExportTarget::XMoe:
            return exportXMoe(plan);
        case ExportTarget::Torchtitan:
            return exportTorchtitan(plan);
        case ExportTarget::Slurm:
            return exportSlurm(plan);
    }
    return fail(ErrorCode::InvalidInput, "unknown target");
}

}  // namespace

template <>
std::span<const EnumName<ExportTarget>> enumNames<ExportTarget>() {
    return kTargets;
}

Result<Export> exportPlan(const Plan& plan, ExportTarget target) {
    PIPER_TRY(mayLaunch(plan, target));
    PIPER_ASSIGN(Export out, exportTo(plan, target));
    const OptionSource source = optionSource(target);
    if (!plan.cluster.curves.empty())
        out.not_expressed.push_back(fmt::format(
            "cluster: {} is not told what was measured; the file is read back onto a cluster you "
            "name",
            source.name));
    PIPER_TRY(checkOptions(out.files));
    return out;
}

Result<Plan> importPlan(ExportTarget target, const std::vector<ExportedFile>& files,
                        const Plan& base) {
    switch (target) {
        case ExportTarget::Megatron:
            return importMegatron(files, base, std::nullopt);
        case ExportTarget::MegatronYaml:
            return importMegatronYaml(files, base, std::nullopt);
        case ExportTarget::DeepSpeed:
            return importDeepSpeed(files, base);
        case ExportTarget::XMoe:
            return importXMoe(files, base, std::nullopt);
        case ExportTarget::Torchtitan:
            return importTorchtitan(files, base, std::nullopt);
        case ExportTarget::Slurm:
            return importSlurm(files, base);
    }
    return fail(ErrorCode::InvalidInput, "unknown target");
}

OptionSource optionSource(ExportTarget target) {
    constexpr std::array<OptionSet, 6> kSets = {
        OptionSet::MegatronArguments, OptionSet::MegatronYaml,
        OptionSet::DeepSpeedConfig,   OptionSet::MegatronDeepSpeedArguments,
        OptionSet::TorchtitanConfig,  OptionSet::SbatchOptions};
    const OptionList& list = optionList(kSets[static_cast<std::size_t>(target)]);
    return {list.name(), list.repository(), list.commit(), list.source(), list.entries().size()};
}

}  // namespace piper
