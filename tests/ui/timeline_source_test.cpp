// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_source.h"

#include <gtest/gtest.h>

#include "ui/timeline/timeline_viewport.h"

namespace piper::ui {
namespace {

Event event(std::int64_t start, std::int64_t duration, Lane lane = Lane::Compute,
            Phase phase = Phase::Expert) {
    Event e;
    e.start_ns = start;
    e.duration_ns = duration;
    e.lane = lane;
    e.phase = phase;
    return e;
}

piper::Run runOf(std::vector<Event> events, std::int64_t offset = 0) {
    piper::Run run;
    RankTimeline rank;
    rank.rank = RankId(3);
    rank.stage = StageId(1);
    rank.offset_ns = offset;
    rank.events = std::move(events);
    run.ranks.push_back(std::move(rank));
    return run;
}

struct Drawn {
    std::int64_t blocks = 0, events = 0;
};

Drawn drawAll(const TimelineSource& source, TimelineSpan span, std::int64_t merge) {
    Drawn out;
    for (std::size_t row = 0; row < source.rows().size(); ++row)
        source.visit(row, span, merge, [&](const TimelineBlock& b) {
            ++out.blocks;
            out.events += b.count;
        });
    return out;
}

TEST(TimelineSource, RowsAreLanesAndOverlapsGetSubLanes) {
    const auto source = makeRunTimelineSource(
        runOf({event(0, 100), event(50, 100), event(150, 10), event(0, 40, Lane::Ep)}));
    EXPECT_EQ(dumpTimeline(*source),
              "rank 3 · stage 1 | compute | 2 events | 110 ns busy\n"
              "rank 3 · stage 1 | compute 2 | 1 events | 100 ns busy\n"
              "rank 3 · stage 1 | ep | 1 events | 40 ns busy\n");
}

TEST(TimelineSource, TheOffsetOfARankIsApplied) {
    const auto source = makeRunTimelineSource(runOf({event(10, 5)}, 1000));
    EXPECT_EQ(source->extent().begin_ns, 1010);
    EXPECT_EQ(source->event(0, 0).start_ns, 1010);
    EXPECT_EQ(source->steps().front().end_ns, 1015);
}

TEST(TimelineSource, MergingDropsNoEventAtAnyZoom) {
    std::vector<Event> events;
    for (std::int64_t i = 0; i < 20'000; ++i)
        events.push_back(
            event(i * 50, i % 97 == 0 ? 45 : 1 + i % 7, Lane::Compute, static_cast<Phase>(i % 12)));
    const auto source = makeRunTimelineSource(runOf(std::move(events)));
    for (const std::int64_t merge : {0, 1, 10, 100, 1'000, 100'000, 10'000'000}) {
        const Drawn drawn = drawAll(*source, source->extent(), merge);
        EXPECT_EQ(drawn.events, 20'000) << "merge " << merge;
        EXPECT_LE(drawn.blocks, merge == 1'000 ? 1'100 : 20'000);
    }
}

TEST(TimelineSource, ALongEventIsNotMergedIntoItsNeighbours) {
    const auto source = makeRunTimelineSource(
        runOf({event(0, 1), event(2, 1), event(4, 1000, Lane::Compute, Phase::Attention),
               event(1005, 1)}));
    std::vector<TimelineBlock> blocks;
    source->visit(0, source->extent(), 100, [&](const TimelineBlock& b) { blocks.push_back(b); });
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(blocks[0].count, 2);
    EXPECT_EQ(blocks[1].count, 1);
    EXPECT_EQ(blocks[1].phase, Phase::Attention);
    EXPECT_EQ(blocks[1].end_ns - blocks[1].begin_ns, 1000);
}

TEST(TimelineSource, OnlyTheVisibleSpanIsVisited) {
    std::vector<Event> events;
    for (std::int64_t i = 0; i < 1000; ++i) events.push_back(event(i * 10, 10));
    const auto source = makeRunTimelineSource(runOf(std::move(events)));
    const Drawn drawn = drawAll(*source, {5'001, 5'049}, 0);
    EXPECT_EQ(drawn.events, 5);
}

TEST(TimelineSource, AnEmptyRunHasAnExtentAndAStep) {
    const auto source = makeRunTimelineSource(piper::Run{});
    EXPECT_TRUE(source->rows().empty());
    EXPECT_GT(source->extent().length(), 0);
    EXPECT_EQ(source->steps().size(), 1U);
}

TEST(DescribeEvent, NamesOperationPlaceTimesBytesAndFlops) {
    Event e = event(1'500'000, 2'000'000, Lane::Ep, Phase::Dispatch);
    e.kind = OperationKind::Dispatch;
    e.pass = Pass::Backward;
    e.step = 4;
    e.layer = LayerId(7);
    e.micro_batch = MicroBatchId(2);
    e.bytes = 4'000'000;
    e.flops = 8e9;
    const std::vector<std::string> lines = describeEvent(e);
    ASSERT_EQ(lines.size(), 6U);
    EXPECT_EQ(lines[0], "dispatch backward");
    EXPECT_EQ(lines[1], "step 4 · layer 7 · micro-batch 2");
    EXPECT_EQ(lines[3], "start 1.50 ms · duration 2.00 ms");
    EXPECT_EQ(lines[4], "3.81 MiB · 2.00 GB/s");
    EXPECT_EQ(lines[5], "8.00 GFLOP · 4.00 TFLOP/s");
}

TEST(TimelineViewport, ZoomKeepsTheTimeUnderThePointer) {
    TimelineViewport view;
    view.setBounds(1e9);
    view.fit();
    const double before = view.toNs(0.3);
    view.zoom(0.1, 0.3);
    EXPECT_NEAR(view.toNs(0.3), before, 1.0);
    EXPECT_NEAR(view.span(), 1.02e8, 1.0);
}

TEST(TimelineViewport, NeverLosesTheRun) {
    TimelineViewport view;
    view.setBounds(1e6);
    view.fit();
    for (int i = 0; i < 200; ++i) view.pan(1.0);
    EXPECT_LT(view.begin(), 1e6);
    for (int i = 0; i < 400; ++i) view.pan(-1.0);
    EXPECT_GT(view.begin() + view.span(), 0.0);
    for (int i = 0; i < 500; ++i) view.zoom(0.5, 0.5);
    EXPECT_GE(view.span(), 100.0);
    for (int i = 0; i < 500; ++i) view.zoom(2.0, 0.5);
    EXPECT_LE(view.span(), 1.2e6 + 1);
}

TEST(MarkDistance, IsRoundAndNotTooDense) {
    EXPECT_DOUBLE_EQ(markDistance(1000.0, 10), 100.0);
    EXPECT_DOUBLE_EQ(markDistance(1100.0, 10), 200.0);
    EXPECT_DOUBLE_EQ(markDistance(4.1e6, 10), 5e5);
}

}  // namespace
}  // namespace piper::ui
