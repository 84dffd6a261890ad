// SPDX-License-Identifier: Apache-2.0
#include "core/resources/exchange.h"

#include <algorithm>
#include <numeric>

#include "core/base/cast.h"
#include "core/plan/own_worker.h"
#include "core/plan/placement.h"
#include "core/resources/exchange_choice.h"
#include "core/resources/reach.h"
#include "core/resources/routing.h"

namespace piper {
namespace {

DomainSplit epNodes(const Plan& plan) {
    return splitOver(groupAxes(plan.layout, plan.rank_order, "ep"), plan.cluster.devices_per_node);
}

/// Distinct nodes and ranks of a token's experts.
struct Distinct {
    double nodes = 1.0, ranks = 1.0;
};

Distinct evenDistinct(const ExchangeGroup& g) {
    return {expectedNodes(g.num_experts, g.topk, g.nodes, g.reach),
            expectedNodes(g.num_experts, g.topk, g.ranks, g.reach * g.ranks / g.nodes)};
}

Distinct distinctOf(const Plan& plan, const ExchangeGroup& group, LayerId layer) {
    if (plan.routing_load.kind == RoutingLoadKind::Uniform && plan.expert_placement.empty())
        return evenDistinct(group);
    ReachProblem problem;
    problem.load = expertShares(plan, layer);
    problem.topk = group.topk;
    problem.rank_of_expert = expertOwners(plan);
    problem.node_limit = group.reach;
    for (std::int64_t rank = 0; rank < group.ranks; ++rank)
        problem.node_of_rank.push_back(rank * group.nodes / group.ranks);
    const Reach reach = tokenReach(problem);
    return {std::accumulate(reach.node.begin(), reach.node.end(), 0.0),
            std::accumulate(reach.rank.begin(), reach.rank.end(), 0.0)};
}

/// Of a token once to each node, then to each rank there.
ExchangeRows tokenRows(const ExchangeGroup& group, const Distinct& distinct) {
    const double n = asDouble(group.nodes), local = asDouble(group.ranks) / n;
    return {distinct.nodes * (n - 1.0) / n, distinct.ranks * (local - 1.0) / local};
}

/// Of each slot a row.
ExchangeRows slotRows(AllToAllAlgorithm algorithm, const ExchangeGroup& group) {
    const double ranks = asDouble(group.ranks), n = asDouble(group.nodes), local = ranks / n;
    const double topk = asDouble(group.topk);
    return {topk * (ranks - local) / ranks,
            topk * (local - 1.0) / ranks * (1.0 + asDouble(hopsOf(algorithm) - 1) * (n - 1.0))};
}

}  // namespace

AlgorithmChoice chooseAlgorithm(AllToAllAlgorithm wanted, std::int64_t ranks, std::int64_t nodes) {
    if (wanted == AllToAllAlgorithm::Flat)
        return {AllToAllAlgorithm::Flat, "the plan names the flat exchange", false};
    if (wanted == AllToAllAlgorithm::Vendor)
        return {wanted, "the plan names the vendor's MPI_Alltoallv", false};
    const bool named = wanted != AllToAllAlgorithm::Auto;
    if (nodes <= 1)
        return {AllToAllAlgorithm::Flat,
                fmt::format("the {} ranks of the group share one node, so there is nothing to "
                            "aggregate: flat",
                            ranks),
                named};
    if (wanted == AllToAllAlgorithm::NodeDedup)
        return {wanted,
                fmt::format("the plan names node_dedup: a token crosses once to each of the {} "
                            "nodes",
                            nodes),
                false};
    if (nodes == ranks)
        return {AllToAllAlgorithm::Flat,
                fmt::format("each of the {} nodes holds one rank of the group, so there is nothing "
                            "to aggregate: flat",
                            nodes),
                named};
    if (named && wanted != AllToAllAlgorithm::Node)
        return {wanted, fmt::format("the plan names {}", toText(wanted)), false};
    return {AllToAllAlgorithm::Node,
            fmt::format("the {} ranks of the group lie on {} nodes: node-staged", ranks, nodes),
            false};
}

AllToAllAlgorithm exchangeAlgorithm(const Plan& plan) {
    const bool ours =
        plan.framework == Framework::Plain && plan.cluster.device.kind == DeviceKind::Cpu;
    if (plan.all_to_all.algorithm == AllToAllAlgorithm::Auto && !ours)
        return AllToAllAlgorithm::Flat;
    return pickExchange(plan, plan.layout.ep, epNodes(plan).domains);
}

ExchangeRows evenExchangeRows(AllToAllAlgorithm algorithm, const ExchangeGroup& group) {
    if (group.ranks <= 1) return {};
    return algorithm == AllToAllAlgorithm::NodeDedup ? tokenRows(group, evenDistinct(group))
                                                     : slotRows(algorithm, group);
}

ExchangeRows exchangeRows(const Plan& plan, AllToAllAlgorithm algorithm, LayerId layer) {
    if (!plan.model.moe || plan.layout.ep <= 1) return {};
    const MoeSpec& moe = *plan.model.moe;
    const std::int64_t nodes = epNodes(plan).domains;
    const ExchangeGroup group{plan.layout.ep, nodes, moe.num_experts, moe.router_topk,
                              nodeLimit(plan, nodes)};
    if (algorithm != AllToAllAlgorithm::NodeDedup) return slotRows(algorithm, group);
    return tokenRows(group, distinctOf(plan, group, layer));
}

ExchangeRows stageExchangeRows(const Plan& plan, AllToAllAlgorithm algorithm, StageId stage) {
    // Loads decide where tokens are deduplicated alone.
    if (algorithm != AllToAllAlgorithm::NodeDedup || !loadVaries(plan))
        return exchangeRows(plan, algorithm, LayerId(0));
    ExchangeRows sum;
    const std::vector<LayerId> layers = moeLayersOf(plan, stage);
    if (layers.empty()) return exchangeRows(plan, algorithm, LayerId(0));
    for (const LayerId layer : layers) {
        const ExchangeRows rows = exchangeRows(plan, algorithm, layer);
        sum.between_nodes += rows.between_nodes / asDouble(std::ssize(layers));
        sum.inside_nodes += rows.inside_nodes / asDouble(std::ssize(layers));
    }
    return sum;
}

}  // namespace piper
