// SPDX-License-Identifier: Apache-2.0
// Options that exclude each other, by framework. Sources: Megatron-LM transformer_config and
// arguments (overlap_moe_expert_parallel_comm, moe_shared_expert_overlap, capacity), DeepSpeed
// runtime/engine.py ("MoE not supported with Stage 3") and runtime/pipe/engine.py ("ZeRO-2 and
// ZeRO-3 are incompatible with pipeline parallelism"), torchtitan's list of training precisions.
#include <algorithm>
#include <array>

#include "core/plan/rules.h"

namespace piper {
namespace {

bool frameworkHas(Framework framework, Precision precision) {
    const bool wide = precision == Precision::Fp32 || precision == Precision::Tf32 ||
                      precision == Precision::Bf16;
    switch (framework) {
        case Framework::Plain:
        case Framework::Megatron:
            return true;
        case Framework::DeepSpeed:
            return wide || precision == Precision::Fp16;
        case Framework::Torchtitan:
            return wide || precision == Precision::Fp8 || precision == Precision::Fp8Block ||
                   precision == Precision::Mxfp8;
    }
    return false;
}

void precisionOfFramework(const Plan& plan, Violations& out) {
    if (frameworkHas(plan.framework, plan.precision)) return;
    std::vector<std::string> fix;
    for (const EnumName<Precision>& row : enumNames<Precision>())
        if (frameworkHas(plan.framework, row.value))
            fix.push_back(fmt::format("precision={}", row.name));
    out.add("precision_of_framework",
            fmt::format("{} does not train in {}", toText(plan.framework), toText(plan.precision)),
            std::move(fix));
}

/// Megatron-LM hides the expert exchange of one micro-batch behind the compute of another.
void overlapRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const FrameworkOptions& o = scope.options;
    const Layout& l = plan.layout;
    constexpr std::string_view name = "overlap_moe_expert_parallel_comm";
    const auto off = [](std::string_view key) { return fmt::format("{}=0", key); };
    const auto add = [&](std::string_view what, std::vector<std::string> fix) {
        fix.push_back(off(name));
        out.add("expert_overlap", fmt::format("{} {}", name, what), std::move(fix));
    };
    if (l.ep == 1) add("needs ep above 1: with ep 1 nothing is exchanged", {"ep=2"});
    const DispatcherRow* dispatcher = findDispatcher(o.dispatcher);
    if (dispatcher != nullptr && !dispatcher->overlap)
        add(fmt::format("works with the dispatchers alltoall and flex, not with {}",
                        dispatcher->name),
            {"dispatcher=alltoall", "dispatcher=flex"});
    if (plan.recompute.granularity == RecomputeGranularity::Full)
        add("does not work with full recompute", {"recompute=selective"});
    if (l.pp > 1 && l.vpp == 1)
        add(fmt::format("needs an interleaved schedule when pp {} is above 1", l.pp), {"vpp=2"});
    if (o.mtp_is_zero)
        add("wants mtp_num_layers none or 1; releases without the fix of "
            "https://github.com/NVIDIA/Megatron-LM/pull/5921 reject 0",
            {"mtp_num_layers=none"});
    if (plan.model.mtp_num_layers > 1)
        add(fmt::format("wants mtp_num_layers none or 1, not {}", plan.model.mtp_num_layers),
            {"mtp_num_layers=1"});
    if (o.shared_expert_overlap)
        add("and moe_shared_expert_overlap exclude each other", {off("moe_shared_expert_overlap")});
    if (plan.precision == Precision::Fp32 || plan.precision == Precision::Tf32)
        add(fmt::format("needs 16-bit activations, not {}", toText(plan.precision)),
            {"precision=bf16"});
}

void megatronCapacity(const Plan& plan, const RuleScope& scope, Violations& out) {
    const FrameworkOptions& o = scope.options;
    const DispatcherRow* dispatcher = findDispatcher(o.dispatcher);
    if (plan.capacity_factor && dispatcher != nullptr && !dispatcher->capacity)
        out.add("capacity_needs_alltoall",
                fmt::format("megatron takes a capacity factor only with the alltoall dispatchers, "
                            "not with {}",
                            dispatcher->name),
                {"dispatcher=alltoall", "capacity_factor=dropless"});
    static constexpr std::array<std::string_view, 4> kBalancing = {"aux_loss", "seq_aux_loss",
                                                                   "global_aux_loss", "none"};
    if (plan.capacity_factor && !o.load_balancing.empty() &&
        std::find(kBalancing.begin(), kBalancing.end(), o.load_balancing) == kBalancing.end())
        out.add("capacity_needs_aux_loss",
                fmt::format("megatron takes a capacity factor with the load balancing {}, not "
                            "with {}",
                            joinWords(kBalancing), o.load_balancing),
                {"load_balancing=aux_loss", "capacity_factor=dropless"});
    if (o.pad_to_capacity && !plan.capacity_factor)
        out.add("padding_needs_capacity",
                "moe_pad_expert_input_to_capacity pads to a capacity, and none is given",
                {"capacity_factor=1.0", "pad_to_capacity=0"});
    if (o.shared_expert_overlap && dispatcher != nullptr && dispatcher->name != "alltoall")
        out.add("shared_expert_overlap",
                fmt::format("moe_shared_expert_overlap works with the alltoall dispatcher only, "
                            "not with {}",
                            dispatcher->name),
                {"dispatcher=alltoall", "moe_shared_expert_overlap=0"});
}

/// num_experts handed over where the number of ranks belongs, or the other way round.
void expertParallelSize(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (!scope.options.ep_size) return;
    const std::int64_t size = *scope.options.ep_size;
    if (size == plan.layout.ep) return;
    const bool mixed = scope.moe && plan.model.moe && size == plan.model.moe->num_experts;
    out.add("ep_size_is_ep",
            fmt::format("ep_size {} is handed over, the layout has ep {}{}", size, plan.layout.ep,
                        mixed ? fmt::format(": {} is num_experts; ep_size counts the ranks that "
                                            "share the experts of a layer",
                                            size)
                              : ""),
            {fmt::format("ep_size={}", plan.layout.ep)});
}

void zeroRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (plan.framework != Framework::DeepSpeed) return;
    if (plan.zero_stage >= 2 && plan.layout.pp > 1)
        out.add("zero_with_pipeline",
                fmt::format("deepspeed runs a pipeline (pp {}) with ZeRO stages 0 and 1, not {}",
                            plan.layout.pp, plan.zero_stage),
                {"zero_stage=1", "pp=1"});
    if (plan.zero_stage == 3 && plan.layout.ep > 1 && (!scope.moe || plan.model.moe))
        out.add("zero_with_experts",
                fmt::format("deepspeed's MoE layers (ep {}) run under ZeRO stages 0, 1 and 2, not "
                            "3",
                            plan.layout.ep),
                {"zero_stage=2", "ep=1"});
}

}  // namespace

void compatibilityRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    precisionOfFramework(plan, out);
    zeroRules(plan, scope, out);
    expertParallelSize(plan, scope, out);
    if (plan.framework != Framework::Megatron) return;
    megatronCapacity(plan, scope, out);
    if (scope.options.overlap_expert_comm) overlapRules(plan, scope, out);
}

}  // namespace piper
