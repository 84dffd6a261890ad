// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/alltoall/token_route.h"
#include "kernels/alltoall/topology.h"
#include "kernels/alltoall/wire_format.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/tensor.h"
#include "kernels/transport/transport.h"

namespace piper {

/// How rows of (token, expert) get to the experts and back. The first five move a row for each
/// expert of a token: the engine's MPI_Alltoallv, and the ways of AllToAll. The last three move a
/// token once to each rank, to each node (then to each rank there), to each rack (then to each node
/// there, ...), and bring one sum back from each.
enum class TokenAlgorithm { Vendor, Flat, Node, Rail, NodePair, RankDedup, NodeDedup, RackDedup };

[[nodiscard]] bool deduplicates(TokenAlgorithm algorithm);
/// The way of an algorithm's rows between ranks; flat for those that move tokens.
[[nodiscard]] AllToAllAlgorithm wayOf(TokenAlgorithm algorithm);

struct TokenExchangeOptions {
    TokenAlgorithm algorithm = TokenAlgorithm::Flat;
    std::int64_t hidden = 1;         ///< elements of a row
    std::int64_t local_experts = 1;  ///< of each rank
    WireFormat wire = WireFormat::Fp32;
    std::vector<std::int64_t> racks;  ///< [size] RackDedup: the rack of each rank
    std::int64_t in_flight = 0;  ///< messages of a hop that may come at once, 0: all (runScript)
};

/// One routing of a micro-batch (or of a chunk of it) on its way: made by TokenExchange::route,
/// used by its dispatch, combine and both gradients.
class RoutedTokens {
public:
    virtual ~RoutedTokens() = default;
    /// Rows for this rank's experts, sorted by local expert, then by source rank, then by token:
    /// the same under every algorithm.
    [[nodiscard]] virtual std::int64_t rows() const = 0;
    [[nodiscard]] virtual std::span<const std::int64_t> offsets() const = 0;  ///< [experts + 1]
};

/// Dispatch of rows by (token, expert), combine with weights, and their gradients, over one group.
/// H = hidden. All members start the same operations in the same order; matrices and routing live
/// until the transfer is done.
class TokenExchange {
public:
    virtual ~TokenExchange() = default;

    using Routes = std::vector<std::unique_ptr<RoutedTokens>>;
    using Transfer = Result<std::unique_ptr<PendingTransfer>>;

    /// Collective, blocks: everybody learns what will reach it. One routing for each chunk.
    [[nodiscard]] virtual Result<Routes> route(std::span<const TokenRouting> chunks) = 0;

    /// x [tokens, H] -> rows [r, H].
    [[nodiscard]] virtual Transfer dispatch(RoutedTokens& routed, ConstMatrix x, Matrix rows) = 0;
    /// y [r, H] -> out [tokens, H]: the sum over a token's experts of weight * row.
    [[nodiscard]] virtual Transfer combine(RoutedTokens& routed, ConstMatrix y, Matrix out,
                                           Store store) = 0;
    /// d_out [tokens, H] -> d_y [r, H] = weight * d_out of the row's token. y [r, H] as combined.
    [[nodiscard]] virtual Transfer combineGrad(RoutedTokens& routed, ConstMatrix d_out,
                                               ConstMatrix y, Matrix d_y) = 0;
    /// d_rows [r, H] -> dx [tokens, H], the sum over a token's rows; d_weights [tokens * topk], the
    /// products of d_out with the rows y, from the combineGrad before.
    [[nodiscard]] virtual Transfer dispatchGrad(RoutedTokens& routed, ConstMatrix d_rows, Matrix dx,
                                                std::span<float> d_weights, Store store) = 0;
};

/// The group and the allocator outlive it. Errors: InvalidInput for options that do not fit the
/// group.
[[nodiscard]] Result<std::unique_ptr<TokenExchange>> makeTokenExchange(
    Communicator& group, TaggedAllocator& allocator, const TokenExchangeOptions& options);

/// The tiers of a deduplicating algorithm over a group on these nodes.
[[nodiscard]] Result<ExchangeTiers> dedupTiers(TokenAlgorithm algorithm,
                                               const std::vector<std::int64_t>& nodes,
                                               const std::vector<std::int64_t>& racks);

}  // namespace piper
