// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/topology.h"

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

ExchangeTopology::Way ExchangeTopology::way(AllToAllAlgorithm algorithm, std::int64_t s,
                                            std::int64_t d) const {
    // Rows that stay on the node share a message with what is handed over there anyway.
    if (sameNode(s, d) && algorithm == AllToAllAlgorithm::Node) return {s, s, s, d};
    if (sameNode(s, d) && algorithm == AllToAllAlgorithm::Rail) return {s, d, d, d};
    if (sameNode(s, d)) return {s, s, d, d};
    switch (algorithm) {
        case AllToAllAlgorithm::Node: {
            const std::int64_t there = relay(s, node(d));
            return {s, s, there, d};
        }
        case AllToAllAlgorithm::Rail: {
            const std::int64_t here = relay(d, node(s));
            return {s, here, d, d};
        }
        case AllToAllAlgorithm::NodePair: {
            // Neighbouring pairs of nodes fall to different ranks.
            const auto sum = index(node(s) + node(d));
            const std::vector<std::int64_t>& here = members(node(s));
            const std::vector<std::int64_t>& there = members(node(d));
            return {s, here[sum % here.size()], there[sum % there.size()], d};
        }
        default:
            return {s, s, d, d};
    }
}

std::vector<std::pair<std::int64_t, std::int64_t>> ExchangeTopology::relayedPairs(
    AllToAllAlgorithm algorithm, std::int64_t rank) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    const auto addIfRelayed = [&](std::int64_t s, std::int64_t d) {
        const Way w = way(algorithm, s, d);
        if (s != rank && d != rank && (w[1] == rank || w[2] == rank)) pairs.emplace_back(s, d);
    };
    // A rank relays only what leaves its node or comes to it.
    for (std::int64_t s = 0; s < size(); ++s) {
        if (!sameNode(s, rank)) {
            for (const std::int64_t d : members(node(rank))) addIfRelayed(s, d);
            continue;
        }
        for (std::int64_t d = 0; d < size(); ++d)
            if (!sameNode(d, rank)) addIfRelayed(s, d);
    }
    return pairs;
}

}  // namespace piper
