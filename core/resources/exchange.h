// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.h"

namespace piper {

/// What an algorithm becomes in a group, and why, in one sentence.
struct AlgorithmChoice {
    AllToAllAlgorithm algorithm = AllToAllAlgorithm::Flat;
    std::string reason;
    bool fell_back = false;  ///< the plan named another one
};

/// Of a named algorithm. Auto, where nothing is known of the rows: flat on one node, node-staged
/// across nodes (a plan's auto is chooseExchange). What stages becomes flat where there is nothing
/// to stage: one node, or one rank on every node.
[[nodiscard]] AlgorithmChoice chooseAlgorithm(AllToAllAlgorithm wanted, std::int64_t ranks,
                                              std::int64_t nodes);
/// What the plan's ep groups run: pickExchange for our worker on CPU ranks; all others hand rows
/// straight to their library unless the plan names an algorithm.
[[nodiscard]] AllToAllAlgorithm exchangeAlgorithm(const Plan& plan);

/// Rows that ranks hand to the transport for one token in a dispatch, each hop counted, mean over
/// the tokens of all ranks; a combine takes the same ways backwards.
struct ExchangeRows {
    double between_nodes = 0.0, inside_nodes = 0.0;
    [[nodiscard]] double total() const { return between_nodes + inside_nodes; }
};

/// A group of ranks with as many experts each, spread evenly over nodes.
struct ExchangeGroup {
    std::int64_t ranks = 1, nodes = 1;
    std::int64_t num_experts = 1, topk = 1;
    std::int64_t reach = 1;  ///< nodes a token may have experts on
};
/// Under even loads; see exchangeRows.
[[nodiscard]] ExchangeRows evenExchangeRows(AllToAllAlgorithm algorithm,
                                            const ExchangeGroup& group);

/// Of an ep group spread evenly over its nodes (P ranks on N of L), k = router_topk:
///   flat        k (P - L) / P between, k (L - 1) / P inside
///   node, rail  inside k (N - 1) (L - 1) / P more, node_pair twice that
///   node_dedup  the distinct nodes of the token's experts, (N - 1) / N of them not its own; inside
///               (L - 1) / L of the distinct ranks, under the plan's routing load and node limit
/// Exact on average for any load that does not depend on the token's rank (node_pair: an even one).
/// Source: docs/alltoall.md, "Counts"; the transport counts the same.
[[nodiscard]] ExchangeRows exchangeRows(const Plan& plan, AllToAllAlgorithm algorithm,
                                        LayerId layer);
/// The same over the MoE layers of a stage.
[[nodiscard]] ExchangeRows stageExchangeRows(const Plan& plan, AllToAllAlgorithm algorithm,
                                             StageId stage);

}  // namespace piper
