// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <utility>
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
    /// Among the ranks of its node.
    [[nodiscard]] std::int64_t place(std::int64_t rank) const { return m_place[index(rank)]; }
    [[nodiscard]] const std::vector<std::int64_t>& members(std::int64_t node) const {
        return m_members[index(node)];
    }
    [[nodiscard]] bool sameNode(std::int64_t a, std::int64_t b) const { return node(a) == node(b); }
    /// The rank on `node` that takes what `source` sends there: the one whose place on its node
    /// equals the source's, modulo the ranks there.
    [[nodiscard]] std::int64_t relay(std::int64_t source, std::int64_t node) const;
    /// The stations of rows from rank s to rank d: s, the one that sends them between nodes, the
    /// one that receives them there, d. Stations that follow each other may be the same rank.
    using Way = std::array<std::int64_t, 4>;
    [[nodiscard]] Way way(AllToAllAlgorithm algorithm, std::int64_t s, std::int64_t d) const;
    /// Pairs {s, d} whose rows go through `rank` on their way, by s, then d.
    [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> relayedPairs(
        AllToAllAlgorithm algorithm, std::int64_t rank) const;

private:
    static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

    std::vector<std::int64_t> m_node;                  ///< [size], dense from 0
    std::vector<std::int64_t> m_place;                 ///< [size], on its node
    std::vector<std::vector<std::int64_t>> m_members;  ///< [nodes]
};

}  // namespace piper
