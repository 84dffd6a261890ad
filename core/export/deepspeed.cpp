// SPDX-License-Identifier: Apache-2.0
// ds_config.json: what DeepSpeed itself decides. Degrees and the model belong to the program that
// calls it; they stand beside the file, since JSON has no comments.
#include "core/export/residual.h"
#include "core/export/targets.h"

namespace piper {

Settings deepSpeedSettings(const Plan& plan) {
    Settings out;
    out.add("train_batch_size", plan.global_batch_size);
    out.add("train_micro_batch_size_per_gpu", plan.micro_batch_size);
    out.add("gradient_accumulation_steps", plan.numMicroBatches());
    out.add("zero_optimization.stage", plan.zero_stage);
    if (plan.offload.optimizer) {
        out.add("zero_optimization.offload_optimizer.device", "cpu");
        out.add("zero_optimization.offload_optimizer.pin_memory", true);
        // Only ZeRO-3 offloads a part.
        if (plan.zero_stage == 3)
            out.add("zero_optimization.offload_optimizer.ratio", plan.offload.fraction);
    }
    out.add("bf16.enabled", plan.precision == Precision::Bf16);
    out.add("fp16.enabled", plan.precision == Precision::Fp16);
    if (plan.precision == Precision::Fp16) {
        out.add("fp16.loss_scale", 0);
        out.add("fp16.loss_scale_window", 500);
        out.add("fp16.hysteresis", 2);
        out.add("fp16.min_loss_scale", 1);
        out.add("fp16.initial_scale_power", 11);
    }
    return out;
}

void readDeepSpeedSettings(SettingReader& in, Plan& plan) {
    plan.micro_batch_size = in.positive("train_micro_batch_size_per_gpu");
    plan.global_batch_size = in.positive("train_batch_size");
    const std::int64_t steps = in.positive("gradient_accumulation_steps", 1);
    const std::int64_t each = plan.micro_batch_size * steps;
    if (each > plan.global_batch_size || plan.global_batch_size % each != 0)
        in.note(fail(ErrorCode::InvalidInput,
                     "train_batch_size {} is no multiple of train_micro_batch_size_per_gpu {} x "
                     "gradient_accumulation_steps {}",
                     plan.global_batch_size, plan.micro_batch_size, steps)
                    .at(in.where()));
    else
        plan.layout.dp = plan.global_batch_size / each;
    const std::int64_t stage = in.integer("zero_optimization.stage", 0);
    if (stage < 0 || stage > 3)
        in.note(
            fail(ErrorCode::InvalidInput, "zero_optimization.stage {} is not 0, 1, 2 or 3", stage)
                .at(in.where()));
    plan.zero_stage = static_cast<int>(stage);
    const std::string device = in.text("zero_optimization.offload_optimizer.device", "none");
    plan.offload.optimizer = device != "none";
    plan.offload.fraction = in.number("zero_optimization.offload_optimizer.ratio", 1.0);
    const bool bf16 = in.flag("bf16.enabled");
    const bool fp16 = in.flag("fp16.enabled");
    if (bf16 && fp16)
        in.note(fail(ErrorCode::InvalidInput, "bf16 and fp16 are both enabled; DeepSpeed takes one")
                    .at(in.where()));
    plan.precision = bf16 ? Precision::Bf16 : fp16 ? Precision::Fp16 : Precision::Fp32;
    plan.framework = Framework::DeepSpeed;
}

std::string deepSpeedConfigText(const Plan& plan) {
    Settings settings = deepSpeedSettings(plan);
    settings.add("gradient_clipping", 1.0);
    settings.add("prescale_gradients", false);
    settings.add("steps_per_print", 1);
    settings.add("wall_clock_breakdown", false);
    return nest(settings).dump(2) + "\n";
}

Result<Settings> parseDeepSpeedConfig(const ExportedFile& file) {
    PIPER_ASSIGN(const Json document, parseJson(file.content, file.name));
    if (!document.is_object())
        return fail(ErrorCode::InvalidInput, "expected an object").at(file.name);
    const OptionList& options = optionList(OptionSet::DeepSpeedConfig);
    Settings out = flatten(document, options);
    PIPER_TRY(requireAll(out, options, file.name));
    return out;
}

Result<Export> exportDeepSpeed(const Plan& plan) {
    const Settings settings = deepSpeedSettings(plan);
    Plan back = blankPlan(plan.cluster);
    SettingReader in(settings, std::string(kDeepSpeedConfig));
    readDeepSpeedSettings(in, back);
    PIPER_TRY(in.finish());
    const Json residual = residualOf(plan, back);
    Export out;
    out.files.push_back({std::string(kDeepSpeedConfig), deepSpeedConfigText(plan), false});
    Json rest = {{"format_version", 1}, {"plan", residual}};
    out.files.push_back({std::string(kDeepSpeedRest), rest.dump(2) + "\n", false});
    out.not_expressed = residualSentences(residual, "DeepSpeed's configuration file");
    if (plan.model.moe && plan.layout.ep > 1)
        out.not_expressed.push_back(
            fmt::format("ep {}: deepspeed.moe.layer.MoE takes it as ep_size; num_experts {} is "
                        "another argument of it",
                        plan.layout.ep, plan.model.moe->num_experts));
    return out;
}

Result<Plan> importDeepSpeed(const Files& files, const Plan& base) {
    PIPER_ASSIGN(const ExportedFile* file, findFile(files, kDeepSpeedConfig));
    PIPER_ASSIGN(const Settings settings, parseDeepSpeedConfig(*file));
    Json residual;
    Plan plan = base;
    if (const auto rest = findFile(files, kDeepSpeedRest); rest.ok()) {
        PIPER_ASSIGN(Json document, parseJson((*rest)->content, (*rest)->name));
        ObjectReader in(document, (*rest)->name);
        PIPER_TRY(checkFormatVersion(in, 1));
        residual = in.child("plan");
        PIPER_TRY(in.finish());
        plan = blankPlan(base.cluster);
    }
    SettingReader in(settings, file->name);
    readDeepSpeedSettings(in, plan);
    PIPER_TRY(in.finish());
    return applyResidual(plan, residual, file->name);
}

}  // namespace piper
