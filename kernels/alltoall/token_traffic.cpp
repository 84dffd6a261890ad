// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_traffic.h"

#include <map>
#include <utility>

#include "core/base/cast.h"
#include "kernels/alltoall/token_route.h"

namespace piper {
namespace {

struct Load {
    std::int64_t rows = 0, slots = 0;
};
using Edges = std::map<std::pair<std::int64_t, std::int64_t>, Load>;  ///< from, to

/// Follows one token: `holder` has its row for `owners`, all in its group of the tier before.
void follow(const ExchangeTiers& tiers, int tier, std::int64_t holder,
            const std::vector<std::int64_t>& owners, Edges& edges) {
    if (tier == tiers.numTiers() || owners.empty()) return;
    std::map<std::int64_t, std::vector<std::int64_t>> by_group;
    for (const std::int64_t owner : owners) by_group[tiers.group(tier, owner)].push_back(owner);
    for (const ExchangeTiers::Peer& peer : tiers.receivers(tier, holder)) {
        const auto there = by_group.find(peer.group);
        if (there == by_group.end()) continue;
        Load& load = edges[{holder, peer.rank}];
        ++load.rows;
        load.slots += static_cast<std::int64_t>(there->second.size());
        follow(tiers, tier + 1, peer.rank, there->second, edges);
    }
    follow(tiers, tier + 1, holder, by_group[tiers.group(tier, holder)], edges);
}

}  // namespace

std::vector<TokenTraffic> tokenTraffic(const ExchangeTiers& tiers,
                                       const std::vector<std::int64_t>& nodes,
                                       const SlotOwners& owners, std::int64_t topk,
                                       std::int64_t row_bytes) {
    Edges edges;
    for (std::size_t source = 0; source < owners.size(); ++source)
        for (std::size_t slot = 0; slot < owners[source].size();
             slot += static_cast<std::size_t>(topk)) {
            const auto first = owners[source].begin() + static_cast<std::ptrdiff_t>(slot);
            follow(tiers, 0, static_cast<std::int64_t>(source), {first, first + topk}, edges);
        }
    std::vector<TokenTraffic> out(at(tiers.size()));
    for (const auto& [edge, load] : edges) {
        const auto [from, to] = edge;
        const bool other = nodes[at(from)] != nodes[at(to)];
        const std::int64_t rows = load.rows * row_bytes;
        out[at(from)].route.add(other, load.slots * kRecordBytes);
        out[at(from)].spread.add(other, rows);
        out[at(to)].reduce.add(other, rows);
        out[at(to)].reduce_scalars.add(other, rows + load.slots * 4);
    }
    for (std::int64_t rank = 0; rank < tiers.size(); ++rank)
        for (int tier = 0; tier < tiers.numTiers(); ++tier) {
            const auto held = static_cast<std::int64_t>(tiers.sources(tier, rank).size());
            for (const ExchangeTiers::Peer& peer : tiers.receivers(tier, rank))
                out[at(rank)].route.add(nodes[at(peer.rank)] != nodes[at(rank)],
                                        held * kCountBytes);
        }
    return out;
}

std::vector<std::int64_t> slotRows(const SlotOwners& owners) {
    const std::size_t size = owners.size();
    std::vector<std::int64_t> rows(size * size, 0);
    for (std::size_t s = 0; s < size; ++s)
        for (const std::int64_t d : owners[s]) ++rows[s * size + static_cast<std::size_t>(d)];
    return rows;
}

}  // namespace piper
