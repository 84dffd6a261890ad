// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <vector>

#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/exchange_script.h"

namespace piper {

/// Lays out one exchange of one rank as a script from the ways of its rows. Every hop of a way is
/// a phase; the rows of all pairs that take the same hop travel in one message, ordered by pair.
/// `outer` is the token's side of the rows (grouped by destination), `inner` the experts' side
/// (grouped by source): forward moves outer to inner, mirrored goes the ways backwards.
class PathBuilder {
public:
    struct Problem {
        const ExchangeTopology& topology;
        AllToAllAlgorithm algorithm;
        std::int64_t rank;
        /// ExchangeTopology::relayedPairs of the rank, in its order.
        const std::vector<std::pair<std::int64_t, std::int64_t>>& relayed;
        const ExchangeRoute& route;
        std::int64_t row_bytes;
        ExchangeDirection direction;
        const std::byte* send;
        std::byte* recv;
        /// Where rows that only pass through are copied to as well, pair by pair; may be null.
        std::byte* relayed_copy = nullptr;
    };
    PathBuilder(const Problem& problem, TaggedAllocator& allocator);

    [[nodiscard]] Result<ExchangeScript> build();

private:
    /// Rows of one pair as this rank sees them.
    struct Block {
        std::int64_t bytes = 0;
        std::byte* final_place = nullptr;  ///< in recv, where they end here
        std::byte* copy_place = nullptr;   ///< in relayed_copy
        const std::byte* place = nullptr;  ///< where they lie now, or will after the receive
        std::ptrdiff_t receive = -1;
    };
    using Key = std::pair<int, std::int64_t>;  ///< phase, peer
    using Messages = std::map<Key, std::vector<std::size_t>>;

    void addPair(std::int64_t s, std::int64_t d, std::int64_t bytes, std::int64_t relayed_offset);
    void addOwnAndRelayed();
    Status addReceive(const Key& key, const std::vector<std::size_t>& blocks);
    Status addSend(const Key& key, const std::vector<std::size_t>& blocks);
    [[nodiscard]] Result<std::byte*> staging(std::int64_t bytes);
    [[nodiscard]] std::int64_t total(const std::vector<std::size_t>& blocks) const;

    const Problem& m_problem;
    TaggedAllocator& m_allocator;
    std::vector<std::int64_t> m_outer_offset, m_inner_offset;  ///< [size] bytes
    std::vector<Block> m_blocks;
    Messages m_incoming, m_outgoing;
    ExchangeScript m_script;
};

}  // namespace piper
