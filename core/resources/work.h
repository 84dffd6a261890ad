// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/run/vocabulary.h"

namespace piper {

/// `count` calls of `groups` equal problems C[m,n] += A[m,k] B[k,n].
struct GemmWork {
    std::int64_t groups = 1;
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t count = 1;
    [[nodiscard]] Flops flops() const {
        return Flops(2.0 * static_cast<double>(groups) * static_cast<double>(m) *
                     static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(count));
    }
};

/// Causal attention of `batch` sequences; FLOPs count half the square when causal.
struct AttentionWork {
    std::int64_t batch = 1, heads = 1, seq_len = 1, qk_head_dim = 1, v_head_dim = 1;
    bool backward = false;
    Flops flops;
};

/// One collective or message of one rank.
struct CommunicationWork {
    CollectiveKind kind = CollectiveKind::AllToAll;
    std::string dimension;  ///< group: "ep", "tp", "cp", "dp", "edp", "pp"
    std::int64_t group_size = 1;
    /// Payload this rank hands to the transport for other ranks, mean over ranks when balanced.
    Bytes bytes;
    /// The same on the hottest rank under the plan's routing load.
    Bytes hottest_bytes;
    std::int64_t messages = 0;
};

/// What one operation of a schedule is made of; the cost model turns it into seconds.
struct OperationWork {
    std::vector<GemmWork> gemms;
    std::optional<AttentionWork> attention;
    Bytes memory_traffic;  ///< read + written by memory-bound parts (norms, permute, optimizer)
    double kernels = 0.0;  ///< launches that are not GEMMs or attention
    std::optional<CommunicationWork> communication;
    /// Rows routed to this rank's experts on the hottest rank over the mean (1 when balanced).
    double imbalance = 1.0;

    [[nodiscard]] Flops flops() const {
        Flops sum = attention ? attention->flops : Flops();
        for (const GemmWork& g : gemms) sum += g.flops();
        return sum;
    }
};

/// Names one operation up to layer, micro-batch and chunk number.
struct OperationKey {
    OperationKind kind = OperationKind::Forward;
    Phase phase = Phase::Attention;
    Pass pass = Pass::Forward;
    LayerKind layer = LayerKind::Moe;
    bool shared_expert = false;  ///< expert phase: the shared experts' own operation
    auto operator<=>(const OperationKey&) const = default;
};

/// Work of that operation for one micro-batch and one of `plan.all_to_all.chunks` chunks on one
/// rank of stage `stage` (matters to dp_comm and optimizer only).
/// Source: docs/formulas.md; layouts as validatePlan accepts them.
/// Errors: none; the plan was validated.
[[nodiscard]] OperationWork operationWork(const Plan& plan, const OperationKey& key, StageId stage);

/// Share of the routed rows that reach the ep rank with most rows, times ep: 1 when balanced.
[[nodiscard]] double routingImbalance(const Plan& plan, LayerId layer);

}  // namespace piper
