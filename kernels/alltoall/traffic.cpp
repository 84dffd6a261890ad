// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/traffic.h"

#include <map>
#include <tuple>

namespace piper {
namespace {

std::vector<ExchangeTraffic> traffic(AllToAllAlgorithm algorithm, const ExchangeTopology& topology,
                                     const std::vector<std::int64_t>& rows, std::int64_t row_bytes,
                                     bool mirrored) {
    std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, std::int64_t> hops;
    for (std::int64_t s = 0; s < topology.size(); ++s)
        for (std::int64_t d = 0; d < topology.size(); ++d) {
            const std::int64_t n = rows[static_cast<std::size_t>(s * topology.size() + d)];
            if (n == 0) continue;
            const ExchangeTopology::Way way = topology.way(algorithm, s, d);
            for (std::size_t h = 0; h + 1 < way.size(); ++h)
                if (way[h] != way[h + 1]) hops[{h, way[h], way[h + 1]}] += n;
        }
    std::vector<ExchangeTraffic> sums(static_cast<std::size_t>(topology.size()));
    for (const auto& [hop, n] : hops) {
        const auto [number, from, to] = hop;
        sums[static_cast<std::size_t>(mirrored ? to : from)].add(!topology.sameNode(from, to),
                                                                 n * row_bytes);
    }
    return sums;
}

}  // namespace

ExchangeTraffic& ExchangeTraffic::operator+=(const ExchangeTraffic& other) {
    messages += other.messages;
    bytes += other.bytes;
    inter_node_messages += other.inter_node_messages;
    inter_node_bytes += other.inter_node_bytes;
    return *this;
}

void ExchangeTraffic::add(bool inter_node, std::int64_t message_bytes) {
    ++messages;
    bytes += message_bytes;
    if (!inter_node) return;
    ++inter_node_messages;
    inter_node_bytes += message_bytes;
}

std::vector<ExchangeTraffic> exchangeTraffic(AllToAllAlgorithm algorithm,
                                             const ExchangeTopology& topology,
                                             const std::vector<std::int64_t>& rows,
                                             std::int64_t row_bytes) {
    return traffic(algorithm, topology, rows, row_bytes, false);
}

std::vector<ExchangeTraffic> mirroredTraffic(AllToAllAlgorithm algorithm,
                                             const ExchangeTopology& topology,
                                             const std::vector<std::int64_t>& rows,
                                             std::int64_t row_bytes) {
    return traffic(algorithm, topology, rows, row_bytes, true);
}

ExchangeTraffic uniformTraffic(AllToAllAlgorithm algorithm, std::int64_t nodes, std::int64_t local,
                               std::int64_t bytes) {
    const std::int64_t ranks = nodes * local;
    const std::int64_t inside = nodes * local * (local - 1);          // ordered pairs of node mates
    const std::int64_t across = nodes * (nodes - 1) * local * local;  // of ranks of two nodes
    ExchangeTraffic out;
    out.inter_node_bytes = across * bytes;
    // Of the rows for one other node one L-th needs no second hop (its relay is the receiver).
    const std::int64_t one_more = across / local * (local - 1) * bytes;
    switch (algorithm) {
        case AllToAllAlgorithm::Node:
        case AllToAllAlgorithm::Rail:
            out.inter_node_messages = ranks * (nodes - 1);
            out.messages = out.inter_node_messages + inside;
            out.bytes = out.inter_node_bytes + inside * bytes + one_more;
            break;
        case AllToAllAlgorithm::NodePair: {
            out.inter_node_messages = nodes * (nodes - 1);
            // Each pair of nodes is gathered from, and handed on to, all ranks but the carrier;
            // a carrier of several pairs sends one message to each mate.
            std::int64_t carriers = 0;
            for (std::int64_t i = 0; i < nodes; ++i)
                for (std::int64_t c = 0; c < local; ++c) {
                    bool carries = false;
                    for (std::int64_t j = 0; j < nodes; ++j)
                        carries = carries || (j != i && (i + j) % local == c);
                    carriers += carries ? 1 : 0;
                }
            out.messages = out.inter_node_messages + inside + 2 * carriers * (local - 1);
            out.bytes = out.inter_node_bytes + inside * bytes + 2 * one_more;
            break;
        }
        default:
            out.inter_node_messages = across;
            out.messages = across + inside;
            out.bytes = out.inter_node_bytes + inside * bytes;
    }
    return out;
}

}  // namespace piper
