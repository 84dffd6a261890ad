// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/resources/exchange.h"
#include "kernels/alltoall/exchange_tags.h"
#include "kernels/alltoall/topology.h"
#include "kernels/ops/allocator.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Who sends how many rows to whom in one exchange, as one rank knows it. Made once for a
/// micro-batch's chunk by the counts exchange; dispatch, combine and both of their gradients use
/// it.
struct ExchangeRoute {
    std::vector<std::int64_t> send_rows;     ///< [size] to each rank
    std::vector<std::int64_t> recv_rows;     ///< [size] from each rank
    std::vector<std::int64_t> recv_counts;   ///< [size * classes] rows of each class from each rank
    std::vector<std::int64_t> relayed_rows;  ///< of ExchangeTopology::relayedPairs, in its order

    [[nodiscard]] std::int64_t sent() const;
    [[nodiscard]] std::int64_t received() const;
};

/// node_dedup moves tokens and knows nothing of blocks of bytes.
/// Errors: InvalidInput for it; names what moves blocks.
[[nodiscard]] Status checkMovesBlocks(AllToAllAlgorithm algorithm);

/// Forward: from the rank of a token to those of its experts. Mirrored: every row back the same
/// way.
enum class ExchangeDirection { Forward, Mirrored };

/// Exchange of rows between the ranks of one group, host memory.
///
/// Flat: one non-blocking message for each destination, in an order rotated by the own rank.
/// Node: ranks of one node exchange directly; what goes to another node leaves as one message for
/// the whole node, to the rank there in the same place, which hands it on inside its node. Rail:
/// what goes to another node is handed first to the node mate in the receiver's place, and crosses
/// in one message from it. NodePair: everything from one node to another crosses in one message.
/// Vendor: the engine's own blocking all-to-all; nothing goes on beside it.
/// A mirrored exchange takes the same ways backwards. All move the same rows to the same places,
/// byte for byte; a relay sends on as soon as all that belongs to a message is there.
///
/// All members start the same exchanges in the same order. Between start and wait a rank relays
/// for others only while it is in wait() or test().
class AllToAll {
public:
    /// The group must outlive it; staging memory is counted as CommunicationBuffer.
    AllToAll(Communicator& group, TaggedAllocator& allocator, AllToAllAlgorithm wanted);
    /// By a choice that was made for this group.
    AllToAll(Communicator& group, TaggedAllocator& allocator, AlgorithmChoice choice);

    /// Messages of a hop that may come to this rank at once, 0: all. See runScript.
    void limitInFlight(std::int64_t messages) { m_in_flight = messages; }

    /// From now on rows that would come from others are copies of those this rank sends; counts
    /// still travel. What is timed then is all but the traffic. Collective.
    /// Errors: InvalidInput for a choice that moves no blocks.
    Status moveLocally();

    [[nodiscard]] const AlgorithmChoice& choice() const { return m_choice; }
    [[nodiscard]] const ExchangeTopology& topology() const { return m_topology; }

    /// Tells every rank how many rows of each class (local expert) it will get from this one.
    /// counts [chunks][size][classes]; one route for each chunk. Blocks, collective.
    /// Errors: InvalidInput for a choice that moves no blocks.
    [[nodiscard]] Result<std::vector<ExchangeRoute>> exchangeCounts(
        std::span<const std::int64_t> counts, std::int64_t chunks, std::int64_t classes);

    /// Route of the same number of rows between all pairs of ranks; asks nobody.
    [[nodiscard]] ExchangeRoute uniformRoute(std::int64_t rows) const;

    /// Starts to move rows of row_bytes. Forward: send holds rows grouped by destination in rank
    /// order, recv gets them grouped by source in rank order; mirrored the other way round. Both
    /// spans must live until it is done. Collective.
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> start(const ExchangeRoute& route,
                                                                 ExchangeDirection direction,
                                                                 std::span<const std::byte> send,
                                                                 std::span<std::byte> recv,
                                                                 std::int64_t row_bytes);

private:
    /// Counts of every chunk, one row of `block` numbers for each destination or source: they are
    /// rows like any other and travel the same ways, one row for every pair of ranks.
    struct CountTable {
        std::int64_t chunks = 1, classes = 1;
        std::vector<std::int64_t> outgoing, incoming;  ///< [size][chunks][classes]
        std::vector<std::int64_t> relayed;             ///< [relayed pairs][chunks][classes]
        [[nodiscard]] std::int64_t block() const { return chunks * classes; }
        [[nodiscard]] ExchangeRoute route(std::int64_t chunk) const;
    };
    Status moveCounts(CountTable& table);
    Status moveByVendor(const ExchangeRoute& route, ExchangeDirection direction,
                        std::span<const std::byte> send, std::span<std::byte> recv,
                        std::int64_t row_bytes);

    Communicator& m_group;
    TaggedAllocator& m_allocator;
    ExchangeTopology m_topology;
    AlgorithmChoice m_choice;
    std::vector<std::pair<std::int64_t, std::int64_t>> m_relayed;  ///< pairs through this rank
    std::int64_t m_in_flight = 0;
    bool m_local = false;
    ExchangeTags m_tags{ExchangeTags::kRows};
};

}  // namespace piper
