// SPDX-License-Identifier: Apache-2.0
// Token dispatchers: which groups each can join. Sources: Megatron-LM transformer_config
// (moe_token_dispatcher_type, moe_flex_dispatcher_backend), DeepEP csrc/deep_ep.cpp and
// deep_ep/buffer.py (normal mode), DeepEP csrc/hybrid_ep (BufferConfig).
#include <algorithm>
#include <array>
#include <numeric>

#include "core/plan/rules.h"

namespace piper {
namespace {

constexpr std::array kDispatchers = {
    DispatcherRow{"allgather", 0, false, false, "Megatron-LM moe_token_dispatcher_type"},
    DispatcherRow{"alltoall", 0, true, true, "Megatron-LM moe_token_dispatcher_type"},
    DispatcherRow{"alltoall_seq", 0, true, false, "Megatron-LM moe_token_dispatcher_type"},
    DispatcherRow{"flex", 0, false, true, "Megatron-LM moe_token_dispatcher_type"},
    DispatcherRow{"deepep", 160, false, true,
                  "https://github.com/deepseek-ai/DeepEP/issues/464: normal mode, 20 nodes of 8"},
    DispatcherRow{"hybridep", 0, false, true, "Megatron-LM moe_flex_dispatcher_backend"}};

constexpr std::int64_t kDeepEpNodeRanks = 8;  ///< NUM_MAX_NVL_PEERS
/// Group sizes DeepEP's normal mode has a configuration for (Buffer.get_dispatch_config).
constexpr std::array<std::int64_t, 12> kDeepEpRanks = {2,  4,  8,  16,  24,  32,
                                                       48, 64, 96, 128, 144, 160};

bool runsEp(const Plan& plan, const RuleScope& scope, std::int64_t ep) {
    const Layout& l = plan.layout;
    return scope.world % (ep * l.etp * l.pp) == 0 &&
           (!scope.moe || !plan.model.moe || plan.model.moe->num_experts % ep == 0);
}

/// Devices joined by NVLink: a node's, or more where the cluster's innermost level joins nodes.
std::int64_t domainDevices(const Plan& plan, const RuleScope& scope) {
    const std::int64_t node = plan.cluster.devices_per_node;
    if (!scope.cluster || plan.cluster.levels.empty()) return node;
    return std::max(node, plan.cluster.levels.front().domain_devices);
}

std::vector<std::string> otherEp(const Plan& plan, const RuleScope& scope, std::int64_t most,
                                 const std::function<bool(std::int64_t)>& group_fits) {
    const Layout& l = plan.layout;
    std::vector<std::string> fix = settings(
        "ep",
        legalNear(
            l.ep, std::max<std::int64_t>(1, most / l.etp),
            [&](std::int64_t v) { return group_fits(v * l.etp) && runsEp(plan, scope, v); }, 1));
    fix.emplace_back("dispatcher=alltoall");
    return fix;
}

bool deepEpHas(std::int64_t ranks) {
    return std::find(kDeepEpRanks.begin(), kDeepEpRanks.end(), ranks) != kDeepEpRanks.end();
}

void deepEpRules(const Plan& plan, const RuleScope& scope, const DispatcherRow& row,
                 Violations& out) {
    const Layout& l = plan.layout;
    const std::int64_t group = l.ep * l.etp;
    if (group > row.most_ranks) {
        out.add("dispatcher_ranks",
                fmt::format("{} joins at most {} ranks in an expert group, ep {} x etp {} = {} "
                            "({})",
                            row.name, row.most_ranks, l.ep, l.etp, group, row.source),
                otherEp(plan, scope, row.most_ranks, deepEpHas));
        return;
    }
    if (group > 1 && !deepEpHas(group))
        out.add("dispatcher_ranks",
                fmt::format("{} has no kernel configuration for a group of ep {} x etp {} = {} "
                            "ranks; it has {}",
                            row.name, l.ep, l.etp, group,
                            listed({kDeepEpRanks.begin(), kDeepEpRanks.end()})),
                otherEp(plan, scope, row.most_ranks, deepEpHas));
    const std::int64_t per_node = domainDevices(plan, scope);
    if (group > per_node && per_node != kDeepEpNodeRanks)
        out.add("dispatcher_nodes",
                fmt::format("{} counts on {} ranks a node joined by NVLink as soon as its group "
                            "leaves a node: {} ranks over nodes of {} devices",
                            row.name, kDeepEpNodeRanks, group, per_node),
                otherEp(plan, scope, per_node, deepEpHas));
}

/// num_experts = experts_per_rank x ranks_per_node x nodes, where a node is an NVLink domain.
void hybridEpRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const Layout& l = plan.layout;
    const FrameworkOptions& o = scope.options;
    const std::int64_t group = l.ep * l.etp;
    const std::int64_t domain =
        o.ranks_per_domain.value_or(std::min(group, domainDevices(plan, scope)));
    const std::int64_t domains = std::max<std::int64_t>(1, group / domain);
    if (group % domain != 0) {
        out.add(
            "dispatcher_nodes",
            fmt::format("hybridep needs num_experts = experts_per_rank x ranks_per_node x "
                        "nodes over whole NVLink domains: ep {} x etp {} = {} ranks over "
                        "domains of {} leaves {}",
                        l.ep, l.etp, group, domain, group % domain),
            {fmt::format("ranks_per_domain={}", std::gcd(group, domain)), "dispatcher=alltoall"});
        return;
    }
    if (!scope.moe || !plan.model.moe) return;
    const std::int64_t experts = plan.model.moe->num_experts;
    const std::int64_t each =
        o.experts_per_rank.value_or(experts / std::max<std::int64_t>(1, l.ep));
    if (each * domain * domains != experts)
        out.add("dispatcher_experts",
                fmt::format("hybridep needs num_experts = experts_per_rank x ranks_per_node x "
                            "nodes: {} is not {} x {} x {} = {}",
                            experts, each, domain, domains, each * domain * domains),
                {fmt::format("num_experts={}", each * domain * domains),
                 fmt::format("experts_per_rank={}", experts / std::max<std::int64_t>(1, group))});
    else if (domain % 2 != 0 || each * domain % 4 != 0)
        out.add("dispatcher_experts",
                fmt::format("hybridep needs an even number of ranks a node and experts a node in "
                            "multiples of 4, not {} and {} x {} = {}",
                            domain, each, domain, each * domain),
                {"dispatcher=alltoall"});
    const std::int64_t align = elementBytes(plan.precision).value < 2.0 ? 512 : 16;
    if (scope.hidden && plan.model.hidden_size % align != 0)
        out.add("dispatcher_hidden_size",
                fmt::format("hybridep copies rows of hidden_size {} in multiples of {} ({})",
                            plan.model.hidden_size, align, toText(plan.precision)),
                {"dispatcher=alltoall"});
}

}  // namespace

const DispatcherRow* findDispatcher(std::string_view name) {
    const auto found = std::find_if(kDispatchers.begin(), kDispatchers.end(),
                                    [&](const DispatcherRow& row) { return row.name == name; });
    return found == kDispatchers.end() ? nullptr : &*found;
}

std::vector<std::string_view> dispatcherNames() {
    std::vector<std::string_view> names;
    for (const DispatcherRow& row : kDispatchers) names.push_back(row.name);
    return names;
}

void dispatcherRules(const Plan& plan, const RuleScope& scope, Violations& out) {
    const DispatcherRow* dispatcher = findDispatcher(scope.options.dispatcher);
    if (dispatcher == nullptr) return;
    const Layout& l = plan.layout;
    const bool flexible = dispatcher->name == "flex" || dispatcher->name == "deepep" ||
                          dispatcher->name == "hybridep";
    // Megatron-LM's flex dispatcher refuses to start without a group to exchange in.
    if (flexible && l.tp * l.ep == 1 && l.etp == 1)
        out.add("dispatcher_needs_group",
                fmt::format("{} needs tp x ep above 1: there is no other rank to send to",
                            dispatcher->name),
                {"dispatcher=alltoall", "ep=2"});
    if (dispatcher->name == "deepep") deepEpRules(plan, scope, *dispatcher, out);
    if (dispatcher->name == "hybridep") hybridEpRules(plan, scope, out);
}

}  // namespace piper
