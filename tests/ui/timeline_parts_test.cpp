// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include "tests/support/synthetic_run.h"
#include "ui/timeline/describe_event.h"
#include "ui/timeline/row_layout.h"
#include "ui/timeline/timeline_viewport.h"

namespace piper::ui {
namespace {

using piper::test::event;

TEST(RowLayout, RanksFoldAndRowsArePinned) {
    piper::Run run;
    for (int r = 0; r < 2; ++r) {
        run.ranks.emplace_back();
        run.ranks.back().rank = RankId(r);
        run.ranks.back().events = {event(0, 10), event(0, 5, Lane::Ep)};
    }
    const auto source = makeRunTimeline(run);
    RowLayout layout;
    layout.setRows(source->rows());
    layout.togglePin(3);
    layout.toggleFold(0);
    EXPECT_EQ(layout.dump(*source),
              "pinned rank 1: ep\nfolded rank 0: compute ep\nrank 1: compute\nrank 1: ep\n");
    layout.setRows(source->rows());  // the same run again keeps it
    layout.toggleAll();
    EXPECT_EQ(layout.dump(*source),
              "pinned rank 1: ep\nfolded rank 0: compute ep\nfolded rank 1: compute ep\n");
    layout.togglePin(3);
    layout.toggleAll();
    EXPECT_EQ(layout.strips().size(), 4U);
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
    const std::vector<std::string> lines = describeEvent(e, RankTimeline());
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

TEST(TimelineViewport, UndoGoesBackOneStepForManySmallOnes) {
    TimelineViewport view;
    view.setBounds(1e9);
    view.fit();
    const double all = view.span();
    EXPECT_FALSE(view.undo());
    for (int i = 0; i < 3; ++i) {
        view.remember();
        view.zoom(0.9, 0.5);
    }
    view.remember();
    view.zoom(0.1, 0.5);
    const double near = view.span();
    view.remember();
    view.zoom(0.01, 0.5);
    EXPECT_TRUE(view.undo());
    EXPECT_DOUBLE_EQ(view.span(), near);
    EXPECT_TRUE(view.undo());
    EXPECT_DOUBLE_EQ(view.span(), all);
    EXPECT_FALSE(view.undo());
}

TEST(MarkDistance, IsRoundAndNotTooDense) {
    EXPECT_DOUBLE_EQ(markDistance(1000.0, 10), 100.0);
    EXPECT_DOUBLE_EQ(markDistance(1100.0, 10), 200.0);
    EXPECT_DOUBLE_EQ(markDistance(4.1e6, 10), 5e5);
}

}  // namespace
}  // namespace piper::ui
