// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/staged_exchange.h"

namespace piper {

/// Lays out one exchange of one rank as a script. `outer` is the token's side of the rows (grouped
/// by destination), `inner` the experts' side (grouped by source): forward moves outer to inner.
class ScriptBuilder {
public:
    ScriptBuilder(const ExchangeTopology& topology, std::int64_t rank, const ExchangeRoute& route,
                  std::int64_t row_bytes, TaggedAllocator& allocator);

    [[nodiscard]] Result<ExchangeScript> flat(ExchangeDirection direction, const std::byte* send,
                                              std::byte* recv);
    [[nodiscard]] Result<ExchangeScript> nodeForward(const std::byte* send, std::byte* recv);
    [[nodiscard]] Result<ExchangeScript> nodeMirrored(const std::byte* send, std::byte* recv);

private:
    /// Messages with the ranks of `peers` in rotated order, and the own rows copied.
    void direct(const std::vector<std::int64_t>& peers, ExchangeDirection direction,
                const std::byte* send, std::byte* recv);
    [[nodiscard]] Result<std::byte*> staging(std::int64_t bytes);
    [[nodiscard]] std::int64_t outerBytes(std::int64_t rank) const;
    [[nodiscard]] std::int64_t innerBytes(std::int64_t rank) const;
    /// Bytes of source number `source` (of relayedSources) for member number `member`.
    [[nodiscard]] std::int64_t relayedBytes(std::size_t source, std::size_t member) const;
    [[nodiscard]] std::int64_t innerBytesFrom(const std::vector<std::int64_t>& sources) const;
    [[nodiscard]] std::int64_t outerBytesTo(const std::vector<std::int64_t>& ranks) const;

    const ExchangeTopology& m_topology;
    std::int64_t m_rank;
    const ExchangeRoute& m_route;
    std::int64_t m_row_bytes;
    TaggedAllocator& m_allocator;
    std::vector<std::int64_t> m_outer_offset, m_inner_offset;  ///< [size] bytes
    ExchangeScript m_script;
};

}  // namespace piper
