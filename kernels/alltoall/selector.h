// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/resources/exchange_choice.h"
#include "kernels/alltoall/token_exchange.h"
#include "kernels/alltoall/token_traffic.h"

namespace piper {

/// Dispatch and combine under one algorithm, from its closed form for a known routing.
struct AlgorithmEstimate {
    TokenAlgorithm algorithm = TokenAlgorithm::Flat;
    ExchangeCost cost;
    std::int64_t node = 0;  ///< whose link is the busiest
};

/// All algorithms that run without racks, the fastest first; a tie goes to the simpler one.
/// owners as in tokenTraffic. Source: docs/alltoall.md, "Cost".
[[nodiscard]] std::vector<AlgorithmEstimate> estimateAlgorithms(
    const std::vector<std::int64_t>& nodes, const SlotOwners& owners, std::int64_t topk,
    std::int64_t row_bytes, const ExchangeLinks& links);

/// "node_dedup: the link of node 2 limits (8.7 MB, 0.70 s of 0.71 s); flat would take 1.5 s".
[[nodiscard]] std::string explainChoice(const std::vector<AlgorithmEstimate>& estimates);

}  // namespace piper
