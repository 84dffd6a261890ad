// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/plan/plan.h"

namespace piper {

// Concept: Calculon (github.com/calculon-ai/calculon, Apache-2.0, commit caa4b11) enumerates dense
// plans exhaustively; its published speed is the yardstick for ours. The same enumeration is
// written down here, so that both decide the same strategies: 7,018 of Megatron-22B on 8 devices
// without overlaps, 28,006 with them, 952,776 of GPT-3 175B on 512.

/// One strategy of Calculon's. What our plans have no choice of (point-to-point reductions, which
/// gather is kept, which network a group is given) makes several strategies one plan.
struct PeerStrategy {
    std::int64_t tp = 1, pp = 1, dp = 1, interleaving = 1, micro_batch_size = 1;
    RecomputeGranularity recompute = RecomputeGranularity::None;
    bool sequence_parallel = false;  ///< reduce-scatter and all-gather for all-reduce
    bool optimizer_sharding = false;
    bool tp_overlap = false, dp_overlap = false;
    std::array<int, 3> network{};  ///< of tp, pp, dp: 0 NVLink in a node of 8, 1 between nodes
};

/// A search of Calculon's.
struct PeerProblem {
    std::string_view name;
    std::int64_t hidden_size = 1, ffn_hidden_size = 1, num_heads = 1, num_layers = 1;
    std::int64_t seq_len = 2048, devices = 8, batch = 4;
    bool overlaps = true;
    std::int64_t strategies = 0;  ///< as Calculon counts them
};
[[nodiscard]] PeerProblem megatron22b();
[[nodiscard]] PeerProblem gpt175b();

/// Calls visit for every strategy: tp divides heads and devices, pp layers; interleaving the layers
/// of a stage; micro-batches a replica's batch; all, attention or no recompute; three kinds of
/// exchange; a network for each group of more than one.
void forEachPeerStrategy(const PeerProblem& problem,
                         const std::function<void(const PeerStrategy&)>& visit);

/// More devices on the network inside a node than it has: refused by both.
[[nodiscard]] bool overfillsNode(const PeerStrategy& strategy);

/// The problem's model on nodes of eight A100 80 GB, without vocabulary, fp16 with the optimizer's
/// 12 bytes a parameter, attention unfused. Errors: those of defaultCluster.
[[nodiscard]] Result<Plan> peerBase(const PeerProblem& problem);
/// Writes a strategy over the base.
void applyPeer(const PeerStrategy& strategy, Plan& plan);

}  // namespace piper
