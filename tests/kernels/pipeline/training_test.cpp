// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/kernels/support/tiny_run.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

TrainingOptions steps(std::int64_t n) {
    TrainingOptions options;
    options.steps = n;
    return options;
}

TEST(Training, LossFallsFromTheUniformGuess) {
    Plan plan = test::tinyPlan();
    plan.global_batch_size = 8;
    test::TinyRun run(plan);
    TrainingOptions options = steps(60);
    options.constants.adam.learning_rate = 5e-3;
    ASSERT_TRUE(run.train(options).ok());
    const std::vector<double> losses = run.losses();
    ASSERT_EQ(losses.size(), 60U);
    EXPECT_NEAR(losses[0], std::log(256.0), 0.05);
    EXPECT_LT(losses.back(), 3.6);
}

TEST(Training, ChunksChangeNothing) {
    std::vector<double> whole;
    for (const std::int64_t chunks : {1, 2, 5}) {
        Plan plan = test::tinyPlan();
        plan.all_to_all.chunks = chunks;
        test::TinyRun run(plan);
        ASSERT_TRUE(run.train(steps(5)).ok());
        if (chunks == 1) whole = run.losses();
        for (std::size_t i = 0; i < whole.size(); ++i)
            EXPECT_NEAR(run.losses()[i], whole[i], 1e-6 * whole[i]) << chunks << " chunks";
    }
}

TEST(Training, RecomputeChangesNoBit) {
    test::TinyRun keeping(test::tinyPlan());
    ASSERT_TRUE(keeping.train(steps(8)).ok());
    const auto losses = [](std::vector<std::string> modules) {
        Plan plan = test::tinyPlan();
        plan.recompute.granularity =
            modules.empty() ? RecomputeGranularity::Full : RecomputeGranularity::Selective;
        plan.recompute.modules = std::move(modules);
        test::TinyRun run(plan);
        const Status status = run.train(steps(8));
        EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
        return run.losses();
    };
    EXPECT_EQ(losses({}), keeping.losses());
    EXPECT_EQ(losses({"moe"}), keeping.losses());
    EXPECT_EQ(losses({"moe_act", "layernorm", "core_attn", "mlp", "shared_experts"}),
              keeping.losses());
}

TEST(Training, RecomputeHoldsLess) {
    const auto peak = [](Recompute recompute) {
        Plan plan = test::tinyPlan();
        plan.schedule = ScheduleKind::GPipe;
        plan.global_batch_size = 16;
        plan.recompute = std::move(recompute);
        test::TinyRun run(plan);
        EXPECT_TRUE(run.train(steps(1)).ok());
        return static_cast<double>(run.allocator.peakBytes());
    };
    const double kept = peak({});
    Recompute parts, full;
    parts.granularity = RecomputeGranularity::Selective;
    parts.modules = {"moe_act", "layernorm"};
    full.granularity = RecomputeGranularity::Full;
    EXPECT_LT(peak(parts), 0.95 * kept);
    EXPECT_LT(peak(full), 0.8 * kept);
}

TEST(Training, GpipeAndOneF1bAgree) {
    Plan plan = test::tinyPlan();
    test::TinyRun one(plan);
    plan.schedule = ScheduleKind::GPipe;
    test::TinyRun gpipe(plan);
    ASSERT_TRUE(one.train(steps(3)).ok());
    ASSERT_TRUE(gpipe.train(steps(3)).ok());
    EXPECT_EQ(one.losses(), gpipe.losses());
}

TEST(Training, AFoldedModelOnOneRankHandsItsChunksOver) {
    Plan plan = test::tinyPlan();
    test::TinyRun straight(plan);
    plan.layout.vpp = 2;
    plan.schedule = ScheduleKind::ZbV;
    test::TinyRun folded(plan);
    ASSERT_TRUE(straight.train(steps(3)).ok());
    ASSERT_TRUE(folded.train(steps(3)).ok());
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(folded.losses()[i], straight.losses()[i], 1e-6 * straight.losses()[i]);
    for (const Event& event : folded.recorder.timeline().events)
        EXPECT_TRUE(event.kind != OperationKind::Send || event.lane == Lane::Host);
}

/// FLOPs of the run's events by phase and kind, and those the schedule says.
using Totals = std::map<std::pair<Phase, OperationKind>, double>;

Totals measuredFlops(const RankTimeline& timeline) {
    Totals totals;
    for (const Event& event : timeline.events) totals[{event.phase, event.kind}] += event.flops;
    return totals;
}
Totals scheduledFlops(const Schedule& schedule) {
    Totals totals;
    for (const Operation& op : schedule.stages[0].operations)
        totals[{op.key.phase, op.key.kind}] += op.flops.value;
    return totals;
}

TEST(Training, MeasuredFlopsAreTheSchedulesWhenItIsHonest) {
    test::TinyRun run(test::tinyPlan());
    ASSERT_TRUE(run.train(steps(1)).ok());
    const Totals measured = measuredFlops(run.recorder.timeline());
    const Totals scheduled = scheduledFlops(run.schedule);
    for (const auto& [key, flops] : scheduled)
        EXPECT_NEAR(measured.at(key), flops, 1e-9 * flops)
            << toText(key.first) << " " << toText(key.second);
    EXPECT_EQ(run.recorder.timeline().events.size(), run.schedule.stages[0].operations.size());
}

TEST(Training, AFalsifiedScheduleDoesNotChangeWhatIsMeasured) {
    test::TinyRun honest(test::tinyPlan()), falsified(test::tinyPlan());
    for (Operation& op : falsified.schedule.stages[0].operations) {
        op.flops = op.flops * 3.0 + Flops(1e6);
        op.bytes = Bytes(12345);
    }
    ASSERT_TRUE(honest.train(steps(1)).ok());
    ASSERT_TRUE(falsified.train(steps(1)).ok());
    EXPECT_EQ(measuredFlops(honest.recorder.timeline()),
              measuredFlops(falsified.recorder.timeline()));
    EXPECT_NE(measuredFlops(falsified.recorder.timeline()), scheduledFlops(falsified.schedule));
    for (const Event& event : falsified.recorder.timeline().events)
        EXPECT_TRUE(event.lane == Lane::Compute || event.bytes == 0) << "one rank sends nothing";
}

TEST(Training, MemoryIsGivenBackAndRecorded) {
    test::TinyRun run(test::tinyPlan());
    ASSERT_TRUE(run.train(steps(2)).ok());
    EXPECT_EQ(run.allocator.currentBytes(), run.allocator.currentBytes(MemoryTerm::Workspace))
        << "only the backend keeps its scratch";
    std::map<MemoryTerm, std::int64_t> peak;
    for (const MemorySample& sample : run.recorder.timeline().memory)
        peak[sample.term] = std::max(peak[sample.term], sample.bytes);
    const StageParameters parameters = stageParameters(run.plan, StageId(0));
    EXPECT_EQ(static_cast<double>(peak[MemoryTerm::Weights]),
              4.0 * (parameters.dense + parameters.expert));
    EXPECT_EQ(peak[MemoryTerm::OptimizerState], 2 * peak[MemoryTerm::Weights]);
    EXPECT_EQ(peak[MemoryTerm::Gradients], peak[MemoryTerm::Weights]);
}

TEST(Training, ExpertLoadCountsEveryRoutedRow) {
    test::TinyRun run(test::tinyPlan());
    ASSERT_TRUE(run.train(steps(1)).ok());
    ASSERT_EQ(run.recorder.timeline().expert_load.size(), 2U) << "two MoE layers";
    for (const ExpertLoad& load : run.recorder.timeline().expert_load) {
        std::int64_t rows = 0;
        for (const std::int64_t n : load.tokens) rows += n;
        EXPECT_EQ(rows, 4 * 16 * 2);
    }
}

TEST(Training, MemoryLimitIsAnErrorWithNumbers) {
    test::TinyRun run(test::tinyPlan(), 400'000);
    const Status status = run.train(steps(1));
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().text().find("400000"), std::string::npos) << status.error().text();
}

TEST(Training, AnInfiniteLossNamesStepAndLayer) {
    test::TinyRun run(test::tinyPlan());
    TrainingOptions options = steps(50);
    options.constants.adam.learning_rate = 1e30;
    options.constants.clip_norm = 0.0;
    const Status status = run.train(options);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::External);
    EXPECT_NE(status.error().text().find("step 1"), std::string::npos) << status.error().text();
    EXPECT_NE(status.error().text().find("layer"), std::string::npos) << status.error().text();
    EXPECT_EQ(run.recorder.timeline().steps.size(), 1U) << "the good step stays";
}

TEST(Training, InterruptionEndsBetweenOperations) {
    test::TinyRun run(test::tinyPlan());
    int asked = 0;
    ProgramRunner::Hooks hooks = run.hooks();
    hooks.interrupted = [&]() -> std::optional<Error> {
        if (++asked < 10) return std::nullopt;
        return fail(ErrorCode::Cancelled, "enough");
    };
    const Status status = train(
        {run.plan, run.schedule, *run.transport, *run.backend, run.recorder, run.data, hooks, {}},
        steps(5));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(run.recorder.timeline().events.size(), 9U);
}

TEST(Training, ReplayedRoutingGivesTheSameRun) {
    const test::TemporaryDirectory directory;
    const std::string file = (directory.path() / "routing").string();
    test::TinyRun first(test::tinyPlan()), second(test::tinyPlan()), none(test::tinyPlan());
    TrainingOptions options = steps(3);
    options.record_routing = file;
    ASSERT_TRUE(first.train(options).ok());
    options.record_routing.clear();
    options.replay_routing = file;
    ASSERT_TRUE(second.train(options).ok());
    EXPECT_EQ(first.losses(), second.losses());
    options.steps = 4;
    const Status status = none.train(options);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("step 3"), std::string::npos);
}

TEST(Training, WorldOfAnotherSizeIsRefused) {
    test::TinyRun run(test::tinyPlan());
    run.plan.layout.dp = 2;
    const Status status = run.train(steps(1));
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("needs 2 ranks, 1 started"), std::string::npos);
}

}  // namespace
}  // namespace piper
