// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/selector.h"

#include <algorithm>
#include <map>

#include "core/base/cast.h"

namespace piper {
namespace {

constexpr TokenAlgorithm kCandidates[] = {TokenAlgorithm::Flat,      TokenAlgorithm::Node,
                                          TokenAlgorithm::Rail,      TokenAlgorithm::NodePair,
                                          TokenAlgorithm::RankDedup, TokenAlgorithm::NodeDedup};

/// What each rank sends there and back.
struct Ways {
    std::vector<ExchangeTraffic> there, back;
};

class Estimator {
public:
    Estimator(const std::vector<std::int64_t>& nodes, const SlotOwners& owners, std::int64_t topk,
              std::int64_t row_bytes, const ExchangeLinks& links)
        : m_nodes(nodes),
          m_owners(owners),
          m_topk(topk),
          m_row_bytes(row_bytes),
          m_links(links),
          m_topology(nodes),
          m_rows(slotRows(owners)) {}

    [[nodiscard]] AlgorithmEstimate estimate(TokenAlgorithm algorithm) const {
        AlgorithmEstimate out;
        out.algorithm = algorithm;
        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> by_node;  // there, back
        const auto raise = [](double& most, std::int64_t n) {
            most = std::max(most, static_cast<double>(n));
        };
        const Ways ways = waysOf(algorithm);
        const AllToAllAlgorithm way = algorithm == TokenAlgorithm::NodeDedup
                                          ? AllToAllAlgorithm::NodeDedup
                                          : wayOf(algorithm);
        for (std::size_t rank = 0; rank < m_nodes.size(); ++rank) {
            const ExchangeTraffic &there = ways.there[rank], &back = ways.back[rank];
            auto& [sent, received] = by_node[m_nodes[rank]];
            sent += there.inter_node_bytes;
            received += back.inter_node_bytes;
            if (asDouble(there.messages + back.messages) > out.cost.rank_messages)
                out.cost.inside_messages = asDouble(there.messages - there.inter_node_messages +
                                                    back.messages - back.inter_node_messages);
            raise(out.cost.rank_messages, there.messages + back.messages);
            const std::int64_t between = there.inter_node_bytes + back.inter_node_bytes;
            const std::int64_t inside = there.bytes + back.bytes - between;
            const double mates = asDouble(
                std::ssize(m_topology.members(m_topology.node(static_cast<std::int64_t>(rank)))));
            raise(out.cost.local_bytes, inside);
            out.cost.copied_bytes =
                std::max(out.cost.copied_bytes,
                         copiedBytes(way, asDouble(between), asDouble(inside), mates));
        }
        // What a node sends on the way there it receives on the way back.
        for (const auto& [node, bytes] : by_node) {
            const std::int64_t busier = 2 * std::max(bytes.first, bytes.second);
            if (static_cast<double>(busier) > out.cost.node_bytes) out.node = node;
            raise(out.cost.node_bytes, busier);
        }
        out.cost.exchanges = 2.0;
        out.cost.hops = hopsOf(way);
        out.cost.price(m_links);
        return out;
    }

private:
    [[nodiscard]] Ways waysOf(TokenAlgorithm algorithm) const {
        if (!deduplicates(algorithm))
            return {exchangeTraffic(wayOf(algorithm), m_topology, m_rows, m_row_bytes),
                    mirroredTraffic(wayOf(algorithm), m_topology, m_rows, m_row_bytes)};
        const Result<ExchangeTiers> tiers = dedupTiers(algorithm, m_nodes, {});
        Ways out;
        for (const TokenTraffic& t : tokenTraffic(*tiers, m_nodes, m_owners, m_topk, m_row_bytes)) {
            out.there.push_back(t.spread);
            out.back.push_back(t.reduce);
        }
        return out;
    }

    const std::vector<std::int64_t>& m_nodes;
    const SlotOwners& m_owners;
    std::int64_t m_topk, m_row_bytes;
    const ExchangeLinks& m_links;
    ExchangeTopology m_topology;
    std::vector<std::int64_t> m_rows;
};

}  // namespace

std::vector<AlgorithmEstimate> estimateAlgorithms(const std::vector<std::int64_t>& nodes,
                                                  const SlotOwners& owners, std::int64_t topk,
                                                  std::int64_t row_bytes,
                                                  const ExchangeLinks& links) {
    const Estimator estimator(nodes, owners, topk, row_bytes, links);
    std::vector<AlgorithmEstimate> out;
    for (const TokenAlgorithm candidate : kCandidates) out.push_back(estimator.estimate(candidate));
    std::ranges::stable_sort(out, {},
                             [](const AlgorithmEstimate& e) { return e.cost.total().value; });
    return out;
}

std::string explainChoice(const std::vector<AlgorithmEstimate>& estimates) {
    const AlgorithmEstimate& best = estimates.front();
    const auto flat =
        std::ranges::find(estimates, TokenAlgorithm::Flat, &AlgorithmEstimate::algorithm);
    return fmt::format("{}: {}; flat would take {:.3g} s", toText(best.algorithm),
                       best.cost.limit(fmt::format("node {}", best.node)),
                       flat->cost.total().value);
}

}  // namespace piper
