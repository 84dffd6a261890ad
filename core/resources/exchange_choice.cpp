// SPDX-License-Identifier: Apache-2.0
#include "core/resources/exchange_choice.h"

#include <algorithm>
#include <cmath>

#include "core/base/cast.h"
#include "core/resources/routing.h"
#include "core/resources/shard.h"

namespace piper {
namespace {

// In the order of preference between equals.
constexpr AllToAllAlgorithm kCandidates[] = {AllToAllAlgorithm::Flat, AllToAllAlgorithm::Node,
                                             AllToAllAlgorithm::Rail, AllToAllAlgorithm::NodePair,
                                             AllToAllAlgorithm::NodeDedup};

double octaves(double a, double b) {
    return std::abs(std::log2(std::max(a, 1e-9) / std::max(b, 1e-9)));
}

std::int64_t reachOf(const ExchangePoint& p) {
    return p.node_limit > 0 ? std::min(p.node_limit, p.nodes) : p.nodes;
}

/// How far a measured setting is; nothing when it says nothing of this one.
std::optional<double> distance(const ExchangePoint& p, const ExchangeSetting& s) {
    if ((p.nodes == 1) != (s.nodes == 1)) return std::nullopt;
    const double ranks = octaves(asDouble(p.ranks), asDouble(s.ranks));
    const double nodes = octaves(asDouble(p.nodes), asDouble(s.nodes));
    const double bytes = octaves(p.row.value * asDouble(p.tokens * p.topk),
                                 s.row_bytes * asDouble(s.tokens * s.topk));
    if (ranks > 1.0 || nodes > 1.0 || bytes > 2.0) return std::nullopt;
    return 2.0 * (ranks + nodes) + bytes + octaves(asDouble(p.topk), asDouble(s.topk)) +
           octaves(asDouble(reachOf(p)), asDouble(s.reach)) + octaves(p.imbalance, s.imbalance);
}

/// There, and back where `exchanges` is 2, for even loads.
ExchangeCost costOf(AllToAllAlgorithm algorithm, const ExchangeSetting& s, std::int64_t num_experts,
                    double exchanges) {
    const double ranks = asDouble(s.ranks), nodes = asDouble(s.nodes), local = ranks / nodes;
    const ExchangeRows rows =
        evenExchangeRows(algorithm, {s.ranks, s.nodes, num_experts, s.topk, s.reach});
    const double carried = std::ceil((nodes - 1.0) / local);
    double inside = local - 1.0, between = nodes - 1.0;
    if (algorithm == AllToAllAlgorithm::Flat) between = ranks - local;
    if (algorithm == AllToAllAlgorithm::NodePair) {
        inside = 2.0 * (local - 1.0) + std::min(local, nodes) - 1.0;
        between = carried;
    }
    const double bytes = exchanges * asDouble(s.tokens) * s.row_bytes;
    ExchangeCost out;
    out.exchanges = exchanges;
    out.hops = hopsOf(algorithm);
    out.node_bytes = local * bytes * rows.between_nodes;
    out.local_bytes = bytes * rows.inside_nodes;
    out.copied_bytes =
        copiedBytes(algorithm, bytes * rows.between_nodes, bytes * rows.inside_nodes, local);
    // A pair of nodes passes one rank.
    if (algorithm == AllToAllAlgorithm::NodePair && nodes > 1.0)
        out.copied_bytes *= local * carried / (nodes - 1.0);
    out.rank_messages = exchanges * (inside + between);
    out.inside_messages = exchanges * inside;
    return out;
}

ExchangeSetting settingOf(const Plan& plan, std::int64_t ranks, std::int64_t nodes) {
    const Shard shard = shardOf(plan);
    ExchangeSetting s;
    s.ranks = ranks;
    s.nodes = nodes;
    s.tokens = std::max<std::int64_t>(1, shard.routed_tokens);
    s.row_bytes = asDouble(shard.hidden) * shard.element;
    s.topk = plan.model.moe->router_topk;
    s.reach = nodeLimit(plan, nodes);
    s.imbalance = routingImbalance(plan, LayerId(0));
    s.tokens_move = plan.layout.etp == 1 && !plan.capacity_factor;
    return s;
}

std::string inWords(const MeasuredChoice& choice) {
    std::string others;
    for (const auto& [name, time] : {std::pair{"flat", choice.flat}, {"vendor", choice.vendor}})
        if (time) others += fmt::format(", {} {:.3g} ms", name, 1e3 * time->value);
    const ExchangePoint& p = choice.point;
    return fmt::format(
        "{}: the fastest measured near this, {:.3g} ms for dispatch and combine{} ({} ranks on {} "
        "nodes, {} tokens a rank, rows of {} B, top-{}, node limit {}, imbalance {:.2f})",
        toText(choice.algorithm), 1e3 * p.time.value, others, p.ranks, p.nodes, p.tokens,
        p.row.value, p.topk, p.node_limit, p.imbalance);
}

std::string inWords(const FormulaChoice& choice) {
    return fmt::format("{} by the cost formulas: {}; flat would take {:.3g} s",
                       toText(choice.algorithm), choice.cost.limit(), choice.flat.total().value);
}

bool asksTheTable(const Plan& plan) {
    return plan.all_to_all.algorithm == AllToAllAlgorithm::Auto && plan.model.moe;
}

}  // namespace

bool sameSetting(const ExchangePoint& a, const ExchangePoint& b) {
    return a.ranks == b.ranks && a.nodes == b.nodes && a.tokens == b.tokens &&
           a.row.value == b.row.value && a.topk == b.topk && a.node_limit == b.node_limit &&
           a.imbalance == b.imbalance;
}

ExchangeLinks exchangeLinks(const ClusterSpec& cluster, double ranks_per_node) {
    ExchangeLinks out;
    if (cluster.levels.empty()) return out;
    const auto network = std::find_if(
        cluster.levels.begin(), cluster.levels.end() - 1,
        [&](const LinkLevel& level) { return level.domain_devices > cluster.devices_per_node; });
    if (network->bandwidth.value > 0.0) out.node = network->bandwidth * ranks_per_node;
    if (network->latency.value > 0.0) out.message = out.latency = network->latency;
    if (cluster.levels.front().bandwidth.value > 0.0) out.local = cluster.levels.front().bandwidth;
    // A copy reads and writes.
    if (cluster.device.memory_bandwidth.value > 0.0)
        out.copy = cluster.device.memory_bandwidth * 0.5;
    return out;
}

void ExchangeCost::price(const ExchangeLinks& links) {
    link = Bytes(node_bytes) / links.node;
    messages = links.message * rank_messages;
    local = Bytes(local_bytes) / links.local;
    copies = Bytes(copied_bytes) / links.copy;
    if (rank_messages <= 0.0) {
        stages = Seconds(0.0);
        return;
    }
    const Seconds inside = links.message * inside_messages, between = messages - inside;
    stages = hops > 1 ? std::max(link, between) + std::max(local, inside)
                      : std::max({link, local, messages});
    stages = stages + links.latency * exchanges;
}

Seconds ExchangeCost::total() const {
    return stages + copies;
}

std::int64_t hopsOf(AllToAllAlgorithm algorithm) {
    switch (algorithm) {
        case AllToAllAlgorithm::Node:
        case AllToAllAlgorithm::Rail:
        case AllToAllAlgorithm::NodeDedup:
            return 2;
        case AllToAllAlgorithm::NodePair:
            return 3;
        default:
            return 1;
    }
}

double copiedBytes(AllToAllAlgorithm algorithm, double between, double inside, double local) {
    if (algorithm == AllToAllAlgorithm::Node || algorithm == AllToAllAlgorithm::Rail)
        return between * (1.0 + 1.0 / local) + 2.0 * inside;
    const std::int64_t hops = hopsOf(algorithm);
    return hops > 1 ? asDouble(hops + 1) * between : 0.0;
}

std::string ExchangeCost::limit(const std::string& node) const {
    const double all = total().value;
    if (node_bytes > 0.0 && link >= std::max(messages, local + copies))
        return fmt::format("the link of {} limits ({:.2f} MB, {:.3g} s of {:.3g} s)", node,
                           1e-6 * node_bytes, link.value, all);
    if (messages >= local + copies)
        return fmt::format("{:.0f} messages of one rank limit ({:.3g} s of {:.3g} s)",
                           rank_messages, messages.value, all);
    return fmt::format("copies inside the node limit ({:.3g} s of {:.3g} s)",
                       (local + copies).value, all);
}

std::optional<MeasuredChoice> measuredChoice(const MeasuredCurves& curves,
                                             const ExchangeSetting& setting) {
    const ExchangePoint* nearest = nullptr;
    double best = 0.0;
    for (const ExchangePoint& p : curves.exchange) {
        const std::optional<double> d = distance(p, setting);
        if (!d || (nearest != nullptr && *d >= best)) continue;
        nearest = &p;
        best = *d;
    }
    if (nearest == nullptr) return std::nullopt;
    std::optional<MeasuredChoice> out;
    std::optional<Seconds> flat, vendor;
    for (const ExchangePoint& p : curves.exchange) {
        const auto algorithm = parseEnum<AllToAllAlgorithm>(p.algorithm, "algorithm");
        // The library has algorithms that no plan names.
        if (!algorithm.ok() || !sameSetting(p, *nearest)) continue;
        if (*algorithm == AllToAllAlgorithm::NodeDedup && !setting.tokens_move) continue;
        if (*algorithm == AllToAllAlgorithm::Flat) flat = p.time;
        if (*algorithm == AllToAllAlgorithm::Vendor) vendor = p.time;
        if (!out || p.time < out->point.time) out = MeasuredChoice{*algorithm, p, {}, {}};
    }
    if (!out) return out;
    out->flat = flat;
    out->vendor = vendor;
    return out;
}

namespace {
FormulaChoice cheapest(const ExchangeSetting& setting, std::int64_t num_experts, double exchanges,
                       const ExchangeLinks& links) {
    FormulaChoice out;
    for (const AllToAllAlgorithm algorithm : kCandidates) {
        if (algorithm == AllToAllAlgorithm::NodeDedup && !setting.tokens_move) continue;
        ExchangeCost cost = costOf(algorithm, setting, num_experts, exchanges);
        cost.price(links);
        if (algorithm == AllToAllAlgorithm::Flat) out = {algorithm, cost, cost};
        if (cost.total() < out.cost.total()) {
            out.algorithm = algorithm;
            out.cost = cost;
        }
    }
    return out;
}

}  // namespace

FormulaChoice formulaChoice(const ExchangeSetting& setting, std::int64_t num_experts,
                            const ExchangeLinks& links) {
    return cheapest(setting, num_experts, 2.0, links);
}

FormulaChoice pairsChoice(std::int64_t ranks, std::int64_t nodes, std::int64_t bytes,
                          const ExchangeLinks& links) {
    // Each rank has a token for one expert on every rank, itself among them.
    ExchangeSetting setting{ranks, nodes, ranks, asDouble(bytes)};
    setting.reach = nodes;
    setting.tokens_move = false;
    return cheapest(setting, ranks, 1.0, links);
}

AlgorithmChoice chooseFor(const ClusterSpec& cluster, const ExchangeSetting& setting,
                          std::int64_t num_experts) {
    if (const auto measured = measuredChoice(cluster.curves, setting))
        return {measured->algorithm, inWords(*measured), false};
    if (setting.nodes <= 1)
        return chooseAlgorithm(AllToAllAlgorithm::Auto, setting.ranks, setting.nodes);
    const double local = asDouble(setting.ranks) / asDouble(setting.nodes);
    const FormulaChoice choice = formulaChoice(setting, num_experts, exchangeLinks(cluster, local));
    return {choice.algorithm, inWords(choice), false};
}

AlgorithmChoice chooseExchange(const Plan& plan, std::int64_t ranks, std::int64_t nodes) {
    if (!asksTheTable(plan)) return chooseAlgorithm(plan.all_to_all.algorithm, ranks, nodes);
    return chooseFor(plan.cluster, settingOf(plan, ranks, nodes), plan.model.moe->num_experts);
}

AllToAllAlgorithm pickExchange(const Plan& plan, std::int64_t ranks, std::int64_t nodes) {
    if (!asksTheTable(plan))
        return chooseAlgorithm(plan.all_to_all.algorithm, ranks, nodes).algorithm;
    const bool measured = !plan.cluster.curves.exchange.empty();
    if (nodes <= 1 && !measured) return AllToAllAlgorithm::Flat;
    const ExchangeSetting setting = settingOf(plan, ranks, nodes);
    if (measured)
        if (const auto choice = measuredChoice(plan.cluster.curves, setting))
            return choice->algorithm;
    if (nodes <= 1) return AllToAllAlgorithm::Flat;
    const double local = asDouble(ranks) / asDouble(nodes);
    return formulaChoice(setting, plan.model.moe->num_experts, exchangeLinks(plan.cluster, local))
        .algorithm;
}

}  // namespace piper
