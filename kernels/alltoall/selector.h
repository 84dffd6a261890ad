// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/alltoall/token_exchange.h"
#include "kernels/alltoall/token_traffic.h"

namespace piper {

/// What bounds an exchange.
struct ExchangeLinks {
    double node_bytes_per_second = 12.5e6;  ///< of a node's link, each direction
    double local_bytes_per_second = 5e9;    ///< of one rank to its node mates
    double message_seconds = 20e-6;         ///< a rank's time for one message
};

/// Dispatch and combine under one algorithm, from its closed form for a known routing.
struct AlgorithmEstimate {
    TokenAlgorithm algorithm = TokenAlgorithm::Flat;
    double seconds = 0.0;
    double link_seconds = 0.0, message_seconds = 0.0, local_seconds = 0.0;  ///< which add up
    std::int64_t node = 0;           ///< whose link is the busiest
    std::int64_t node_bytes = 0;     ///< over it, in its busier direction, there and back
    std::int64_t rank_messages = 0;  ///< of the rank that sends most, there and back
};

/// All algorithms that run without racks, the fastest first; a tie goes to the simpler one.
/// owners as in tokenTraffic. Source: docs/alltoall.md, "Cost".
[[nodiscard]] std::vector<AlgorithmEstimate> estimateAlgorithms(
    const std::vector<std::int64_t>& nodes, const SlotOwners& owners, std::int64_t topk,
    std::int64_t row_bytes, const ExchangeLinks& links);

/// "node_dedup: the link of node 2 limits (8.7 MB, 0.70 s of 0.71 s); flat would take 1.5 s".
[[nodiscard]] std::string explainChoice(const std::vector<AlgorithmEstimate>& estimates);

}  // namespace piper
