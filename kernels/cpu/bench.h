// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

}  // namespace piper
