// SPDX-License-Identifier: Apache-2.0
#include "core/resources/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/resources/shard.h"

namespace piper {

namespace {

void normalise(std::vector<double>& shares) {
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& s : shares) s = sum > 0.0 ? s / sum : 1.0 / static_cast<double>(shares.size());
}

/// No expert above `limit`; the surplus goes to the others in proportion, evenly where they have
/// nothing.
void capShares(std::vector<double>& shares, double limit) {
    std::vector<bool> full(shares.size(), false);
    for (std::size_t round = 0; round < shares.size(); ++round) {
        double surplus = 0.0, open = 0.0;
        for (std::size_t e = 0; e < shares.size(); ++e) {
            if (!full[e] && shares[e] >= limit) {
                surplus += shares[e] - limit;
                shares[e] = limit;
                full[e] = true;
            }
            if (!full[e]) open += shares[e];
        }
        const auto left = static_cast<double>(std::ranges::count(full, false));
        if (surplus <= 0.0 || left == 0.0) return;
        for (std::size_t e = 0; e < shares.size(); ++e)
            if (!full[e]) shares[e] += surplus * (open > 0.0 ? shares[e] / open : 1.0 / left);
    }
}

}  // namespace

std::vector<double> expertShares(const Plan& plan, LayerId layer) {
    const MoeSpec& moe = *plan.model.moe;
    const auto experts = static_cast<std::size_t>(moe.num_experts);
    std::vector<double> shares(experts, 1.0);
    const RoutingLoad& load = plan.routing_load;
    if (load.kind == RoutingLoadKind::Zipf) {
        for (std::size_t e = 0; e < experts; ++e)
            shares[e] = std::pow(static_cast<double>(e + 1), -load.zipf_exponent);
        normalise(shares);
        capShares(shares, 1.0 / static_cast<double>(moe.router_topk));
        return shares;
    }
    if (load.kind == RoutingLoadKind::Histogram && !load.histogram.empty()) {
        const std::size_t row =
            std::min(layer.valid() ? layer.index() : 0, load.histogram.size() - 1);
        shares = load.histogram[row];
        shares.resize(experts, 0.0);
    }
    normalise(shares);
    return shares;
}

std::vector<double> drawableShares(const Plan& plan, LayerId layer) {
    std::vector<double> shares = expertShares(plan, layer);
    capShares(shares, 1.0 / static_cast<double>(plan.model.moe->router_topk));
    return shares;
}

std::vector<double> routedShares(const Plan& plan, LayerId layer) {
    const auto ep = static_cast<std::size_t>(plan.layout.ep);
    if (!plan.model.moe || plan.capacity_factor)  // padded to capacity: every rank gets the same
        return std::vector<double>(ep, 1.0 / static_cast<double>(ep));
    const std::vector<double> experts = expertShares(plan, layer);
    std::vector<double> ranks(ep, 0.0);
    for (std::size_t e = 0; e < experts.size(); ++e) {
        const std::size_t owner = plan.expert_placement.empty()
                                      ? e * ep / experts.size()
                                      : static_cast<std::size_t>(plan.expert_placement[e]);
        PIPER_CHECK(owner < ep);
        ranks[owner] += experts[e];
    }
    return ranks;
}

double routingImbalance(const Plan& plan, LayerId layer) {
    if (plan.routing_load.kind == RoutingLoadKind::Uniform && plan.expert_placement.empty())
        return 1.0;
    const std::vector<double> shares = routedShares(plan, layer);
    return *std::max_element(shares.begin(), shares.end()) * static_cast<double>(plan.layout.ep);
}

double expectedNodes(std::int64_t num_experts, std::int64_t router_topk, std::int64_t nodes,
                     std::int64_t limit) {
    if (nodes <= 1) return 1.0;
    const double reach = static_cast<double>(limit > 0 ? std::min(limit, nodes) : nodes);
    const double per_node = static_cast<double>(num_experts) / static_cast<double>(nodes);
    const double experts = per_node * reach;
    double none = 1.0;  // chance that all picks miss one node
    for (std::int64_t i = 0; i < router_topk; ++i) {
        const double left = experts - static_cast<double>(i);
        none *= left > 0.0 ? std::max(0.0, left - per_node) / left : 0.0;
    }
    return reach * (1.0 - none);
}

std::int64_t nodeLimit(const Plan& plan, std::int64_t nodes) {
    std::int64_t limit = nodes;
    if (plan.all_to_all.node_limit > 0) limit = std::min(limit, plan.all_to_all.node_limit);
    if (!plan.model.moe) return limit;
    const MoeSpec& moe = *plan.model.moe;
    if (moe.num_groups > 1 && nodes > 1 && moe.num_groups % nodes == 0)
        limit = std::min(limit, std::max<std::int64_t>(1, moe.topk_groups));
    return limit;
}

bool loadVaries(const Plan& plan) {
    const RoutingLoad& load = plan.routing_load;
    return load.kind == RoutingLoadKind::Histogram && load.histogram.size() > 1;
}

std::vector<LayerId> moeLayersOf(const Plan& plan, StageId stage) {
    std::vector<LayerId> out;
    for (std::int64_t v = 0; v < pipelineShape(plan).chunks(); ++v) {
        const LayerRange range =
            stageLayers(plan, stage, ModelChunkId(static_cast<std::int32_t>(v)));
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            const LayerId layer(static_cast<std::int32_t>(i));
            if (plan.model.isMoe(layer)) out.push_back(layer);
        }
    }
    return out;
}

namespace {

const RowPeak* peakOf(const Plan& plan, StageId stage) {
    const std::vector<RowPeak>& peaks = plan.routing_load.peaks;
    return std::ssize(peaks) == plan.layout.pp ? &peaks[stage.index()] : nullptr;
}

}  // namespace

double exchangeImbalance(const Plan& plan, StageId stage) {
    const RowPeak* peak = peakOf(plan, stage);
    return peak != nullptr ? peak->exchange : memoryImbalance(plan, stage);
}

double memoryImbalance(const Plan& plan, StageId stage) {
    if (const RowPeak* peak = peakOf(plan, stage)) return peak->held;
    if (!loadVaries(plan)) return routingImbalance(plan, LayerId(0));
    const std::vector<LayerId> layers = moeLayersOf(plan, stage);
    if (layers.empty()) return 1.0;
    std::vector<double> held(static_cast<std::size_t>(plan.layout.ep), 0.0);
    for (const LayerId layer : layers) {
        const std::vector<double> shares = routedShares(plan, layer);
        for (std::size_t r = 0; r < held.size(); ++r) held[r] += shares[r];
    }
    return *std::max_element(held.begin(), held.end()) * static_cast<double>(plan.layout.ep) /
           static_cast<double>(layers.size());
}

double stageImbalance(const Plan& plan, StageId stage) {
    if (!loadVaries(plan)) return routingImbalance(plan, LayerId(0));
    const std::vector<LayerId> layers = moeLayersOf(plan, stage);
    if (layers.empty()) return 1.0;
    double sum = 0.0;
    for (const LayerId layer : layers) sum += routingImbalance(plan, layer);
    return sum / static_cast<double>(layers.size());
}

bool movesTokens(AllToAllLibrary library) {
    return library == AllToAllLibrary::DeepEp || library == AllToAllLibrary::HybridEp;
}

}  // namespace piper
