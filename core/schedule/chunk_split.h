// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/plan/pipeline_shape.h"
#include "core/schedule/stage_split.h"

namespace piper {

// Concept: with several model chunks a rank (interleaved, V, both ways) the loads of a rank add up
// over pieces of the model that do not touch. What couples the ranks is only the number of layers:
// behind the leading layers all are alike (or repeat a short pattern), so a rank's pieces are
// counts, and the most layers that every rank takes under a bound of time decides whether the bound
// can be kept. Bisection over the bound is exact; how the leading layers fall on the first pieces
// is tried out.

struct ChunkSplitProblem {
    PipelineShape shape;
    std::vector<SplitPiece> layers;  ///< model order
    SplitPiece embedding, head;      ///< of the first and last position; never recomputed
    /// [rank][moment][chunk]: micro-batches held by chunk at the moments with most of them.
    std::vector<std::vector<std::vector<std::int64_t>>> in_flight;
    Bytes capacity;  ///< of one rank, for what is counted here
    /// Recomputed layers of every chunk that may be tried: the first n, as a plan says it.
    std::int64_t least_recompute = 0, most_recompute = 0;
};

struct ChunkSplit {
    std::vector<std::int64_t> stage_layers;  ///< [positions], what Plan::stage_layers holds
    std::int64_t recompute_layers = 0;       ///< first so many of every chunk
    std::vector<Seconds> rank_time;          ///< [pp], of one micro-batch
    std::vector<Seconds> chunk_time;         ///< [positions]
    std::vector<Bytes> memory;               ///< [pp], at the peak
    [[nodiscard]] Seconds slowestRank() const;
    [[nodiscard]] Seconds slowestChunk() const;
};

/// Times and memory of one split.
[[nodiscard]] ChunkSplit evaluateSplit(const ChunkSplitProblem& problem,
                                       const std::vector<std::int64_t>& stage_layers,
                                       std::int64_t recompute_layers);

/// Of all splits that fit, with at least one layer a chunk, the one whose slowest rank is the
/// fastest, of those the least slowest chunk, of those the fewest recomputed layers. Where layers
/// repeat a pattern of several kinds cuts fall between whole patterns. Errors: RuleBroken when
/// nothing fits; InvalidInput for fewer layers than chunks; Unsupported for layers without a
/// pattern.
[[nodiscard]] Result<ChunkSplit> splitChunks(const ChunkSplitProblem& problem);

/// The pieces of a plan under its cost model (splitProblem) with the chunks of its schedule.
[[nodiscard]] Result<ChunkSplitProblem> chunkSplitProblem(const Plan& plan);

/// A plan with its best uneven split, and where its layers have to be recomputed to fit.
struct BalancedPlan {
    Plan plan;         ///< stage_layers, and recompute (block) where nothing fits without
    ChunkSplit split;  ///< of plan
};
/// Errors: those of splitChunks; RuleBroken for a plan that breaks its framework's rules.
[[nodiscard]] Result<BalancedPlan> balancedPlan(const Plan& plan);

}  // namespace piper
