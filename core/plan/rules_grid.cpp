// SPDX-License-Identifier: Apache-2.0
// Both process grids: dense tp x cp x dp x pp, expert etp x ep x edp x pp, and their ranks.
// Source: Megatron-LM parallel_state (world % (etp ep pp) == 0 beside world % (tp cp pp) == 0);
// DeepSpeed groups (expert groups are cut from the data-parallel ones); torchtitan ParallelDims.
#include <algorithm>

#include "core/plan/rules.h"

namespace piper {
namespace {

std::int64_t nextMultiple(std::int64_t value, std::int64_t step) {
    return (value + step - 1) / step * step;
}

std::int64_t denseSize(const Layout& l) {
    return l.tp * l.cp * l.pp;
}

std::int64_t expertSize(const Layout& l) {
    return l.etp * l.ep * l.pp;
}

bool fitsExperts(const Plan& plan, const RuleScope& scope, std::int64_t ep) {
    return !scope.moe || !plan.model.moe || plan.model.moe->num_experts % ep == 0;
}

void denseGrid(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    const std::int64_t need = denseSize(l);
    if (scope.world % need == 0) {
        if (l.world() != scope.world)
            out.add("dense_grid",
                    fmt::format("tp {} x cp {} x pp {} x dp {} = {} ranks, the world has {}", l.tp,
                                l.cp, l.pp, l.dp, l.world(), scope.world),
                    {fmt::format("dp={}", scope.world / need), fmt::format("world={}", l.world())});
        return;
    }
    std::vector<std::string> fix;
    const auto neighbour = [&](std::string_view key, std::int64_t value) {
        const std::int64_t rest = need / value;
        if (value > 1 && scope.world % rest == 0)
            for (const std::string& s : settings(
                     key, legalNear(
                              value, scope.world / rest,
                              [&](std::int64_t v) { return scope.world % (rest * v) == 0; }, 2)))
                fix.push_back(s);
    };
    neighbour("pp", l.pp);
    neighbour("tp", l.tp);
    neighbour("cp", l.cp);
    fix.push_back(fmt::format("world={}", nextMultiple(scope.world, minimumWorld(l))));
    out.add("dense_grid",
            fmt::format("the dense grid needs tp {} x cp {} x pp {} = {} ranks or a multiple, {} "
                        "given leaves {}",
                        l.tp, l.cp, l.pp, need, scope.world, scope.world % need),
            std::move(fix));
}

/// Fixes in the order ep, pp, etp, world: the smallest change first.
std::vector<std::string> expertFixes(const Plan& plan, const RuleScope& scope) {
    const Layout& l = plan.layout;
    std::vector<std::string> fix;
    const auto below = [&](std::string_view key, std::int64_t value, auto legal) {
        for (std::int64_t v = value - 1; v >= 1; --v) {
            if (!legal(v)) continue;
            fix.push_back(fmt::format("{}={}", key, v));
            return;
        }
    };
    below("ep", l.ep, [&](std::int64_t v) {
        return scope.world % (l.etp * l.pp * v) == 0 && fitsExperts(plan, scope, v);
    });
    below("pp", l.pp, [&](std::int64_t v) {
        return scope.world % (l.etp * l.ep * v) == 0 && scope.world % (l.tp * l.cp * v) == 0;
    });
    below("etp", l.etp, [&](std::int64_t v) { return scope.world % (l.ep * l.pp * v) == 0; });
    fix.push_back(fmt::format("world={}", nextMultiple(scope.world, minimumWorld(l))));
    return fix;
}

/// num_experts and ep are two things; a user who mixes them up should read so.
std::string mixedUp(const Plan& plan, const RuleScope& scope) {
    if (!scope.moe || !plan.model.moe || plan.model.moe->num_experts != plan.layout.ep) return "";
    return fmt::format(
        "; ep {} equals num_experts: ep counts the ranks that share the experts of "
        "a layer, not the experts",
        plan.layout.ep);
}

void deepSpeedExpertGrid(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    if (l.dp % l.ep == 0) return;
    const auto legal = legalNear(
        l.ep, l.dp, [&](std::int64_t v) { return l.dp % v == 0 && fitsExperts(plan, scope, v); },
        8);
    std::vector<std::string> fix = settings("ep", legal);
    fix.push_back(fmt::format("world={}", nextMultiple(l.dp, l.ep) * denseSize(l)));
    out.add("ep_divides_dp",
            fmt::format("ep {} does not divide the {} data-parallel ranks that deepspeed cuts "
                        "expert groups from; legal ep: {}{}",
                        l.ep, l.dp, listed(legal), mixedUp(plan, scope)),
            std::move(fix));
}

void expertGrid(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    const std::int64_t need = expertSize(l);
    if (plan.framework == Framework::DeepSpeed) return deepSpeedExpertGrid(plan, scope, out);
    if (scope.world % need == 0) return;
    std::string more = l.etp > 1 && !scope.etp_origin.empty()
                           ? fmt::format("; etp {}: {}", l.etp, scope.etp_origin)
                           : "";
    if (plan.framework == Framework::Torchtitan && scope.world % denseSize(l) == 0)
        more += fmt::format("; torchtitan cuts ep x etp {} from dp_shard {} x cp {} x tp {} = {}",
                            l.ep * l.etp, l.dp, l.cp, l.tp, l.dp * l.cp * l.tp);
    out.add("expert_grid",
            fmt::format("the expert grid needs etp {} x ep {} x pp {} = {} ranks or a multiple, {} "
                        "given{}{}",
                        l.etp, l.ep, l.pp, need, scope.world, more, mixedUp(plan, scope)),
            expertFixes(plan, scope));
}

/// Ranks of one pipeline stage step by this much in the rank order.
std::int64_t pipelineStride(const std::vector<std::string>& order, std::int64_t tp, std::int64_t cp,
                            std::int64_t ep, std::int64_t dp) {
    std::int64_t stride = 1;
    for (const std::string& token : order) {
        if (token == "pp") break;
        stride *= token == "tp" ? tp : token == "cp" ? cp : token == "ep" ? ep : dp;
    }
    return stride;
}

void rankOrder(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    const Result<std::vector<std::string>> order = parseRankOrder(plan.rank_order);
    if (!order.ok()) {
        out.add("rank_order", order.error().message, {"rank_order=tp-cp-ep-dp-pp"});
        return;
    }
    if (l.pp == 1 || scope.world % denseSize(l) != 0 || scope.world % expertSize(l) != 0) return;
    const std::int64_t edp = scope.world / expertSize(l);
    const std::int64_t dense = pipelineStride(*order, l.tp, l.cp, 1, l.dp);
    const std::int64_t expert = pipelineStride(*order, l.etp, 1, l.ep, edp);
    if (dense != expert)
        out.add("rank_order",
                fmt::format("under rank order '{}' pipeline stages lie {} ranks apart in the dense "
                            "grid and {} in the expert grid; they agree when pp is last",
                            plan.rank_order, dense, expert),
                {"rank_order=tp-cp-ep-dp-pp"});
}

void ranksAndDevices(const Plan& plan, const RuleScope& scope, Violations& out) {
    const std::int64_t devices = plan.cluster.numDevices();
    if (!scope.cluster || scope.world <= devices) return;
    std::vector<std::string> fix;
    const std::int64_t dp = devices / denseSize(plan.layout);
    if (dp >= 1) fix.push_back(fmt::format("dp={}", dp));
    fix.push_back(fmt::format("nodes={}", nextMultiple(scope.world, plan.cluster.devices_per_node) /
                                              plan.cluster.devices_per_node));
    out.add("ranks_within_cluster",
            fmt::format("the layout takes {} ranks, the cluster has {} devices ({} nodes of {})",
                        scope.world, devices, plan.cluster.nodes, plan.cluster.devices_per_node),
            std::move(fix));
}

}  // namespace

void gridRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    denseGrid(plan, scope, out);
    expertGrid(plan, scope, out);
    rankOrder(plan, scope, out);
    ranksAndDevices(plan, scope, out);
    const Layout& l = plan.layout;
    if (plan.framework == Framework::Torchtitan && l.etp != 1 && l.etp != l.tp)
        out.add("etp_is_1_or_tp",
                fmt::format("torchtitan takes etp 1 or etp = tp {}, not {}", l.tp, l.etp),
                {"etp=1", fmt::format("etp={}", l.tp)});
    if (plan.framework == Framework::DeepSpeed && l.etp != 1 && l.etp != l.tp)
        out.add(
            "etp_is_1_or_tp",
            fmt::format("deepspeed takes etp 1 or etp = tp {} (enable_expert_tensor_parallelism)"
                        ", not {}",
                        l.tp, l.etp),
            {"etp=1", fmt::format("etp={}", l.tp)});
}

}  // namespace piper
