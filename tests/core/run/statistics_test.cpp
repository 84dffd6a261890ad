// SPDX-License-Identifier: Apache-2.0
#include "core/run/statistics.h"

#include <gmock/gmock.h>

#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::ElementsAre;

Event eventOf(std::int32_t step, Phase phase, Lane lane, std::int64_t start, std::int64_t end,
              double flops = 0, std::int64_t bytes = 0) {
    Event e;
    e.step = step;
    e.phase = phase;
    e.lane = lane;
    e.start_ns = start;
    e.duration_ns = end - start;
    e.flops = flops;
    e.bytes = bytes;
    return e;
}

const PhaseTotal& of(const std::array<PhaseTotal, kNumPhases>& phases, Phase phase) {
    return phases[static_cast<std::size_t>(phase)];
}

/// Two ranks, two whole steps; rank 1 began a third one. By hand:
/// rank 0 step 0 [0,100): attention [0,40) and [30,60), dispatch [50,80): 20 exposed, idle 20.
/// rank 1 step 0 [0,120): attention [0,70), dispatch [70,90) exposed, optimizer on host [100,110).
piper::Run smallRun() {
    piper::Run run;
    run.name = "small";
    run.ranks.resize(2);
    RankTimeline& zero = run.ranks[0];
    zero.rank = RankId(0);
    zero.stage = StageId(0);
    zero.offset_ns = 5000;  // must not matter
    zero.steps = {{0, 0, 100, 5.0, 1.0, 8}, {1, 100, 180, 4.0, 1.0, 8}};
    zero.events = {eventOf(0, Phase::Attention, Lane::Compute, 0, 40, 100),
                   eventOf(0, Phase::Attention, Lane::Compute, 30, 60, 50),
                   eventOf(0, Phase::Dispatch, Lane::Ep, 50, 80, 0, 7),
                   eventOf(1, Phase::Attention, Lane::Compute, 100, 180, 150)};
    RankTimeline& one = run.ranks[1];
    one.rank = RankId(1);
    one.stage = StageId(1);
    one.steps = {{0, 0, 120, 5.0, 1.0, 8}, {1, 120, 190, 4.0, 1.0, 8}, {2, 190, 900, 4., 1., 8}};
    one.events = {eventOf(0, Phase::Attention, Lane::Compute, 0, 70, 30),
                  eventOf(0, Phase::Dispatch, Lane::Ep, 70, 90, 0, 11),
                  eventOf(0, Phase::Optimizer, Lane::Host, 100, 110),
                  eventOf(1, Phase::Attention, Lane::Compute, 120, 190, 30),
                  eventOf(2, Phase::Attention, Lane::Compute, 190, 900, 1e9, 1)};
    return run;
}

TEST(Statistics, CountsOnlyStepsThatEveryRankCompleted) {
    const RunStatistics s = computeStatistics(smallRun());
    EXPECT_THAT(s.step_index, ElementsAre(0, 1));
    EXPECT_THAT(s.step_ns, ElementsAre(120, 80));
    EXPECT_EQ(s.step_ns_median, 100);
    EXPECT_EQ(s.step_ns_min, 80);
    EXPECT_EQ(s.step_ns_max, 120);
    EXPECT_EQ(s.events_total, 9);
    EXPECT_DOUBLE_EQ(s.flops_per_step, (100 + 50 + 150 + 30 + 30) / 2.0);
    EXPECT_DOUBLE_EQ(s.bytes_per_step, (7 + 11) / 2.0);
}

TEST(Statistics, PhasesOverlapsExposureAndIdleByHand) {
    const RunStatistics s = computeStatistics(smallRun());
    const PhaseTotal& attention = of(s.rank_phases[0], Phase::Attention);
    EXPECT_EQ(attention.count, 3);
    EXPECT_EQ(attention.sum_ns, 40 + 30 + 80);
    EXPECT_EQ(attention.union_ns, 60 + 80);
    EXPECT_EQ(attention.exposed_ns, 0);
    EXPECT_EQ(of(s.rank_phases[0], Phase::Dispatch).exposed_ns, 20);
    EXPECT_EQ(of(s.rank_phases[1], Phase::Dispatch).exposed_ns, 20);
    EXPECT_EQ(of(s.rank_phases[0], Phase::Idle).union_ns, 20);
    EXPECT_EQ(of(s.rank_phases[1], Phase::Idle).union_ns, 20);
    EXPECT_EQ(of(s.phases, Phase::Dispatch).union_ns, 50);
    EXPECT_EQ(of(s.phases, Phase::Idle).count, 4);
    EXPECT_THAT(s.rank_busy_ns, ElementsAre(80 + 80, 100 + 70));
    // Slowest: rank 1 in step 0 (120 = 70 + 20 + 20 idle + 10 host), rank 0 in step 1 (80).
    EXPECT_DOUBLE_EQ(s.breakdown.step_ns, 100);
    EXPECT_DOUBLE_EQ(s.breakdown.compute_ns, 75);
    EXPECT_DOUBLE_EQ(s.breakdown.exposed_ns, 10);
    EXPECT_DOUBLE_EQ(s.breakdown.idle_ns, 10);
}

TEST(Statistics, WarmUpStepsAreLeftOutWhenOthersRemain) {
    EXPECT_THAT(computeStatistics(smallRun(), 1).step_ns, ElementsAre(80));
    EXPECT_THAT(computeStatistics(smallRun(), 2).step_ns, ElementsAre(120, 80));
    EXPECT_DOUBLE_EQ(computeStatistics(smallRun(), 1).flops_per_step, 180);
}

TEST(Statistics, WithoutStepRecordsTheEventsGiveTheSteps) {
    piper::Run run = smallRun();
    for (RankTimeline& rank : run.ranks) rank.steps.clear();
    const RunStatistics s = computeStatistics(run);
    EXPECT_THAT(s.step_ns, ElementsAre(110, 80));
    EXPECT_EQ(of(s.rank_phases[1], Phase::Idle).union_ns, 10);
}

TEST(Statistics, ARankThatDiedAtOnceDoesNotHideTheOthers) {
    piper::Run run = smallRun();
    run.ranks.emplace_back().rank = RankId(2);
    EXPECT_EQ(computeStatistics(run).steps, 2);
    EXPECT_EQ(computeStatistics(run).rank_busy_ns[2], 0);
    EXPECT_EQ(computeStatistics(piper::Run{}).steps, 0);
}

TEST(Statistics, MemoryPeaksByTermAndAtThePeak) {
    piper::Run run;
    run.ranks.resize(1);
    run.ranks[0].memory = {{0, MemoryTerm::Weights, 100},
                           {10, MemoryTerm::DispatchedRows, 50},
                           {20, MemoryTerm::DispatchedRows, 0},
                           {30, MemoryTerm::ExpertIntermediate, 40},
                           // a transfer in one moment is no peak of both
                           {40, MemoryTerm::Workspace, 40},
                           {40, MemoryTerm::ExpertIntermediate, 0}};
    const RunStatistics s = computeStatistics(run);
    EXPECT_EQ(s.rank_peak_bytes[0], 150);
    EXPECT_EQ(s.rank_at_peak[0][static_cast<std::size_t>(MemoryTerm::DispatchedRows)], 50);
    EXPECT_EQ(s.rank_at_peak[0][static_cast<std::size_t>(MemoryTerm::ExpertIntermediate)], 0);
    EXPECT_EQ(s.rank_peak_by_term[0][static_cast<std::size_t>(MemoryTerm::ExpertIntermediate)], 40);
}

TEST(Statistics, IdleAndBusyFillEveryRandomStepExactly) {
    // Events cut at their step's borders: then busy + idle is the sum of the step times.
    piper::Run run = test::syntheticRun(3, 2000, 6);
    for (RankTimeline& rank : run.ranks)
        for (Event& e : rank.events) {
            const StepRecord& step = rank.steps[static_cast<std::size_t>(e.step)];
            e.start_ns = std::clamp(e.start_ns, step.start_ns, step.end_ns);
            e.duration_ns = std::min(e.duration_ns, step.end_ns - e.start_ns);
        }
    const RunStatistics s = computeStatistics(run);
    ASSERT_EQ(s.steps, 6);
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
        std::int64_t total = 0;
        for (const StepRecord& step : run.ranks[r].steps) total += step.end_ns - step.start_ns;
        EXPECT_EQ(s.rank_busy_ns[r] + of(s.rank_phases[r], Phase::Idle).union_ns, total);
    }
}

TEST(Statistics, StepsWithoutEventsHaveTimesButNoIdleTime) {
    piper::Run run;
    run.ranks.emplace_back();
    run.ranks[0].steps = {{0, 0, 100, 0.0, 0.0, 0}, {1, 100, 300, 0.0, 0.0, 0}};
    const RunStatistics s = computeStatistics(run);
    EXPECT_EQ(s.steps, 2);
    EXPECT_EQ(s.step_ns_max, 200);
    EXPECT_EQ(s.breakdown.idle_ns, 0.0);
    EXPECT_EQ(s.phases[static_cast<std::size_t>(Phase::Idle)].sum_ns, 0);
}

}  // namespace
}  // namespace piper
