// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// Sorts slots (slot = token * router_topk + choice) by expert without padding, in host memory.
/// The order is stable: rows of an expert keep the order of their tokens.
/// experts [t * k] -> slot_of_row [t * k], row_of_slot [t * k] (inverse of each other),
/// offsets [num_experts + 1] with offsets[e] the first row of expert e.
/// Errors: InvalidInput names an expert out of range.
[[nodiscard]] Status makePermutation(ConstIndices experts, std::int64_t num_experts,
                                     Indices slot_of_row, Indices row_of_slot,
                                     std::span<std::int64_t> offsets);

/// The same with `capacity` rows for every expert, filled or not: an expert takes its first
/// `capacity` slots and drops the others. slot_of_row [num_experts * capacity], -1 for room that
/// nobody took; row_of_slot [t * k], -1 for a dropped slot. Returns the slots dropped.
/// Errors: InvalidInput names an expert out of range.
[[nodiscard]] Result<std::int64_t> makeCapacityPermutation(ConstIndices experts,
                                                           std::int64_t num_experts,
                                                           std::int64_t capacity,
                                                           Indices slot_of_row,
                                                           Indices row_of_slot);

/// Rows of one expert out of `slots` slots over num_experts under a capacity factor, rounded up; at
/// least 1.
[[nodiscard]] std::int64_t expertCapacity(std::int64_t slots, std::int64_t num_experts,
                                          double capacity_factor);

/// Order of received rows by local expert. Rows arrive source by source, each source's sorted by
/// local expert: counts [sources * local_experts]. row_of_sorted [sum of counts] names, for each
/// row in expert order (sources in order within an expert), the received row; use gatherRows with
/// it before the experts and scatterRows with it after them. offsets [local_experts + 1].
void makeReceiveOrder(std::span<const std::int64_t> counts, std::int64_t local_experts,
                      Indices row_of_sorted, std::span<std::int64_t> offsets);

}  // namespace piper
