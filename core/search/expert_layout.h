// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace piper {

// Concept: the copies of one layer's experts on the ranks of an ep group, and the swaps that even
// out what each rank computes. Loads are shares of the routed rows; the copies of an expert share
// its rows evenly. No plan and no cluster here: expert_placement.h puts costs on it.

/// Rows by expert: [num_experts], any positive scale.
using ExpertLoads = std::vector<double>;

struct ExpertLayout {
    std::vector<std::vector<std::int64_t>> ranks;  ///< [num_experts] -> who holds a copy, ascending

    /// Of a plan's expert_placement, [num_experts] -> ep rank; empty: in order.
    [[nodiscard]] static ExpertLayout of(const std::vector<std::int64_t>& placement,
                                         std::int64_t num_experts, std::int64_t ep);
    [[nodiscard]] bool holds(std::size_t expert, std::int64_t rank) const;
    /// Copies on each rank: [ep].
    [[nodiscard]] std::vector<std::int64_t> counts(std::int64_t ep) const;
    bool operator==(const ExpertLayout&) const = default;
};

/// Rows of each rank: [ep].
[[nodiscard]] std::vector<double> rankLoads(const ExpertLoads& loads, const ExpertLayout& layout,
                                            std::int64_t ep);
/// Rows of the rank with most over the mean: 1 when balanced.
[[nodiscard]] double loadImbalance(const ExpertLoads& loads, const ExpertLayout& layout,
                                   std::int64_t ep);

/// Adds `replicas` copies, each of the expert whose copies carry most, to the rank with the least
/// load that has room (every rank takes at most ceil(replicas / ep)) and no copy of it. Fewer when
/// every rank with room holds one. With several rows of loads: of their sum.
[[nodiscard]] ExpertLayout withReplicas(const std::vector<ExpertLoads>& rows, ExpertLayout layout,
                                        std::int64_t ep, std::int64_t replicas);

/// Hill climbing by swaps of two copies, which leave every rank as many as it had. One row of loads
/// (arXiv 2605.05049, expert migration): of the ranks with most and least load the swap that
/// narrows their gap most; where none narrows it, the next least loaded rank is tried. Several rows
/// (layers under one layout): the swap of the most overloaded rank that lowers the sum of the rows'
/// hottest ranks most. Ends when no swap helps or after `max_swaps`; never worse than it began.
struct ClimbResult {
    ExpertLayout layout;
    std::int64_t swaps = 0;
};
[[nodiscard]] ClimbResult climb(const std::vector<ExpertLoads>& rows, ExpertLayout layout,
                                std::int64_t ep, std::int64_t max_swaps);

/// The climb of `layout` with that many replicas, or of `layout` alone where those do not lower the
/// sum of the rows' hottest ranks.
[[nodiscard]] ClimbResult climbWithReplicas(const std::vector<ExpertLoads>& rows,
                                            const ExpertLayout& layout, std::int64_t ep,
                                            std::int64_t replicas, std::int64_t max_swaps);

}  // namespace piper
