// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/schedule/schedule.h"

namespace piper {
namespace {

std::int64_t chunksOf(ScheduleKind kind) {
    return placementOf(kind) == ChunkPlacement::V ? 2 : 1;
}

SlotTiming timed(const PipelineShape& shape, const SlotTimes& times) {
    const Result<SlotTable> slots = makeSlots(shape);
    EXPECT_TRUE(slots.ok());
    Result<SlotTiming> timing = timeSlots(*slots, shape, times);
    EXPECT_TRUE(timing.ok());
    return std::move(timing).value();
}

std::int64_t work(const PipelineShape& shape, const SeatTimes& t) {
    return shape.num_microbatches * (t.forward_ns + t.input_grad_ns + t.weight_grad_ns) * shape.vpp;
}

/// What the longest rank spends beyond its own slots.
std::int64_t lost(const PipelineShape& shape, const SlotTimes& times) {
    const bool span = shape.kind == ScheduleKind::ZbH2 || shape.kind == ScheduleKind::ZbV;
    const SlotTiming timing = timed(shape, times);
    return (span ? timing.longestSpan() : timing.makespan()) - work(shape, times.seats.front());
}

TEST(Bubble, EveryPapersClosedFormWithEqualTimes) {
    for (const ScheduleKind kind : generatedSchedules())
        for (const std::int64_t pp : {2, 4, 8, 16})
            for (const std::int64_t m : {2 * pp, 4 * pp}) {
                PipelineShape shape{kind, pp, chunksOf(kind), m};
                if (kind == ScheduleKind::InterleavedOneF1B) shape.vpp = 3;
                const SlotTimes times = SlotTimes::equal(shape);
                EXPECT_EQ(lost(shape, times), closedFormBubbleNs(shape, times))
                    << toText(kind) << " pp " << pp << " micro-batches " << m;
            }
}

TEST(Bubble, ThePapersOwnNumbers) {
    const auto bubble = [](ScheduleKind kind, std::int64_t vpp) {
        const PipelineShape shape{kind, 8, vpp, 32};
        return lost(shape, SlotTimes::equal(shape));
    };
    // In units of F = I = W = 1 at pp 8: (p-1)(F+B), a third of it for H1, none for H2 and V;
    // a chunk of interleaved is one of vpp, so its 21 are 7 of a whole stage; DualPipe
    // (8/2 - 1)(3 + 2 - 3), its folded form with twice the stages.
    EXPECT_EQ(bubble(ScheduleKind::GPipe, 1), 21);
    EXPECT_EQ(bubble(ScheduleKind::OneF1B, 1), 21);
    EXPECT_EQ(bubble(ScheduleKind::InterleavedOneF1B, 3), 21);
    EXPECT_EQ(bubble(ScheduleKind::ZbH1, 1), 7);
    EXPECT_EQ(bubble(ScheduleKind::ZbH2, 1), 0);
    EXPECT_EQ(bubble(ScheduleKind::ZbV, 2), 0);
    EXPECT_EQ(bubble(ScheduleKind::DualPipe, 1), 6);
    EXPECT_EQ(bubble(ScheduleKind::DualPipeV, 2), 14);
}

TEST(Bubble, FractionOfGpipeAndOneF1B) {
    const PipelineShape shape{ScheduleKind::OneF1B, 4, 1, 12};
    const SlotTiming timing = timed(shape, SlotTimes::equal(shape));
    const double fraction =
        1.0 - static_cast<double>(timing.busy_ns[0]) / static_cast<double>(timing.makespan());
    EXPECT_DOUBLE_EQ(fraction, closedFormBubble(4, 12));
    EXPECT_DOUBLE_EQ(fraction, 3.0 / 15.0);
}

TEST(Bubble, ZeroBubbleFormsWithUnequalPasses) {
    // Source: arXiv 2401.10241, section 2.3: H1 (p-1)(F+B-W), H2 (p-1)(F+B-2W), where F >= W and
    // the passes fit into each other as in its figures.
    for (const SeatTimes seat : {SeatTimes{10, 10, 8}, SeatTimes{10, 12, 9}, SeatTimes{4, 4, 3}})
        for (const std::int64_t pp : {2, 4, 8}) {
            const PipelineShape one{ScheduleKind::ZbH1, pp, 1, 4 * pp};
            const SlotTimes times = SlotTimes::equal(one, seat);
            EXPECT_EQ(lost(one, times), closedFormBubbleNs(one, times)) << pp;
            const PipelineShape two{ScheduleKind::ZbH2, pp, 1, 4 * pp};
            EXPECT_LE(lost(two, times), lost(one, times)) << pp;
            EXPECT_GE(lost(two, times), closedFormBubbleNs(two, times)) << pp;
        }
}

TEST(Bubble, DualPipeGainsByEveryShareOfItsPairs) {
    PipelineShape shape{ScheduleKind::DualPipe, 8, 1, 32};
    std::int64_t before = 0;
    for (const double share : {0.6, 0.8, 1.0}) {
        SlotTimes times = SlotTimes::equal(shape, {100, 100, 100});
        times.pair_share = share;
        const std::int64_t step = timed(shape, times).makespan();
        EXPECT_GT(step, before);
        before = step;
    }
}

TEST(Tuning, NeverWorseThanTheFixedLayoutAndInBounds) {
    for (const ScheduleKind kind : {ScheduleKind::ZbH1, ScheduleKind::ZbH2, ScheduleKind::ZbV})
        for (const std::int64_t pp : {2, 4, 8})
            for (const std::int64_t m : {3L, pp, 3 * pp}) {
                const PipelineShape shape{kind, pp, chunksOf(kind), m};
                SlotTimes times = SlotTimes::equal(shape, {100, 130, 60});
                times.message_ns = 7;
                times.seats.front() = {140, 150, 80};  // an embedding
                times.seats.back() = {170, 210, 110};  // and a head
                const SlotTable tuned = makeSlots(shape, times).value();
                const std::int64_t done = timeSlots(tuned, shape, times)->makespan();
                EXPECT_LE(done, timed(shape, times).makespan()) << toText(kind);
                EXPECT_TRUE(validateSlots(tuned, shape).empty())
                    << toText(kind) << " " << validateSlots(tuned, shape).front().text();
            }
}

TEST(Tuning, FillsGapsThatTheFixedLayoutLeaves) {
    // Two micro-batches a rank: the pattern of zb_v, made for 2 pp, leaves gaps that fit more.
    const PipelineShape shape{ScheduleKind::ZbV, 8, 2, 8};
    const std::int64_t unit = timed(shape, SlotTimes::equal(shape)).makespan();
    EXPECT_EQ(unit, 55) << "the fixed pattern takes 62, a rank's own slots are 48";
    // A stage 40 % slower than the others, and messages.
    const PipelineShape long_run{ScheduleKind::ZbV, 8, 2, 12};
    SlotTimes times = SlotTimes::equal(long_run, {100, 100, 100});
    times.seats[8] = times.seats[9] = {140, 140, 140};
    times.message_ns = 10;
    const std::int64_t for_equal = timed(long_run, times).makespan();
    const SlotTable tuned = makeSlots(long_run, times).value();
    EXPECT_LT(timeSlots(tuned, long_run, times)->makespan(), for_equal);
}

TEST(Tuning, EqualTimesKeepTheClosedForm) {
    for (const ScheduleKind kind : {ScheduleKind::ZbH1, ScheduleKind::ZbH2, ScheduleKind::ZbV}) {
        const PipelineShape shape{kind, 4, chunksOf(kind), 16};
        const SlotTimes times = SlotTimes::equal(shape);
        EXPECT_EQ(timeSlots(makeSlots(shape, times).value(), shape, times)->makespan(),
                  timed(shape, times).makespan());
    }
}

TEST(TimeSlots, ReportsADeadlock) {
    const PipelineShape shape{ScheduleKind::GPipe, 2, 1, 2};
    SlotTable slots = makeSlots(shape).value();
    std::swap(slots[0][1], slots[0][2]);
    const Result<SlotTiming> timing = timeSlots(slots, shape, SlotTimes::equal(shape));
    ASSERT_FALSE(timing.ok());
    EXPECT_THAT(timing.error().text(), testing::HasSubstr("deadlock"));
}

}  // namespace
}  // namespace piper
