// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace piper {

/// Members of a group by node, and who relays between two nodes.
class ExchangeTopology {
public:
    explicit ExchangeTopology(std::vector<std::int64_t> node_of_rank);

    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(m_node.size()); }
    [[nodiscard]] std::int64_t numNodes() const {
        return static_cast<std::int64_t>(m_members.size());
    }
    [[nodiscard]] std::int64_t node(std::int64_t rank) const { return m_node[index(rank)]; }
    [[nodiscard]] const std::vector<std::int64_t>& members(std::int64_t node) const {
        return m_members[index(node)];
    }
    [[nodiscard]] bool sameNode(std::int64_t a, std::int64_t b) const { return node(a) == node(b); }
    /// The rank on `node` that takes what `source`, of another node, sends there: the one whose
    /// place on its node equals the source's, modulo the ranks there.
    [[nodiscard]] std::int64_t relay(std::int64_t source, std::int64_t node) const;
    /// Ranks of other nodes whose rows `rank` relays, ascending.
    [[nodiscard]] std::vector<std::int64_t> relayedSources(std::int64_t rank) const;

private:
    static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

    std::vector<std::int64_t> m_node;                  ///< [size], dense from 0
    std::vector<std::int64_t> m_place;                 ///< [size], on its node
    std::vector<std::vector<std::int64_t>> m_members;  ///< [nodes]
};

/// What Auto becomes, and why, in one sentence.
struct AlgorithmChoice {
    AllToAllAlgorithm algorithm = AllToAllAlgorithm::Flat;
    std::string reason;
    bool fell_back = false;  ///< the plan named another one
};

/// Auto: flat on one node, node-staged across nodes. Node-staged becomes flat where there is
/// nothing to stage: one node, or one rank on every node.
[[nodiscard]] AlgorithmChoice chooseAlgorithm(AllToAllAlgorithm wanted,
                                              const ExchangeTopology& topology);

/// What one rank sends in one exchange.
struct ExchangeTraffic {
    std::int64_t messages = 0;  ///< to ranks other than itself
    std::int64_t bytes = 0;
    std::int64_t inter_node_messages = 0;  ///< of these, to ranks of other nodes
    std::int64_t inter_node_bytes = 0;
    bool operator==(const ExchangeTraffic&) const = default;
};

/// Closed form of what `rank` sends when rank s has rows[s * size + d] rows for rank d.
/// Flat: one message for each destination with rows. Node: one for each destination with rows on
/// its own node, one for each other node it has rows for, and as a relay one for each rank of its
/// node that relayed rows end at. Empty messages are not sent.
/// Unit: messages, and bytes of payload; a relayed row counts on both of its ways.
[[nodiscard]] ExchangeTraffic exchangeTraffic(AllToAllAlgorithm algorithm,
                                              const ExchangeTopology& topology,
                                              const std::vector<std::int64_t>& rows,
                                              std::int64_t row_bytes, std::int64_t rank);
/// The same for the mirrored exchange, in which every row goes back the way it came.
[[nodiscard]] ExchangeTraffic mirroredTraffic(AllToAllAlgorithm algorithm,
                                              const ExchangeTopology& topology,
                                              const std::vector<std::int64_t>& rows,
                                              std::int64_t row_bytes, std::int64_t rank);

}  // namespace piper
