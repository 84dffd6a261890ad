// SPDX-License-Identifier: Apache-2.0
#include "core/plan/pipeline_shape.h"

#include <gtest/gtest.h>

#include <set>

namespace piper {
namespace {

ChunkSeat seat(int stage, int chunk) {
    return {StageId(stage), ModelChunkId(chunk)};
}

/// Stages on the way of a micro-batch that starts at `from`.
std::vector<int> way(const PipelineShape& shape, ChunkSeat from) {
    std::vector<int> stages;
    for (std::optional<ChunkSeat> at = from; at; at = seatAfter(shape, *at))
        stages.push_back(at->stage.value);
    return stages;
}

TEST(PipelineShape, WaysOfTheThreePlacements) {
    EXPECT_EQ(way({ScheduleKind::InterleavedOneF1B, 3, 2, 3}, seat(0, 0)),
              (std::vector<int>{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(way({ScheduleKind::ZbV, 3, 2, 3}, seat(0, 0)), (std::vector<int>{0, 1, 2, 2, 1, 0}));
    const PipelineShape dual{ScheduleKind::DualPipe, 4, 1, 8};
    EXPECT_EQ(way(dual, seat(0, 0)), (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(way(dual, seat(3, 1)), (std::vector<int>{3, 2, 1, 0}));
}

TEST(PipelineShape, SeatsAndPositionsAreInverse) {
    for (const PipelineShape shape : {PipelineShape{ScheduleKind::OneF1B, 4, 1, 8},
                                      PipelineShape{ScheduleKind::InterleavedOneF1B, 4, 3, 8},
                                      PipelineShape{ScheduleKind::DualPipeV, 4, 2, 8},
                                      PipelineShape{ScheduleKind::DualPipe, 4, 1, 8}}) {
        std::multiset<std::int64_t> positions;
        for (int s = 0; s < shape.pp; ++s)
            for (int c = 0; c < shape.chunks(); ++c) {
                const ChunkSeat own = seat(s, c);
                positions.insert(positionOf(shape, own));
                if (const auto after = seatAfter(shape, own)) {
                    EXPECT_EQ(positionOf(shape, *after), positionOf(shape, own) + 1);
                    EXPECT_EQ(seatBefore(shape, *after), own);
                }
            }
        for (std::int64_t p = 0; p < shape.positions(); ++p)
            EXPECT_EQ(positions.count(p), static_cast<std::size_t>(shape.modelCopies()));
    }
}

TEST(PipelineShape, WhoHoldsTheEnds) {
    const auto ends = [](const PipelineShape& shape) {
        std::string text;
        for (int s = 0; s < shape.pp; ++s) {
            if (holdsEmbedding(shape, StageId(s))) text += fmt::format("E{} ", s);
            if (holdsHead(shape, StageId(s))) text += fmt::format("H{} ", s);
        }
        return text;
    };
    EXPECT_EQ(ends({ScheduleKind::OneF1B, 4, 1, 8}), "E0 H3 ");
    EXPECT_EQ(ends({ScheduleKind::ZbV, 4, 2, 8}), "E0 H0 ");
    EXPECT_EQ(ends({ScheduleKind::DualPipe, 4, 1, 8}), "E0 H0 E3 H3 ");
    EXPECT_EQ(ends({ScheduleKind::OneF1B, 1, 1, 8}), "E0 H0 ");
}

TEST(PipelineShape, HalfOfTheMicroBatchesInEitherDirection) {
    const PipelineShape dual{ScheduleKind::DualPipe, 4, 1, 10};
    EXPECT_EQ(microBatchesOf(dual, ModelChunkId(0)).end, 5);
    EXPECT_EQ(microBatchesOf(dual, ModelChunkId(1)).begin, 5);
    EXPECT_EQ(microBatchesOf(dual, ModelChunkId(1)).end, 10);
    EXPECT_EQ(microBatchesOf({ScheduleKind::ZbV, 4, 2, 10}, ModelChunkId(1)).size(), 10);
}

TEST(PipelineShape, BoundsOfThePapers) {
    const auto bounds = [](const PipelineShape& shape) {
        std::vector<std::int64_t> out;
        for (int s = 0; s < shape.pp; ++s) out.push_back(inFlightBound(shape, StageId(s)));
        return out;
    };
    using V = std::vector<std::int64_t>;
    EXPECT_EQ(bounds({ScheduleKind::GPipe, 4, 1, 9}), (V{9, 9, 9, 9}));
    EXPECT_EQ(bounds({ScheduleKind::OneF1B, 4, 1, 9}), (V{4, 3, 2, 1}));
    EXPECT_EQ(bounds({ScheduleKind::InterleavedOneF1B, 4, 2, 16}), (V{11, 9, 7, 5}));
    EXPECT_EQ(bounds({ScheduleKind::ZbH1, 4, 1, 9}), (V{4, 4, 4, 4}));
    EXPECT_EQ(bounds({ScheduleKind::ZbH2, 4, 1, 9}), (V{7, 7, 7, 7}));
    EXPECT_EQ(bounds({ScheduleKind::ZbV, 4, 2, 9}), (V{8, 8, 8, 8}));
    EXPECT_EQ(bounds({ScheduleKind::DualPipe, 4, 1, 8}), (V{5, 5, 5, 5}));
    EXPECT_EQ(bounds({ScheduleKind::DualPipeV, 4, 2, 8}), (V{9, 9, 9, 9}));
    EXPECT_EQ(bounds({ScheduleKind::OneF1B, 4, 1, 2}), (V{2, 2, 2, 1}));
}

}  // namespace
}  // namespace piper
