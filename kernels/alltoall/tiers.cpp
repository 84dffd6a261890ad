// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/tiers.h"
#include "core/base/cast.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace piper {
ExchangeTiers::Tier ExchangeTiers::makeTier(const std::vector<std::int64_t>& groups) {
    Tier tier;
    std::map<std::int64_t, std::int64_t> dense;
    for (std::size_t rank = 0; rank < groups.size(); ++rank) {
        const auto next = static_cast<std::int64_t>(dense.size());
        const std::int64_t group = dense.emplace(groups[rank], next).first->second;
        tier.members.resize(dense.size());
        tier.group.push_back(group);
        tier.place.push_back(static_cast<std::int64_t>(tier.members[at(group)].size()));
        tier.members[at(group)].push_back(static_cast<std::int64_t>(rank));
    }
    return tier;
}

Result<ExchangeTiers> ExchangeTiers::make(std::int64_t size,
                                          std::vector<std::vector<std::int64_t>> groups) {
    std::vector<std::int64_t> alone(at(size));
    std::iota(alone.begin(), alone.end(), 0);
    groups.push_back(std::move(alone));
    ExchangeTiers out;
    out.m_size = size;
    for (const std::vector<std::int64_t>& tier : groups) {
        if (static_cast<std::int64_t>(tier.size()) != size)
            return fail(ErrorCode::InvalidInput, "a tier names the groups of {} ranks, not of {}",
                        tier.size(), size);
        out.m_tiers.push_back(makeTier(tier));
    }
    for (int t = 1; t < out.numTiers(); ++t)
        for (const std::vector<std::int64_t>& members : out.m_tiers[at(t)].members)
            for (const std::int64_t rank : members)
                if (out.group(t - 1, rank) != out.group(t - 1, members.front()))
                    return fail(ErrorCode::InvalidInput,
                                "ranks {} and {} share a group of tier {} but not one of tier {}",
                                members.front(), rank, t, t - 1);
    return out;
}

std::int64_t ExchangeTiers::group(int tier, std::int64_t rank) const {
    return tier < 0 ? 0 : m_tiers[at(tier)].group[at(rank)];
}

bool ExchangeTiers::together(int tier, std::int64_t a, std::int64_t b) const {
    return group(tier, a) == group(tier, b);
}

std::int64_t ExchangeTiers::relay(int tier, std::int64_t giver, std::int64_t group) const {
    const std::vector<std::int64_t>& there = m_tiers[at(tier)].members[at(group)];
    return there[at(m_tiers[at(tier)].place[at(giver)]) % there.size()];
}

std::vector<ExchangeTiers::Peer> ExchangeTiers::receivers(int tier, std::int64_t rank) const {
    std::set<std::int64_t> groups;
    for (std::int64_t other = 0; other < m_size; ++other)
        if (together(tier - 1, rank, other) && !together(tier, rank, other))
            groups.insert(group(tier, other));
    std::vector<Peer> out;
    for (const std::int64_t g : groups) out.push_back({g, relay(tier, rank, g)});
    const auto after = std::find_if(
        out.begin(), out.end(), [&](const Peer& peer) { return peer.group > group(tier, rank); });
    std::rotate(out.begin(), after, out.end());
    return out;
}

std::vector<std::int64_t> ExchangeTiers::givers(int tier, std::int64_t rank) const {
    std::vector<std::int64_t> out;
    for (std::int64_t other = 0; other < m_size; ++other)
        if (together(tier - 1, rank, other) && !together(tier, rank, other) &&
            relay(tier, other, group(tier, rank)) == rank)
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
