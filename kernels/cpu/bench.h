// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/cluster/cluster.h"

namespace piper {

/// Quick: the shapes of the small example model, a second or two. Full: sizes to a thousand rows
/// and two thousand tokens, under half a minute on one core.
enum class BenchEffort { Quick, Full };

/// What one rank of this processor reaches with the worker's own operations. Each point is checked
/// against the scalar reference before it is timed; times are the median processor time of
/// repetitions after a warm-up, on buffers whose pages are already there.
/// Errors: External when a checked result is wrong (names operation and shape) or memory is short.

/// Plain products (groups 1) from skinny to square, and grouped ones as experts see them.
[[nodiscard]] Result<std::vector<GemmPoint>> benchGemm(BenchEffort effort);
/// Causal attention by length, forward and backward; rates in causal-half FLOPs (backward counts
/// twice forward, as WorkCounter does).
[[nodiscard]] Result<std::vector<AttentionPoint>> benchAttention(BenchEffort effort);
/// Copies, read and written bytes together, from cache to main memory.
[[nodiscard]] Result<std::vector<MemoryPoint>> benchMemory(BenchEffort effort);
/// "norm", "router", "permute", "combine", "activation", "head_loss", "embedding", "optimizer" by
/// the bytes their operands have (as WorkCounter counts them).
[[nodiscard]] Result<std::vector<OverheadPoint>> benchOverheads(BenchEffort effort);

/// All four, in curves without collectives; `host` and `measured_at` are the caller's to fill.
[[nodiscard]] Result<MeasuredCurves> benchDevice(BenchEffort effort);

enum class ExpertPass { Forward, InputGrad, WeightGrad };
/// Packed: a matmul primitive a group over weights in oneDNN's own layout, packed ahead of time
/// (the weights' gradient has none: its operands change). Loop: dnnl_sgemm a group, weights as they
/// lie. Products alone, without the activation between them.
enum class ExpertPeer { Packed, Loop };
[[nodiscard]] constexpr std::string_view toText(ExpertPass pass) {
    return pass == ExpertPass::Forward     ? "forward"
           : pass == ExpertPass::InputGrad ? "input_grad"
                                           : "weight_grad";
}
[[nodiscard]] constexpr std::string_view toText(ExpertPeer peer) {
    return peer == ExpertPeer::Packed ? "packed" : "loop";
}

/// SwiGLU experts: up [2 ffn, hidden] and down [hidden, ffn] each.
struct ExpertShape {
    std::int64_t num_experts = 8, hidden = 1024, ffn = 512;
};

/// One pass of all experts beside a peer, in seconds of processor time a call, pair by pair.
struct ExpertPairs {
    std::int64_t tokens = 0;  ///< of each expert
    ExpertPass pass = ExpertPass::Forward;
    ExpertPeer peer = ExpertPeer::Packed;
    double flops = 0.0;
    std::vector<double> own, peer_seconds,
        again;  ///< again: the own pass once more, after the peer
};

/// The expert phase of a training step, activation included, beside oneDNN's own products of the
/// same shapes and precision (f32), in interleaved pairs. Results are checked against the peers'
/// and the reference before the first timing. Errors: External when a result is wrong or oneDNN
/// fails.
[[nodiscard]] Result<std::vector<ExpertPairs>> benchExperts(const ExpertShape& shape,
                                                            const std::vector<std::int64_t>& tokens,
                                                            std::int64_t pairs);

/// FLOP/s of the fastest of `times` products of size^3. Errors: as above.
[[nodiscard]] Result<double> bestSquareRate(std::int64_t size, std::int64_t times);

}  // namespace piper
