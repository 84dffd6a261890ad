// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"

namespace piper {

/// Distinct nodes a token's router_topk experts lie on, on average, when an ep group spans `nodes`
/// nodes: k distinct picks of E experts spread evenly, out of at most `limit` nodes (0: any). What
/// a node-aware exchange sends between nodes is this many rows a token, less the one at home; the
/// rows every rank receives stay the same.
[[nodiscard]] double expectedNodes(std::int64_t num_experts, std::int64_t router_topk,
                                   std::int64_t nodes, std::int64_t limit = 0);
/// The nodes a token may reach: the plan's node_limit, or the groups of a group-limited router
/// (DeepSeek-V3: 4 of 8) when groups lie on nodes; `nodes` when neither holds.
[[nodiscard]] std::int64_t nodeLimit(const Plan& plan, std::int64_t nodes);

/// Share of the routed rows of each expert under the plan's routing load: [num_experts], sums to 1.
/// A histogram is taken as it is given.
[[nodiscard]] std::vector<double> expertShares(const Plan& plan, LayerId layer);
/// The same with none above 1 / router_topk: a token takes an expert once, and what a load has
/// above that goes to the others. What the worker can impose; of measured loads it is the same.
[[nodiscard]] std::vector<double> drawableShares(const Plan& plan, LayerId layer);
/// Whether layers of one plan can be loaded differently.
[[nodiscard]] bool loadVaries(const Plan& plan);
[[nodiscard]] std::vector<LayerId> moeLayersOf(const Plan& plan, StageId stage);

/// DeepEP and HybridEP send a token once to a rank, straight from where it lies, and sort rows on
/// the expert's side alone, by one fused kernel.
[[nodiscard]] bool movesTokens(AllToAllLibrary library);
[[nodiscard]] inline bool movesTokens(const Plan& plan) {
    return plan.layout.ep > 1 && movesTokens(plan.all_to_all.library);
}

}  // namespace piper
