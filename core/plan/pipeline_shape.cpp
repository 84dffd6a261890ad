// SPDX-License-Identifier: Apache-2.0
#include "core/plan/pipeline_shape.h"

#include <algorithm>

namespace piper {
namespace {

/// The seat of a position, of the direction `like` travels in.
ChunkSeat seatAt(const PipelineShape& shape, std::int64_t position, ModelChunkId like) {
    const std::int64_t pp = shape.pp;
    const auto seat = [](std::int64_t stage, std::int64_t chunk) {
        return ChunkSeat{StageId(static_cast<std::int32_t>(stage)),
                         ModelChunkId(static_cast<std::int32_t>(chunk))};
    };
    switch (placementOf(shape.kind)) {
        case ChunkPlacement::V:
            return position < pp ? seat(position, 0) : seat(2 * pp - 1 - position, 1);
        case ChunkPlacement::Bidirectional:
            return like.value == 0 ? seat(position, 0) : seat(pp - 1 - position, 1);
        case ChunkPlacement::Loop:
            break;
    }
    return seat(position % pp, position / pp);
}

bool holdsPosition(const PipelineShape& shape, StageId stage, std::int64_t position) {
    for (std::int32_t c = 0; c < shape.chunks(); ++c)
        if (positionOf(shape, {stage, ModelChunkId(c)}) == position) return true;
    return false;
}

}  // namespace

ChunkPlacement placementOf(ScheduleKind kind) {
    switch (kind) {
        case ScheduleKind::ZbV:
        case ScheduleKind::DualPipeV:
            return ChunkPlacement::V;
        case ScheduleKind::DualPipe:
            return ChunkPlacement::Bidirectional;
        default:
            return ChunkPlacement::Loop;
    }
}

bool splitsBackward(ScheduleKind kind) {
    return kind != ScheduleKind::GPipe && kind != ScheduleKind::OneF1B &&
           kind != ScheduleKind::InterleavedOneF1B;
}

bool pairsSlots(ScheduleKind kind) {
    return kind == ScheduleKind::DualPipe || kind == ScheduleKind::DualPipeV;
}

PipelineShape pipelineShape(const Plan& plan) {
    return {plan.schedule, plan.layout.pp, plan.layout.vpp, plan.numMicroBatches()};
}

std::int64_t positionOf(const PipelineShape& shape, const ChunkSeat& seat) {
    const std::int64_t s = seat.stage.value, c = seat.chunk.value;
    switch (placementOf(shape.kind)) {
        case ChunkPlacement::V:
            return c == 0 ? s : 2 * shape.pp - 1 - s;
        case ChunkPlacement::Bidirectional:
            return c == 0 ? s : shape.pp - 1 - s;
        case ChunkPlacement::Loop:
            break;
    }
    return c * shape.pp + s;
}

std::optional<ChunkSeat> seatAfter(const PipelineShape& shape, const ChunkSeat& seat) {
    const std::int64_t position = positionOf(shape, seat) + 1;
    if (position >= shape.positions()) return std::nullopt;
    return seatAt(shape, position, seat.chunk);
}

std::optional<ChunkSeat> seatBefore(const PipelineShape& shape, const ChunkSeat& seat) {
    const std::int64_t position = positionOf(shape, seat) - 1;
    if (position < 0) return std::nullopt;
    return seatAt(shape, position, seat.chunk);
}

bool holdsEmbedding(const PipelineShape& shape, StageId stage) {
    return holdsPosition(shape, stage, 0);
}

bool holdsHead(const PipelineShape& shape, StageId stage) {
    return holdsPosition(shape, stage, shape.positions() - 1);
}

MicroBatchRange microBatchesOf(const PipelineShape& shape, ModelChunkId chunk) {
    const std::int64_t m = shape.num_microbatches;
    if (placementOf(shape.kind) != ChunkPlacement::Bidirectional) return {0, m};
    return chunk.value == 0 ? MicroBatchRange{0, m / 2} : MicroBatchRange{m / 2, m};
}

std::int64_t inFlightUntilInputGrad(const PipelineShape& shape, StageId stage) {
    const std::int64_t m = std::max<std::int64_t>(1, shape.num_microbatches);
    const std::int64_t left = shape.pp - stage.value;
    if (shape.kind == ScheduleKind::ZbH1) return std::min(m, left);
    if (shape.kind == ScheduleKind::ZbH2) return std::min(m, 2 * left - 1);
    return inFlightBound(shape, stage);
}

std::int64_t inFlightBound(const PipelineShape& shape, StageId stage) {
    const std::int64_t m = std::max<std::int64_t>(1, shape.num_microbatches);
    const std::int64_t pp = shape.pp, vpp = shape.vpp, left = pp - stage.value;
    switch (shape.kind) {
        case ScheduleKind::GPipe:
            return m * vpp;
        case ScheduleKind::OneF1B:
            return std::min(m, left);
        case ScheduleKind::InterleavedOneF1B:
            if (vpp <= 1) return std::min(m, 2 * left - 1);
            return std::min(m * vpp, 2 * (left - 1) + (vpp - 1) * pp + 1);
        case ScheduleKind::ZbH1:
            return std::min(m, pp);
        case ScheduleKind::ZbH2:
            return std::min(m, 2 * pp - 1);
        case ScheduleKind::ZbV:
            return std::min(2 * m, 2 * pp);
        case ScheduleKind::DualPipe:
            return std::min(m, pp + 1);
        case ScheduleKind::DualPipeV:
            return std::min(2 * m, 2 * pp + 1);
    }
    return m;
}

}  // namespace piper
