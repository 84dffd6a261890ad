// SPDX-License-Identifier: Apache-2.0
#include "core/run/timeline.h"

#include <gtest/gtest.h>

#include "core/run/rank_clock.h"
#include "core/run/sub_lanes.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using test::event;

Run runOf(std::vector<Event> events, std::int64_t offset = 0) {
    Run run;
    RankTimeline rank;
    rank.rank = RankId(3);
    rank.offset_ns = offset;
    rank.events = std::move(events);
    run.ranks.push_back(std::move(rank));
    return run;
}

std::int64_t countOf(const TimelineView& view) {
    std::int64_t count = 0;
    for (const TimelineBlock& b : view.blocks) count += b.count;
    return count;
}

TEST(RunTimeline, RowsAreLanesAndOverlapsGetSubLanes) {
    const auto source = makeRunTimeline(
        runOf({event(0, 100), event(50, 100), event(150, 10), event(0, 40, Lane::Ep)}));
    EXPECT_EQ(*dumpTimeline(*source),
              "rank 3 | compute | 2 events | 110 ns busy\n"
              "rank 3 | compute 2 | 1 events | 100 ns busy\n"
              "rank 3 | ep | 1 events | 40 ns busy\n");
}

TEST(RunTimeline, ClockOffsetAndDriftOfARankAreApplied) {
    piper::Run run = runOf({event(10, 5)}, 1000);
    EXPECT_EQ(makeRunTimeline(run)->extent(), (TimeWindow{1010, 1015}));
    run.ranks[0].clock = {{0, 500, 1}, {1'000'000'000, 100'500, 1}};
    run.ranks[0].events = {event(500'000'000, 5)};
    EXPECT_EQ(makeRunTimeline(run)->extent().begin_ns, 500'050'500);
}

TEST(RankClock, OwnTimesComeBackFromCommonOnes) {
    RankTimeline rank;
    rank.clock = {{0, -7'000'000'000, 3}, {4'000'000'000, -6'999'000'000, 3}};
    const RankClock clock(rank);
    ASSERT_NE(clock.fit().drift, 0.0);
    for (std::int64_t own = -3'000'000'000; own < 9'000'000'000; own += 333'333'333)
        EXPECT_LE(std::abs(clock.toOwn(clock.toCommon(own)) - own), 1) << own;
}

TEST(RunTimeline, MergingDropsNoEventAtAnyZoom) {
    std::vector<Event> events;
    for (std::int64_t i = 0; i < 20'000; ++i)
        events.push_back(
            event(i * 50, i % 97 == 0 ? 45 : 1 + i % 7, Lane::Compute, static_cast<Phase>(i % 12)));
    const auto source = makeRunTimeline(runOf(std::move(events)));
    for (const std::int64_t pixel : {0, 1, 10, 100, 1'000, 100'000, 10'000'000}) {
        const auto view = source->view(source->extent(), pixel);
        ASSERT_TRUE(view.ok());
        EXPECT_EQ(countOf(*view), 20'000) << "pixel " << pixel;
        EXPECT_LE(std::ssize(view->blocks),
                  3 * (source->extent().length() / std::max<std::int64_t>(1, pixel) + 2));
    }
}

TEST(RunTimeline, ALongEventIsNotMergedIntoItsNeighbours) {
    const auto source =
        makeRunTimeline(runOf({event(0, 1), event(2, 1),
                               event(4, 1000, Lane::Compute, Phase::Attention), event(1005, 1)}));
    const auto view = source->view(source->extent(), 64);
    ASSERT_EQ(view->row(0).size(), 3U);
    EXPECT_EQ(view->row(0)[0].count, 2);
    EXPECT_EQ(view->row(0)[1].label.phase, Phase::Attention);
    EXPECT_EQ(view->row(0)[1].end_ns - view->row(0)[1].begin_ns, 1000);
}

TEST(RunTimeline, OnlyTheVisibleSpanIsShown) {
    std::vector<Event> events;
    for (std::int64_t i = 0; i < 1000; ++i) events.push_back(event(i * 10, 10));
    const auto source = makeRunTimeline(runOf(std::move(events)));
    EXPECT_EQ(countOf(*source->view({5'001, 5'049}, 1)), 5);
    const std::size_t rows[] = {0};
    const auto totals = source->totals({5'001, 5'049}, rows);
    ASSERT_EQ(totals->size(), 1U);
    EXPECT_EQ(totals->front().name, "expert forward");
    EXPECT_EQ(totals->front().count, 5);
    EXPECT_EQ(totals->front().sum_ns, 48);
    EXPECT_EQ(totals->front().longest_ns, 10);
}

TEST(RunTimeline, AnEmptyRunHasAnExtentAndAStep) {
    const auto source = makeRunTimeline(piper::Run{});
    EXPECT_TRUE(source->rows().empty());
    EXPECT_GT(source->extent().length(), 0);
    EXPECT_EQ(source->steps().size(), 1U);
}

TEST(SubLanes, NestedRangesTakeOneRowADepthAndMarksTheirOwn) {
    RankTimeline rank;
    rank.events = {event(0, 100), event(0, 10), event(5, 3), event(10, 5),
                   event(100, 1), event(-9, 2), event(-5, 1)};
    rank.events.push_back(event(7, 0));
    rank.events.back().category = EventCategory::Instant;
    assignSubLanes(rank);
    std::vector<int> rows;
    for (const Event& e : rank.events) rows.push_back(e.sub_lane);
    EXPECT_EQ(rows, (std::vector<int>{0, 1, 2, 1, 0, 0, 0, kMarkRow}));
}

TEST(LabelText, IsTheNameOrWhatThePlanCallsIt) {
    RankTimeline rank;
    rank.names = {"void gemm()"};
    EXPECT_EQ(labelText({0, EventCategory::Kernel, {}, {}, {}}, rank), "void gemm()");
    EXPECT_EQ(labelText({7, EventCategory::Kernel, {}, {}, {}}, rank), "kernel");
    EXPECT_EQ(labelText({-1, EventCategory::Operation, Phase::Dispatch, OperationKind::Dispatch,
                         Pass::Backward},
                        rank),
              "dispatch backward");
    EXPECT_EQ(labelText({-1, EventCategory::Operation, Phase::Optimizer, OperationKind::Optimizer,
                         Pass::Forward},
                        rank),
              "optimizer");
}

}  // namespace
}  // namespace piper
