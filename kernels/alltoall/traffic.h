// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/alltoall/topology.h"

namespace piper {

/// What one rank sends in one exchange.
struct ExchangeTraffic {
    std::int64_t messages = 0;  ///< to ranks other than itself
    std::int64_t bytes = 0;
    std::int64_t inter_node_messages = 0;  ///< of these, to ranks of other nodes
    std::int64_t inter_node_bytes = 0;
    bool operator==(const ExchangeTraffic&) const = default;
    ExchangeTraffic& operator+=(const ExchangeTraffic& other);
    void add(bool inter_node, std::int64_t message_bytes);
};

/// What each rank sends when rank s has rows[s * size + d] rows for rank d: on each hop of the
/// rows' ways one message for each receiver with rows. Empty messages are not sent. Shape: [size].
/// Unit: messages, and bytes of payload; a relayed row counts on each of its hops.
[[nodiscard]] std::vector<ExchangeTraffic> exchangeTraffic(AllToAllAlgorithm algorithm,
                                                           const ExchangeTopology& topology,
                                                           const std::vector<std::int64_t>& rows,
                                                           std::int64_t row_bytes);
/// The same for the mirrored exchange, in which every row goes back the way it came.
[[nodiscard]] std::vector<ExchangeTraffic> mirroredTraffic(AllToAllAlgorithm algorithm,
                                                           const ExchangeTopology& topology,
                                                           const std::vector<std::int64_t>& rows,
                                                           std::int64_t row_bytes);

/// The closed form of what a whole group of `nodes` nodes with `local` ranks each sends when every
/// rank has `bytes` for every other one (docs/alltoall.md, "Counts").
[[nodiscard]] ExchangeTraffic uniformTraffic(AllToAllAlgorithm algorithm, std::int64_t nodes,
                                             std::int64_t local, std::int64_t bytes);

}  // namespace piper
