// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/selector.h"

#include <algorithm>
#include <map>

namespace piper {
namespace {

struct Candidate {
    TokenAlgorithm algorithm;
    AllToAllAlgorithm way;  ///< of rows; of no meaning where tokens move
};
constexpr Candidate kCandidates[] = {{TokenAlgorithm::Flat, AllToAllAlgorithm::Flat},
                                     {TokenAlgorithm::Node, AllToAllAlgorithm::Node},
                                     {TokenAlgorithm::Rail, AllToAllAlgorithm::Rail},
                                     {TokenAlgorithm::NodePair, AllToAllAlgorithm::NodePair},
                                     {TokenAlgorithm::RankDedup, AllToAllAlgorithm::Flat},
                                     {TokenAlgorithm::NodeDedup, AllToAllAlgorithm::Flat}};

/// What one rank sends there and back.
struct Ways {
    ExchangeTraffic there, back;
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

    [[nodiscard]] AlgorithmEstimate estimate(const Candidate& candidate) const {
        AlgorithmEstimate out;
        out.algorithm = candidate.algorithm;
        std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> by_node;  // there, back
        std::int64_t local = 0;
        for (std::int64_t rank = 0; rank < m_topology.size(); ++rank) {
            const Ways ways = waysOf(candidate, rank);
            auto& [sent, received] = by_node[m_nodes[static_cast<std::size_t>(rank)]];
            sent += ways.there.inter_node_bytes;
            received += ways.back.inter_node_bytes;
            out.rank_messages =
                std::max(out.rank_messages, ways.there.messages + ways.back.messages);
            local = std::max(local, ways.there.bytes - ways.there.inter_node_bytes +
                                        ways.back.bytes - ways.back.inter_node_bytes);
        }
        // What a node sends on the way there it receives on the way back.
        for (const auto& [node, bytes] : by_node) {
            const std::int64_t busier = 2 * std::max(bytes.first, bytes.second);
            if (busier > out.node_bytes) out.node = node;
            out.node_bytes = std::max(out.node_bytes, busier);
        }
        out.link_seconds = static_cast<double>(out.node_bytes) / m_links.node_bytes_per_second;
        out.message_seconds = static_cast<double>(out.rank_messages) * m_links.message_seconds;
        out.local_seconds = static_cast<double>(local) / m_links.local_bytes_per_second;
        out.seconds = out.link_seconds + out.message_seconds + out.local_seconds;
        return out;
    }

private:
    [[nodiscard]] Ways waysOf(const Candidate& candidate, std::int64_t rank) const {
        if (!deduplicates(candidate.algorithm))
            return {exchangeTraffic(candidate.way, m_topology, m_rows, m_row_bytes, rank),
                    mirroredTraffic(candidate.way, m_topology, m_rows, m_row_bytes, rank)};
        const Result<ExchangeTiers> tiers = dedupTiers(candidate.algorithm, m_nodes, {});
        const TokenTraffic t = tokenTraffic(*tiers, m_nodes, m_owners, m_topk, m_row_bytes, rank);
        return {t.spread, t.reduce};
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
    for (const Candidate& candidate : kCandidates) out.push_back(estimator.estimate(candidate));
    std::ranges::stable_sort(out, {}, &AlgorithmEstimate::seconds);
    return out;
}

std::string explainChoice(const std::vector<AlgorithmEstimate>& estimates) {
    const AlgorithmEstimate& best = estimates.front();
    const auto flat =
        std::ranges::find(estimates, TokenAlgorithm::Flat, &AlgorithmEstimate::algorithm);
    std::string limit;
    if (best.link_seconds >= std::max(best.message_seconds, best.local_seconds) &&
        best.node_bytes > 0)
        limit = fmt::format("the link of node {} limits ({:.2f} MB, {:.3g} s of {:.3g} s)",
                            best.node, 1e-6 * static_cast<double>(best.node_bytes),
                            best.link_seconds, best.seconds);
    else if (best.message_seconds >= best.local_seconds)
        limit = fmt::format("{} messages of one rank limit ({:.3g} s of {:.3g} s)",
                            best.rank_messages, best.message_seconds, best.seconds);
    else
        limit = fmt::format("copies inside the node limit ({:.3g} s of {:.3g} s)",
                            best.local_seconds, best.seconds);
    return fmt::format("{}: {}; flat would take {:.3g} s", toText(best.algorithm), limit,
                       flat->seconds);
}

}  // namespace piper
