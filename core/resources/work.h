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
    bool accumulates = false;  ///< a weight gradient: C is read and written as gradients are kept
    [[nodiscard]] Flops flops() const {
        return Flops(2.0 * static_cast<double>(groups) * static_cast<double>(m) *
                     static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(count));
    }
};

/// FLOPs of the fused attention core of `batch` sequences over a context of half of seq_len per
/// token: QK^T and PV are 2 (qk + v) heads * batch * seq_len * seq_len / 2 together; the backward
/// pass is twice that (dQ, dK, dV, dP; the scores recomputed inside the fused kernel not counted).
/// A sliding window w < seq_len makes the mean context w - w^2 / (2 seq_len).
/// The worker counts with this function from the arguments of each call.
[[nodiscard]] constexpr Flops causalAttentionFlops(std::int64_t batch, std::int64_t heads,
                                                   std::int64_t seq_len, std::int64_t qk_head_dim,
                                                   std::int64_t v_head_dim, bool backward,
                                                   std::int64_t sliding_window = 0) {
    const double s = static_cast<double>(seq_len);
    const double w = static_cast<double>(sliding_window);
    const double context = sliding_window > 0 && w < s ? w - w * w / (2.0 * s) : s / 2.0;
    const double forward = 2.0 * static_cast<double>(qk_head_dim + v_head_dim) *
                           static_cast<double>(heads) * static_cast<double>(batch) * s * context;
    return Flops(backward ? 2.0 * forward : forward);
}

/// Causal attention of `batch` sequences; FLOPs as causalAttentionFlops counts them.
struct AttentionWork {
    std::int64_t batch = 1, heads = 1, seq_len = 1, qk_head_dim = 1, v_head_dim = 1;
    bool backward = false;
    Flops flops;
    bool fused = true;  ///< false: two batched GEMMs with the scores written between them
};

/// One collective or message of one rank.
struct CommunicationWork {
    CollectiveKind kind = CollectiveKind::AllToAll;
    std::string dimension;  ///< group: "ep", "tp", "cp", "dp", "edp", "pp"
    std::int64_t group_size = 1;
    /// Payload this rank hands to the transport for other ranks, of all `calls` together, mean over
    /// ranks; what the worker's transport counts. Of a buffer B (of an all-gather the gathered one)
    /// over a group of g: all-gather and reduce-scatter (g - 1) / g B, all-reduce twice that.
    /// All-to-all: every hop of the plan's algorithm counts, a token's row that goes once for
    /// several experts once (exchange.h).
    Bytes bytes;
    /// AllToAll: of `bytes` to ranks of other nodes.
    Bytes between_nodes;
    /// AllToAll: the bytes of a flat exchange of the same rows, which curves are measured over.
    Bytes flat_bytes;
    /// `bytes` (AllToAll: flat_bytes) on the hottest rank under the plan's routing load.
    Bytes hottest_bytes;
    std::int64_t messages = 0;
    std::int64_t calls = 1;  ///< the bytes are split evenly over this many calls
    bool combine = false;    ///< AllToAll: rows go back to where their tokens came from
};

/// What one operation of a schedule is made of; the cost model turns it into seconds.
struct OperationWork {
    OperationKind kind = OperationKind::Forward;
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

/// Keys by phase and kind:
/// - embedding, attention, router, expert, head_loss: Forward, InputGrad, WeightGrad, Recompute;
///   `layer` Dense makes expert the dense MLP, `shared_expert` the shared experts.
/// - dispatch, combine: kinds Dispatch and Combine with a pass.
/// - tp_comm, cp_comm: kinds AllReduce, AllGather, ReduceScatter with a pass: all calls of one
/// layer.
/// - pp_comm: Send, Receive.
/// - dp_comm: AllReduce, ReduceScatter, AllGather once a step; `layer` Dense means the gradients of
///   the dense grid (group "dp", with cp), Moe those of the experts (group "edp").
/// - optimizer: Optimizer.
/// A key that a plan does not need (AllReduce under zero_stage 1) gives empty work.
///
/// Work of that operation for one micro-batch and one of `plan.all_to_all.chunks` chunks on one
/// rank of stage `stage` (matters to dp_comm and optimizer only).
/// Source: docs/formulas.md; layouts as validatePlan accepts them.
/// Errors: none; the plan was validated.
[[nodiscard]] OperationWork operationWork(const Plan& plan, const OperationKey& key, StageId stage);

/// Elements of the weights that one rank of a stage holds, before any ZeRO sharding.
/// dense: embedding, attention, norms, router, dense MLP, shared experts, head (over tp);
/// expert: its routed experts (over ep and etp).
struct StageParameters {
    double dense = 0.0;
    double expert = 0.0;
    double embedding = 0.0;  ///< part of dense: first stage
    double head = 0.0;       ///< part of dense: last stage; 0 where it is the embedding itself
};
[[nodiscard]] StageParameters stageParameters(const Plan& plan, StageId stage);

/// Bytes of one kept activation element: 4 for fp32 and tf32, else 2.
[[nodiscard]] Bytes activationElementBytes(Precision precision);

/// Bytes of training state per parameter (docs/formulas.md).
struct StateBytes {
    double weights = 0.0, gradients = 0.0, master = 0.0, optimizer = 0.0;
    double first_moment = 0.0;   ///< part of optimizer
    double quantized = 0.0;      ///< copies of a layer's weights in the GEMM's format
    double step_gradient = 0.0;  ///< fp32 copy of a rank's own gradients while the optimizer runs
    [[nodiscard]] double total() const { return weights + gradients + master + optimizer; }
};
/// Bytes an element that one optimizer step reads and writes: gradient, master (or weight) and
/// moments read, all but the gradient and the low-precision weight written.
[[nodiscard]] double optimizerStepBytes(const StateBytes& state);
/// Of AdamW with the framework's own precisions.
[[nodiscard]] StateBytes stateBytes(Framework framework, Precision precision);
/// Of the plan's optimizer, formats and fp8 weights; of the matrices of its layers.
[[nodiscard]] StateBytes stateBytes(const Plan& plan);
/// Of embedding and head, which stay in 16 bits and under AdamW.
[[nodiscard]] StateBytes endStateBytes(const Plan& plan);

/// Share of the routed rows that each ep rank receives under the plan's routing load and expert
/// placement: [ep], sums to 1. Zipf: expert e (in index order) gets (e + 1)^-exponent, no expert
/// more than 1 / router_topk (a token picks distinct experts; what is over goes to the others).
[[nodiscard]] std::vector<double> routedShares(const Plan& plan, LayerId layer);

/// Share of the routed rows that reach the ep rank with most rows, times ep: 1 when balanced.
[[nodiscard]] double routingImbalance(const Plan& plan, LayerId layer);

/// Rows over the mean of the ep rank that keeps most over all MoE layers of a stage: its memory.
/// (Time waits for the hottest rank of each layer instead, which may be another one each time.)
[[nodiscard]] double memoryImbalance(const Plan& plan, StageId stage);
/// The same of one exchange: what comes and goes with it.
[[nodiscard]] double exchangeImbalance(const Plan& plan, StageId stage);

}  // namespace piper
