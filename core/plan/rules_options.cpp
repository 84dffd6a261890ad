// SPDX-License-Identifier: Apache-2.0
// Precision, capacity, all-to-all, placement, load, recompute, ZeRO, off-load.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/plan/rules.h"

namespace piper {
namespace {

constexpr std::array<std::string_view, 8> kRecomputeModules = {
    "core_attn", "moe_act", "layernorm", "moe", "mla_up_proj", "mlp", "shared_experts", "op"};

void precisionRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (scope.options.group_rows) {
        const std::int64_t align = rowAlignment(plan.precision);
        const std::int64_t rows = *scope.options.group_rows;
        const std::int64_t padded = (rows + align - 1) / align * align;
        if (padded != rows)
            out.add(
                "row_alignment",
                fmt::format("a group of {} rows reaches a {} kernel that takes multiples of {}: "
                            "pad {} -> {}, {:.1f} % more rows",
                            rows, toText(plan.precision), align, rows, padded,
                            100.0 * static_cast<double>(padded - rows) /
                                static_cast<double>(std::max<std::int64_t>(1, rows))),
                {fmt::format("group_rows={}", padded)});
    }
    if (!scope.cluster) return;
    const Result<FlopsPerSecond> rate = plan.cluster.device.peakFor(plan.precision);
    if (rate.ok()) return;
    std::vector<std::string> fix;
    for (const auto& [precision, peak] : plan.cluster.device.peak)
        fix.push_back(fmt::format("precision={}", toText(precision)));
    out.add("precision_of_device", rate.error().message, std::move(fix));
}

void capacityRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (!plan.capacity_factor) return;
    if (!(*plan.capacity_factor > 0.0) || !std::isfinite(*plan.capacity_factor))
        out.add("capacity_factor_positive",
                fmt::format("capacity_factor {} must be above 0", *plan.capacity_factor),
                {"capacity_factor=1.25"});
    if (scope.moe && !plan.model.moe)
        out.add("capacity_needs_experts", "a capacity factor for a dense model");
    if (plan.framework == Framework::Torchtitan)
        out.add("capacity_of_framework", "torchtitan routes dropless: it has no capacity factor",
                {"capacity_factor=dropless"});
}

void allToAllRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const AllToAllChoice& a = plan.all_to_all;
    const std::int64_t tokens = std::max<std::int64_t>(1, plan.tokensPerMicroBatch());
    if (a.chunks < 1 || (scope.seq_len && scope.micro_batch && a.chunks > tokens))
        out.add("all_to_all_chunks",
                fmt::format("all_to_all.chunks {} must be between 1 and the {} tokens of a "
                            "micro-batch",
                            a.chunks, tokens),
                {"chunks=1"});
    if (a.node_limit < 0 || (scope.cluster && a.node_limit > plan.cluster.nodes))
        out.add(
            "all_to_all_node_limit",
            fmt::format("all_to_all.node_limit {} must be between 0 (no limit) and the {} nodes",
                        a.node_limit, plan.cluster.nodes),
            {"node_limit=0"});
}

void placementRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (plan.expert_placement.empty() || !scope.moe) return;
    const std::int64_t experts = plan.model.moe ? plan.model.moe->num_experts : 0;
    const std::int64_t ep = plan.layout.ep;
    if (static_cast<std::int64_t>(plan.expert_placement.size()) != experts) {
        out.add("expert_placement",
                fmt::format("expert_placement has {} entries, the model {} experts",
                            plan.expert_placement.size(), experts));
        return;
    }
    std::vector<std::int64_t> count(static_cast<std::size_t>(ep), 0);
    for (const std::int64_t rank : plan.expert_placement) {
        if (rank < 0 || rank >= ep) {
            out.add(
                "expert_placement",
                fmt::format("expert_placement names ep rank {}, there are 0..{}", rank, ep - 1));
            return;
        }
        ++count[static_cast<std::size_t>(rank)];
    }
    const auto [least, most] = std::minmax_element(count.begin(), count.end());
    if (*least != *most)
        out.add("expert_placement",
                fmt::format("expert_placement puts {} experts on one ep rank and {} on another; "
                            "each holds {} / {}",
                            *least, *most, experts, ep));
}

void routingRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const RoutingLoad& load = plan.routing_load;
    if (load.kind == RoutingLoadKind::Zipf &&
        !(load.zipf_exponent >= 0.0 && std::isfinite(load.zipf_exponent)))
        out.add("routing_load",
                fmt::format("zipf_exponent {} must not be negative", load.zipf_exponent));
    for (const RowPeak& peak : load.peaks)
        if (!(peak.held > 0.0 && peak.exchange > 0.0 && std::isfinite(peak.held + peak.exchange)))
            out.add("routing_load", fmt::format("peaks [{}, {}] must be positive numbers",
                                                peak.held, peak.exchange));
    if (load.kind != RoutingLoadKind::Histogram || !scope.moe || !scope.num_layers) return;
    const std::size_t experts =
        plan.model.moe ? static_cast<std::size_t>(plan.model.moe->num_experts) : 0;
    const std::size_t rows = load.histogram.size();
    if (rows != 1 && static_cast<std::int64_t>(rows) != plan.model.num_layers)
        out.add("routing_load", fmt::format("the histogram has {} rows; 1 or one a layer ({})",
                                            rows, plan.model.num_layers));
    for (std::size_t i = 0; i < rows; ++i) {
        double sum = 0.0;
        bool sound = load.histogram[i].size() == experts;
        for (const double share : load.histogram[i]) {
            sound = sound && share >= 0.0 && std::isfinite(share);
            sum += share;
        }
        if (sound && sum > 0.0) continue;
        out.add("routing_load",
                fmt::format("row {} of the histogram needs {} shares, none negative, not all 0", i,
                            experts));
    }
}

/// Modules the model does not have; Megatron-LM refuses mla_up_proj without MLA.
void recomputeModules(const Plan& plan, const RuleScope& scope, Violations& out) {
    for (const std::string& module : plan.recompute.modules) {
        if (module == "mla_up_proj" && scope.heads &&
            plan.model.attention.kind != AttentionKind::Mla)
            out.add("recompute_module_of_model",
                    "recompute of mla_up_proj for a model without multi-latent attention",
                    {"recompute.modules=layernorm"});
        const bool experts = module == "moe_act" || module == "moe" || module == "shared_experts";
        if (experts && scope.moe && !plan.model.moe)
            out.add("recompute_module_of_model",
                    fmt::format("recompute of {} for a model without experts", module),
                    {"recompute.modules=mlp"});
    }
}

void recomputeRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Recompute& r = plan.recompute;
    if (r.num_layers < 0)
        out.add("recompute",
                fmt::format("recompute.num_layers {} must not be negative", r.num_layers),
                {"recompute.num_layers=0"});
    if (r.granularity == RecomputeGranularity::Selective && r.modules.empty())
        out.add("recompute", "selective recompute without modules",
                {"recompute.modules=core_attn", "recompute.granularity=none"});
    for (const std::string& module : r.modules)
        if (std::find(kRecomputeModules.begin(), kRecomputeModules.end(), module) ==
            kRecomputeModules.end())
            out.add("recompute",
                    fmt::format("unknown recompute module '{}'; known: {}", module,
                                joinWords(kRecomputeModules)),
                    {"recompute.modules=" + nearestWord(module, kRecomputeModules)});
    if (r.granularity == RecomputeGranularity::Selective) recomputeModules(plan, scope, out);
}

/// Megatron-LM parallel_state splits the replicas of both grids over the instances.
void optimizerInstances(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    const std::int64_t instances = *scope.options.distributed_optimizer_instances;
    const std::int64_t edp = scope.world / (l.etp * l.ep * l.pp);
    const std::int64_t replicas = l.dp * l.cp;
    if (instances < 1 || replicas % instances != 0)
        out.add("dp_over_optimizer_instances",
                fmt::format("dp {} x cp {} = {}, not divisible by {} distributed optimizer "
                            "instances",
                            l.dp, l.cp, replicas, instances),
                {"num_distributed_optimizer_instances=1"});
    if (instances < 1 || edp % instances != 0)
        out.add("edp_over_optimizer_instances",
                fmt::format("edp = {} / (etp {} x ep {} x pp {}) = {}, not divisible by {} "
                            "distributed optimizer instances",
                            scope.world, l.etp, l.ep, l.pp, edp, instances),
                {"num_distributed_optimizer_instances=1",
                 fmt::format("world={}", instances * l.etp * l.ep * l.pp)});
}

void stateRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    if (plan.zero_stage < 0 || plan.zero_stage > 3)
        out.add("zero_stage", fmt::format("zero_stage {} must be between 0 and 3", plan.zero_stage),
                {"zero_stage=1"});
    if (!(plan.offload.fraction >= 0.0 && plan.offload.fraction <= 1.0))
        out.add("offload_fraction",
                fmt::format("offload.fraction {} must be between 0 and 1", plan.offload.fraction));
    if (!(plan.offload.activations >= 0.0 && plan.offload.activations <= 1.0))
        out.add("offload_fraction", fmt::format("offload.activations {} must be between 0 and 1",
                                                plan.offload.activations));
    if (plan.offload.parameters && plan.zero_stage != 3)
        out.add("offload_parameters",
                fmt::format("offload.parameters needs zero_stage 3, not {}: only sharded weights "
                            "are fetched layer by layer",
                            plan.zero_stage),
                {"zero_stage=3", "offload.parameters=false"});
    if (scope.options.distributed_optimizer_instances) optimizerInstances(plan, scope, out);
}

}  // namespace

std::int64_t rowAlignment(Precision precision) {
    switch (precision) {
        case Precision::Mxfp8:  // NVIDIA/TransformerEngine issue 2966, pytorch/torchtitan 2262
        case Precision::Nvfp4:
            return 32;
        case Precision::Fp8:  // pytorch/torchtitan issue 1651
        case Precision::Fp8Block:
            return 16;
        case Precision::Bf16:  // torch grouped_mm
        case Precision::Fp16:
            return 8;
        case Precision::Fp32:
        case Precision::Tf32:
            return 1;
    }
    return 1;
}

void optionRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    precisionRules(plan, scope, out);
    capacityRules(plan, scope, out);
    allToAllRules(plan, scope, out);
    placementRules(plan, scope, out);
    routingRules(plan, scope, out);
    recomputeRules(plan, scope, out);
    stateRules(plan, scope, out);
}

}  // namespace piper
