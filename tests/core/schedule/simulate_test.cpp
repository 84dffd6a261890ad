// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace piper {
namespace {

using testing::HasSubstr;

/// A schedule of one compute operation a slot, with messages between the stages, and its durations.
struct HandMade {
    Schedule schedule;
    std::vector<std::vector<std::int64_t>> durations;

    std::int32_t add(std::size_t stage, OperationKey key, Lane lane, std::int64_t duration,
                     const Dependencies& after = {}, std::int32_t m = 0, int peer = -1) {
        Operation op;
        op.id = static_cast<std::int32_t>(schedule.stages[stage].operations.size());
        op.key = key;
        op.lane = lane;
        op.micro_batch = MicroBatchId(m);
        op.model_chunk = ModelChunkId(0);
        op.peer = StageId(static_cast<std::int32_t>(peer));
        op.dependencies = after;
        schedule.stages[stage].operations.push_back(op);
        durations[stage].push_back(duration);
        return op.id;
    }
    explicit HandMade(std::size_t stages) : durations(stages) {
        schedule.stages.resize(stages);
        for (std::size_t s = 0; s < stages; ++s) schedule.stages[s].stage = StageId(s);
    }
};

constexpr OperationKey kForward{OperationKind::Forward, Phase::Attention};
constexpr OperationKey kExpert{OperationKind::Forward, Phase::Expert};
constexpr OperationKey kDispatch{OperationKind::Dispatch, Phase::Dispatch};
constexpr OperationKey kCombine{OperationKind::Combine, Phase::Combine};

HandMade pipeline(ScheduleKind kind, const std::vector<std::int64_t>& forward,
                  const std::vector<std::int64_t>& backward, std::int64_t m, std::int64_t send) {
    const auto pp = static_cast<int>(forward.size());
    HandMade made(forward.size());
    const SlotTable slots = makeSlots(kind, pp, 1, m).value();
    for (int s = 0; s < pp; ++s)
        for (const Slot& slot : slots[static_cast<std::size_t>(s)]) {
            const auto stage = static_cast<std::size_t>(s);
            const bool fwd = slot.kind == Slot::Kind::Forward;
            const Pass pass = fwd ? Pass::Forward : Pass::Backward;
            const int from = fwd ? s - 1 : s + 1, to = fwd ? s + 1 : s - 1;
            const std::int32_t mb = slot.micro_batch.value;
            Dependencies after;
            if (from >= 0 && from < pp)
                after = {made.add(stage, {OperationKind::Receive, Phase::PpComm, pass}, Lane::Pp, 0,
                                  {}, mb, from)};
            const auto work =
                made.add(stage, {OperationKind::Forward, Phase::Attention, pass}, Lane::Compute,
                         fwd ? forward[stage] : backward[stage], after, mb);
            if (to >= 0 && to < pp)
                made.add(stage, {OperationKind::Send, Phase::PpComm, pass}, Lane::Pp, send, {work},
                         mb, to);
        }
    return made;
}

Simulation play(const HandMade& made) {
    Result<Simulation> out = simulateDurations(made.schedule, made.durations);
    EXPECT_TRUE(out.ok()) << out.error().text();
    return std::move(out).value();
}

TEST(Simulate, EqualStagesGiveTheClosedFormBubble) {
    for (ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneF1B})
        for (std::size_t pp : {1u, 2u, 4u, 8u})
            for (std::int64_t m : {1, 4, 8, 32}) {
                const std::vector<std::int64_t> f(pp, 100), b(pp, 200);
                const Simulation out = play(pipeline(kind, f, b, m, 0));
                const auto stages = static_cast<std::int64_t>(pp);
                EXPECT_EQ(out.step_ns, (m + stages - 1) * 300);
                EXPECT_NEAR(out.bubble_fraction, closedFormBubble(stages, m), 1e-12);
            }
}

TEST(Simulate, UnevenStagesByHand) {
    // 1F1B, 2 stages, 3 micro-batches, f = 1, 2 and b = 2, 4:
    // stage 1 is busy from 1 to 1 + 3 * 6 = 19; the last gradient reaches stage 0 then: 19 + 2.
    const Simulation out = play(pipeline(ScheduleKind::OneF1B, {1, 2}, {2, 4}, 3, 0));
    EXPECT_EQ(out.step_ns, 21);
    EXPECT_EQ(out.stages[0].busy_compute_ns, 9);
    EXPECT_EQ(out.stages[1].busy_compute_ns, 18);
    // The slow stage first: stage 0 forwards 0-2, 2-4 (1F1B warm-up 1 and one steady); gradient 0
    // comes at 2+1+2 = 5; backward 5-9, forward 9-11, gradient 1 (4+1 -> 5-6, 6-8) backward 11-15;
    // stage 1 gets micro-batch 2 at 11, ends 14; backward 15-19.
    EXPECT_EQ(play(pipeline(ScheduleKind::OneF1B, {2, 1}, {4, 2}, 3, 0)).step_ns, 19);
}

TEST(Simulate, MessagesTakeTimeAndSpanTheirReceive) {
    const HandMade made = pipeline(ScheduleKind::GPipe, {10, 10}, {20, 20}, 1, 3);
    const Simulation out = play(made);
    EXPECT_EQ(out.step_ns, 10 + 3 + 10 + 20 + 3 + 20);
    EXPECT_EQ(out.stages[1].start_ns[0], 10);  // the receive of stage 1
    EXPECT_EQ(out.stages[1].end_ns[0], 13);
}

TEST(Simulate, ChunksOverlapExchangeAndCompute) {
    HandMade made(1);
    // Two chunks: dispatch 4 each, expert 6 each, combine 4 each.
    const auto d0 = made.add(0, kDispatch, Lane::Ep, 4);
    const auto d1 = made.add(0, kDispatch, Lane::Ep, 4);
    const auto e0 = made.add(0, kExpert, Lane::Compute, 6, {d0});
    const auto c0 = made.add(0, kCombine, Lane::Ep, 4, {e0});
    const auto e1 = made.add(0, kExpert, Lane::Compute, 6, {d1});
    const auto c1 = made.add(0, kCombine, Lane::Ep, 4, {e1});
    made.add(0, kForward, Lane::Compute, 1, {c0, c1});
    const Simulation out = play(made);
    EXPECT_EQ(out.stages[0].end_ns, (std::vector<std::int64_t>{4, 8, 10, 14, 16, 20, 21}));
    EXPECT_EQ(out.step_ns, 21);  // one after the other it would be 29
    EXPECT_EQ(out.stages[0].busy_compute_ns, 13);
}

TEST(Simulate, FindsThePeakOverTimeAndItsOperation) {
    HandMade made(1);
    made.add(0, kForward, Lane::Compute, 5);
    made.add(0, kExpert, Lane::Compute, 5);
    made.add(0, kCombine, Lane::Ep, 5, {1});
    StageProgram& program = made.schedule.stages[0];
    program.persistent[static_cast<std::size_t>(MemoryTerm::Weights)] = bytes(1000);
    program.memory = {{0, false, MemoryTerm::AttentionActivation, bytes(100)},
                      {1, false, MemoryTerm::ExpertIntermediate, bytes(50)},
                      {1, true, MemoryTerm::AttentionActivation, bytes(-100)},
                      {2, false, MemoryTerm::CombineActivation, bytes(20)}};
    const Simulation out = play(made);
    EXPECT_EQ(out.stages[0].peak, bytes(1150));
    EXPECT_EQ(out.stages[0].peak_operation, 1);
    EXPECT_EQ(out.stages[0].at_peak[static_cast<std::size_t>(MemoryTerm::AttentionActivation)],
              bytes(100));
    EXPECT_EQ(out.stages[0].at_peak[static_cast<std::size_t>(MemoryTerm::CombineActivation)],
              bytes(0));
}

TEST(Simulate, NamesTheOperationsOfADeadlock) {
    // Each stage computes only after it received what the other sends after computing.
    HandMade made(2);
    for (int s : {0, 1}) {
        const auto stage = static_cast<std::size_t>(s);
        const auto r =
            made.add(stage, {OperationKind::Receive, Phase::PpComm}, Lane::Pp, 0, {}, 0, 1 - s);
        const auto f = made.add(stage, kForward, Lane::Compute, 1, {r});
        made.add(stage, {OperationKind::Send, Phase::PpComm}, Lane::Pp, 1, {f}, 0, 1 - s);
    }
    const Result<Simulation> out = simulateDurations(made.schedule, made.durations);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, ErrorCode::External);
    EXPECT_THAT(out.error().text(), HasSubstr("deadlock"));
    EXPECT_THAT(out.error().text(),
                HasSubstr("stage 0: forward attention micro-batch 0 waits for [receive pp_comm"));
    EXPECT_THAT(out.error().text(), HasSubstr("stage 1: forward attention micro-batch 0"));
}

TEST(Simulate, ReceivePostedBeforeTheSendIsNoDeadlock) {
    HandMade made(2);
    for (int s : {0, 1}) {
        const auto stage = static_cast<std::size_t>(s);
        const auto r =
            made.add(stage, {OperationKind::Receive, Phase::PpComm}, Lane::Pp, 0, {}, 0, 1 - s);
        made.add(stage, {OperationKind::Send, Phase::PpComm}, Lane::Pp, 7, {}, 0, 1 - s);
        made.add(stage, kForward, Lane::Compute, 1, {r});
    }
    EXPECT_EQ(play(made).step_ns, 8);
}

TEST(Simulate, RefusesUnmatchedMessages) {
    HandMade lonely(2);
    lonely.add(1, {OperationKind::Receive, Phase::PpComm}, Lane::Pp, 0, {}, 0, 0);
    const Result<Simulation> out = simulateDurations(lonely.schedule, lonely.durations);
    ASSERT_FALSE(out.ok());
    EXPECT_THAT(out.error().text(), HasSubstr("no matching send"));

    HandMade twice(2);
    for (int i = 0; i < 2; ++i)
        twice.add(0, {OperationKind::Send, Phase::PpComm}, Lane::Pp, 1, {}, 0, 1);
    const Result<Simulation> doubled = simulateDurations(twice.schedule, twice.durations);
    ASSERT_FALSE(doubled.ok());
    EXPECT_THAT(doubled.error().text(), HasSubstr("sent twice"));
}

}  // namespace
}  // namespace piper
