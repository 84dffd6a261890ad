// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace piper {

/// How tokens fall on experts: router_topk distinct ones each, none above its load.
struct ReachProblem {
    std::vector<double> load;  ///< [experts] share of the routed rows, sums to 1, each <= 1 / topk
    std::int64_t topk = 1;
    std::vector<std::int64_t> rank_of_expert;  ///< [experts]
    std::vector<std::int64_t> node_of_rank;    ///< [ranks], numbered without gaps
    std::int64_t node_limit = 0;               ///< nodes a token may reach, 0: any
};

/// Chance that a token has an expert there: [ranks] and [nodes]. Their sums are the distinct ranks
/// and nodes of a token's experts, on average.
struct Reach {
    std::vector<double> rank, node;
};

/// Of all routings with these loads the most random one: a set S of topk experts on d nodes has a
/// chance in proportion to C(nodes - d, limit - d) times the product of its experts' weights, and
/// the weights are those that give each expert its load. Even loads make it the draw of
/// expectedNodes: `limit` nodes, then topk of their experts.
/// Source: conditional Poisson sampling, Chen, Dempster and Liu, Biometrika 81 (1994).
[[nodiscard]] Reach tokenReach(const ReachProblem& problem);

}  // namespace piper
