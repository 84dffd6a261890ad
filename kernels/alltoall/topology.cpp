// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/topology.h"

#include <algorithm>
#include <map>

namespace piper {

ExchangeTopology::ExchangeTopology(std::vector<std::int64_t> node_of_rank)
    : m_node(std::move(node_of_rank)) {
    std::map<std::int64_t, std::int64_t> dense;
    for (std::size_t rank = 0; rank < m_node.size(); ++rank) {
        const auto next = static_cast<std::int64_t>(dense.size());
        m_node[rank] = dense.emplace(m_node[rank], next).first->second;
        m_members.resize(dense.size());
        std::vector<std::int64_t>& members = m_members[index(m_node[rank])];
        m_place.push_back(static_cast<std::int64_t>(members.size()));
        members.push_back(static_cast<std::int64_t>(rank));
    }
}

std::int64_t ExchangeTopology::relay(std::int64_t source, std::int64_t node) const {
    const std::vector<std::int64_t>& there = members(node);
    return there[index(m_place[index(source)]) % there.size()];
}

std::vector<std::int64_t> ExchangeTopology::relayedSources(std::int64_t rank) const {
    std::vector<std::int64_t> sources;
    for (std::int64_t source = 0; source < size(); ++source)
        if (!sameNode(source, rank) && relay(source, node(rank)) == rank) sources.push_back(source);
    return sources;
}

AlgorithmChoice chooseAlgorithm(AllToAllAlgorithm wanted, const ExchangeTopology& topology) {
    if (wanted == AllToAllAlgorithm::Flat)
        return {AllToAllAlgorithm::Flat, "the plan names the flat exchange", false};
    if (wanted == AllToAllAlgorithm::Rail)
        return {AllToAllAlgorithm::Flat,
                "the rail exchange is NCCL's (PXN), not the worker's: flat", true};
    const bool named = wanted == AllToAllAlgorithm::Node;
    if (topology.numNodes() <= 1)
        return {AllToAllAlgorithm::Flat,
                fmt::format("the {} ranks of the group share one node, so there is nothing to "
                            "aggregate: flat",
                            topology.size()),
                named};
    if (topology.numNodes() == topology.size())
        return {AllToAllAlgorithm::Flat,
                fmt::format("each of the {} nodes holds one rank of the group, so there is nothing "
                            "to aggregate: flat",
                            topology.numNodes()),
                named};
    return {AllToAllAlgorithm::Node,
            fmt::format("the {} ranks of the group lie on {} nodes: node-staged", topology.size(),
                        topology.numNodes()),
            false};
}

namespace {

/// Rows on one hop, from sender to receiver.
using Hops = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

/// The staged ways of rows that cross nodes: first hop to the relay, second hop from it.
struct StagedHops {
    Hops direct, across, local;
};

StagedHops stagedHops(AllToAllAlgorithm algorithm, const ExchangeTopology& topology,
                      const std::vector<std::int64_t>& rows) {
    StagedHops hops;
    for (std::int64_t s = 0; s < topology.size(); ++s)
        for (std::int64_t d = 0; d < topology.size(); ++d) {
            const std::int64_t n = rows[static_cast<std::size_t>(s * topology.size() + d)];
            if (s == d || n == 0) continue;
            if (algorithm == AllToAllAlgorithm::Flat || topology.sameNode(s, d)) {
                hops.direct[{s, d}] += n;
                continue;
            }
            const std::int64_t relay = topology.relay(s, topology.node(d));
            hops.across[{s, relay}] += n;
            if (relay != d) hops.local[{relay, d}] += n;
        }
    return hops;
}

void addHops(const Hops& hops, const ExchangeTopology& topology, bool mirrored,
             std::int64_t row_bytes, std::int64_t rank, ExchangeTraffic& sum) {
    for (const auto& [way, n] : hops) {
        const std::int64_t from = mirrored ? way.second : way.first;
        const std::int64_t to = mirrored ? way.first : way.second;
        if (from != rank) continue;
        ++sum.messages;
        sum.bytes += n * row_bytes;
        if (topology.sameNode(from, to)) continue;
        ++sum.inter_node_messages;
        sum.inter_node_bytes += n * row_bytes;
    }
}

ExchangeTraffic traffic(AllToAllAlgorithm algorithm, const ExchangeTopology& topology,
                        const std::vector<std::int64_t>& rows, std::int64_t row_bytes,
                        std::int64_t rank, bool mirrored) {
    const StagedHops hops = stagedHops(algorithm, topology, rows);
    ExchangeTraffic sum;
    for (const Hops* stage : {&hops.direct, &hops.across, &hops.local})
        addHops(*stage, topology, mirrored, row_bytes, rank, sum);
    return sum;
}

}  // namespace

ExchangeTraffic exchangeTraffic(AllToAllAlgorithm algorithm, const ExchangeTopology& topology,
                                const std::vector<std::int64_t>& rows, std::int64_t row_bytes,
                                std::int64_t rank) {
    return traffic(algorithm, topology, rows, row_bytes, rank, false);
}

ExchangeTraffic mirroredTraffic(AllToAllAlgorithm algorithm, const ExchangeTopology& topology,
                                const std::vector<std::int64_t>& rows, std::int64_t row_bytes,
                                std::int64_t rank) {
    return traffic(algorithm, topology, rows, row_bytes, rank, true);
}

}  // namespace piper
