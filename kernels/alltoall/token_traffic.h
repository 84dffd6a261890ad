// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/alltoall/tiers.h"
#include "kernels/alltoall/topology.h"
#include "kernels/alltoall/traffic.h"

namespace piper {

/// Owner ranks of each slot of every rank's tokens: [ranks][tokens * topk].
using SlotOwners = std::vector<std::vector<std::int64_t>>;

/// What a rank sends in each part of an exchange that moves a token once to each group, counted
/// token by token from the rule alone (docs/alltoall.md, "Counts"). Unit: messages, bytes.
struct TokenTraffic {
    ExchangeTraffic route;           ///< numbers and records
    ExchangeTraffic spread;          ///< dispatch, gradient of combine
    ExchangeTraffic reduce;          ///< combine
    ExchangeTraffic reduce_scalars;  ///< gradient of dispatch
};
/// Shape: [ranks].
[[nodiscard]] std::vector<TokenTraffic> tokenTraffic(const ExchangeTiers& tiers,
                                                     const std::vector<std::int64_t>& nodes,
                                                     const SlotOwners& owners, std::int64_t topk,
                                                     std::int64_t row_bytes);

/// Rows of every pair of ranks, [size * size], when each slot is a row: exchangeTraffic's input.
[[nodiscard]] std::vector<std::int64_t> slotRows(const SlotOwners& owners);

}  // namespace piper
