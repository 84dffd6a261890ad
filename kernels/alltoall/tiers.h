// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "kernels/alltoall/topology.h"

namespace piper {

/// Nested groupings of a group's ranks, coarse to fine: racks, nodes; in the last tier, which is
/// always there, every rank is alone. A rank that holds something for many ranks gives it once to
/// each other group of the first tier (to its relay there), then to each other group of the second
/// tier inside its own first-tier group, and so on; relays do the same below their tier.
class ExchangeTiers {
public:
    /// groups: [tiers without the last][size] any group numbers.
    /// Errors: InvalidInput where a finer group lies in two coarser ones or lengths differ.
    [[nodiscard]] static Result<ExchangeTiers> make(std::int64_t size,
                                                    std::vector<std::vector<std::int64_t>> groups);

    [[nodiscard]] std::int64_t size() const { return m_size; }
    [[nodiscard]] int numTiers() const { return static_cast<int>(m_tiers.size()); }
    [[nodiscard]] std::int64_t group(int tier, std::int64_t rank) const;

    struct Peer {
        std::int64_t group;
        std::int64_t rank;  ///< the relay there
    };
    /// Whom `rank` gives to in a tier, each group's relay the one in the giver's place modulo the
    /// group's size; in an order that begins after the own group.
    [[nodiscard]] std::vector<Peer> receivers(int tier, std::int64_t rank) const;
    /// Who may give to `rank` in a tier, ascending.
    [[nodiscard]] std::vector<std::int64_t> givers(int tier, std::int64_t rank) const;
    /// Whose rows `rank` may hold when a tier begins, ascending.
    [[nodiscard]] std::vector<std::int64_t> sources(int tier, std::int64_t rank) const;

private:
    ExchangeTiers() = default;
    [[nodiscard]] const ExchangeTopology& at(int tier) const {
        return m_tiers[static_cast<std::size_t>(tier)];
    }
    [[nodiscard]] bool together(int tier, std::int64_t a, std::int64_t b) const;

    std::int64_t m_size = 0;
    std::vector<ExchangeTopology> m_tiers;  ///< of each tier; its groups are the nodes
};

}  // namespace piper
