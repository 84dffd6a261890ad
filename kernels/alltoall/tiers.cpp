// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/tiers.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace piper {
Result<ExchangeTiers> ExchangeTiers::make(std::int64_t size,
                                          std::vector<std::vector<std::int64_t>> groups) {
    std::vector<std::int64_t> alone(static_cast<std::size_t>(size));
    std::iota(alone.begin(), alone.end(), 0);
    groups.push_back(std::move(alone));
    ExchangeTiers out;
    out.m_size = size;
    for (std::vector<std::int64_t>& tier : groups) {
        if (static_cast<std::int64_t>(tier.size()) != size)
            return fail(ErrorCode::InvalidInput, "a tier names the groups of {} ranks, not of {}",
                        tier.size(), size);
        out.m_tiers.emplace_back(std::move(tier));
    }
    for (int t = 1; t < out.numTiers(); ++t)
        for (std::int64_t rank = 0; rank < size; ++rank) {
            const std::int64_t first = out.at(t).members(out.group(t, rank)).front();
            if (!out.together(t - 1, first, rank))
                return fail(ErrorCode::InvalidInput,
                            "ranks {} and {} share a group of tier {} but not one of tier {}",
                            first, rank, t, t - 1);
        }
    return out;
}

std::int64_t ExchangeTiers::group(int tier, std::int64_t rank) const {
    return tier < 0 ? 0 : at(tier).node(rank);
}

bool ExchangeTiers::together(int tier, std::int64_t a, std::int64_t b) const {
    return group(tier, a) == group(tier, b);
}

std::vector<ExchangeTiers::Peer> ExchangeTiers::receivers(int tier, std::int64_t rank) const {
    std::set<std::int64_t> groups;
    for (std::int64_t other = 0; other < m_size; ++other)
        if (together(tier - 1, rank, other) && !together(tier, rank, other))
            groups.insert(group(tier, other));
    std::vector<Peer> out;
    for (const std::int64_t g : groups) out.push_back({g, at(tier).relay(rank, g)});
    const auto after = std::find_if(
        out.begin(), out.end(), [&](const Peer& peer) { return peer.group > group(tier, rank); });
    std::rotate(out.begin(), after, out.end());
    return out;
}

std::vector<std::int64_t> ExchangeTiers::givers(int tier, std::int64_t rank) const {
    std::vector<std::int64_t> out;
    for (std::int64_t other = 0; other < m_size; ++other)
        if (together(tier - 1, rank, other) && !together(tier, rank, other) &&
            at(tier).relay(other, group(tier, rank)) == rank)
            out.push_back(other);
    return out;
}

std::vector<std::int64_t> ExchangeTiers::sources(int tier, std::int64_t rank) const {
    std::set<std::int64_t> out = {rank};
    for (int t = 0; t < tier; ++t)
        for (const std::int64_t giver : givers(t, rank)) {
            const std::vector<std::int64_t> theirs = sources(t, giver);
            out.insert(theirs.begin(), theirs.end());
        }
    return {out.begin(), out.end()};
}

}  // namespace piper
