// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/plan.h"

namespace piper {

// Concept: a schedule kind says where the pieces of the model lie. A piece is one of pp * vpp
// *positions* in model order (of pp for DualPipe); a rank seats one or several as *model chunks*.
//   Loop            chunk v of rank s is position v * pp + s               (1F1B, interleaved,
//   ZB-H) V               chunk 0 goes down the ranks, chunk 1 back up           (ZB-V, DualPipe-V)
//   Bidirectional   two whole models against each other: chunk 0 of rank s is position s of the
//                   first, chunk 1 position pp - 1 - s of the second; half of the micro-batches
//                   each. Every weight is held twice over the pipeline.    (DualPipe)

enum class ChunkPlacement { Loop, V, Bidirectional };

[[nodiscard]] ChunkPlacement placementOf(ScheduleKind kind);
/// Input and weight gradients in slots of their own.
[[nodiscard]] bool splitsBackward(ScheduleKind kind);
/// A forward and a backward slot run together, either computing while the other exchanges.
[[nodiscard]] bool pairsSlots(ScheduleKind kind);

/// What a slot table is made from, times aside.
struct PipelineShape {
    ScheduleKind kind = ScheduleKind::OneF1B;
    std::int64_t pp = 1, vpp = 1, num_microbatches = 1;
    auto operator<=>(const PipelineShape&) const = default;

    /// Model chunks a rank seats: vpp, and 2 of DualPipe.
    [[nodiscard]] std::int64_t chunks() const {
        return placementOf(kind) == ChunkPlacement::Bidirectional ? 2 : vpp;
    }
    /// Pieces the model is cut into.
    [[nodiscard]] std::int64_t positions() const { return pp * vpp; }
    /// Ranks of one pipeline that hold the same weights.
    [[nodiscard]] std::int64_t modelCopies() const {
        return placementOf(kind) == ChunkPlacement::Bidirectional ? 2 : 1;
    }
};
[[nodiscard]] PipelineShape pipelineShape(const Plan& plan);

struct ChunkSeat {
    StageId stage;
    ModelChunkId chunk;
    bool operator==(const ChunkSeat&) const = default;
};

/// 0 .. positions() - 1, in model order.
[[nodiscard]] std::int64_t positionOf(const PipelineShape& shape, const ChunkSeat& seat);
/// Who works on the same micro-batch after (before) that seat; may be another chunk of its rank.
[[nodiscard]] std::optional<ChunkSeat> seatAfter(const PipelineShape& shape, const ChunkSeat& seat);
[[nodiscard]] std::optional<ChunkSeat> seatBefore(const PipelineShape& shape,
                                                  const ChunkSeat& seat);

/// Embedding (position 0) and head (last position): on rank 0 and pp - 1 in a loop, both on rank 0
/// in a V, both on either end of a bidirectional pipeline.
[[nodiscard]] bool holdsEmbedding(const PipelineShape& shape, StageId stage);
[[nodiscard]] bool holdsHead(const PipelineShape& shape, StageId stage);

/// Micro-batches that pass a chunk: all, or the half of its direction.
struct MicroBatchRange {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] std::int64_t size() const { return end - begin; }
};
[[nodiscard]] MicroBatchRange microBatchesOf(const PipelineShape& shape, ModelChunkId chunk);

/// Most micro-batch chunks whose activations a stage holds at once, from the start of a forward to
/// the end of its weight gradient: what memory is planned with and what every slot table is held
/// to. Exact for tables made with equal times, but for zb_v below 2 pp micro-batches.
/// Sources: arXiv 2104.04473 (1F1B, interleaved), 2401.10241 (ZB: every stage as the first one),
/// 2412.19437 (DualPipe: pp + 1). docs/formulas.md, "Schedules".
[[nodiscard]] std::int64_t inFlightBound(const PipelineShape& shape, StageId stage);
/// Of those, the ones whose input gradient is still to come: what keeps all of its activations. In
/// zb_h1 and zb_h2 a stage's other micro-batches keep only what their weight gradients read.
[[nodiscard]] std::int64_t inFlightUntilInputGrad(const PipelineShape& shape, StageId stage);

}  // namespace piper
