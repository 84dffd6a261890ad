// SPDX-License-Identifier: Apache-2.0
// Every schedule trains to the losses of one rank, and holds what the model says.
#include <gtest/gtest.h>

#include <array>

#include "core/schedule/simulate.h"
#include "tests/kernels/support/mpi_main.h"
#include "tests/kernels/support/tiny_run.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

constexpr std::int64_t kSteps = 50, kFreeSteps = 5;

/// Eight layers of hidden 24 (a V of four ranks has eight pieces), eight micro-batches or more.
Plan oneRankPlan(std::int64_t micro_batches) {
    Plan plan = test::tinyPlan();
    plan.model.num_layers = 8;
    plan.model.layers.assign(8, LayerKind::Moe);
    plan.model.layers[0] = LayerKind::Dense;
    plan.micro_batch_size = 1;
    plan.global_batch_size = micro_batches;
    plan.seq_len = 8;
    plan.all_to_all.algorithm = AllToAllAlgorithm::Flat;
    return plan;
}

struct Outcome {
    std::vector<double> losses, norms;
};

Outcome outcomeOf(test::TinyRun& run, const TrainingOptions& options) {
    const Status status = run.train(options);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    Outcome out;
    for (const StepRecord& step : run.recorder.timeline().steps) {
        out.losses.push_back(step.loss);
        out.norms.push_back(step.gradient_norm);
    }
    return out;
}

/// `recorded`, `replayed`: files of the experts that one rank chooses and the others take over.
void expectLikeOneRank(const Plan& plan, std::int64_t steps, const std::string& recorded,
                       const std::string& replayed) {
    Plan one = plan;
    one.layout = {};
    one.schedule = ScheduleKind::OneF1B;
    one.stage_layers.clear();
    one.all_to_all.chunks = 1;
    TrainingOptions alone_options, options;
    alone_options.steps = options.steps = steps;
    alone_options.record_routing = recorded;
    options.replay_routing = replayed;
    test::TinyRun alone(one), together(plan, test::transport());
    const Outcome expected = outcomeOf(alone, alone_options), got = outcomeOf(together, options);
    ASSERT_EQ(got.losses.size(), static_cast<std::size_t>(steps)) << toText(plan.schedule);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
        ASSERT_NEAR(got.losses[i], expected.losses[i], 1e-5 * expected.losses[i])
            << toText(plan.schedule) << " step " << i;
        ASSERT_NEAR(got.norms[i], expected.norms[i], 1e-4 * expected.norms[i])
            << toText(plan.schedule) << " step " << i;
    }
}

void expectLikeOneRank(const Plan& plan) {
    const test::TemporaryDirectory directory;
    const std::string routing = (directory.path() / "routing").string();
    expectLikeOneRank(plan, kSteps, routing, routing);
    expectLikeOneRank(plan, kFreeSteps, "", "");
}

using Peaks = std::array<double, kNumMemoryTerms>;

Peaks peaksOf(const RankTimeline& timeline) {
    Peaks out{};
    for (const MemorySample& sample : timeline.memory) {
        double& peak = out[static_cast<std::size_t>(sample.term)];
        peak = std::max(peak, static_cast<double>(sample.bytes));
    }
    return out;
}

class Schedules : public testing::TestWithParam<ScheduleKind> {};

Plan planOf(ScheduleKind kind, std::int64_t pp, std::int64_t dp) {
    Plan plan = oneRankPlan(2 * pp * dp);
    plan.schedule = kind;
    plan.layout.pp = pp;
    plan.layout.dp = dp;
    const bool folded = kind == ScheduleKind::ZbV || kind == ScheduleKind::DualPipeV;
    plan.layout.vpp = folded || kind == ScheduleKind::InterleavedOneF1B ? 2 : 1;
    return plan;
}

TEST_P(Schedules, TrainsLikeOneRank) {
    expectLikeOneRank(planOf(GetParam(), test::transport().world().size(), 1));
}

TEST_P(Schedules, TrainsWithReplicasAndExpertsSpread) {
    const std::int64_t world = test::transport().world().size();
    if (world < 4) return;  // what two ranks can show is above
    Plan plan = planOf(GetParam(), world / 2, 2);
    plan.layout.ep = 2;
    plan.all_to_all.chunks = 2;
    expectLikeOneRank(plan);
}

TEST_P(Schedules, HoldsWhatTheModelSays) {
    Transport& transport = test::transport();
    const Plan plan = planOf(GetParam(), transport.world().size(), 1);
    test::TinyRun run(plan, transport);
    TrainingOptions options;
    options.steps = 2;
    (void)outcomeOf(run, options);
    const Simulation simulation = simulate(plan, run.schedule, CostModel(plan)).value();
    const piper::Run modelled = simulatedRun(plan, run.schedule, simulation, true, 1);
    const Peaks want = peaksOf(modelled.ranks[static_cast<std::size_t>(transport.world().rank())]);
    const Peaks got = peaksOf(run.recorder.timeline());
    // Which messages are on their way at the peak is for the ranks' speed to say.
    const double stream = static_cast<double>(plan.tokensPerMicroBatch() * plan.model.hidden_size *
                                              static_cast<std::int64_t>(sizeof(float)));
    for (const MemoryTerm term :
         {MemoryTerm::Weights, MemoryTerm::Gradients, MemoryTerm::OptimizerState,
          MemoryTerm::AttentionActivation, MemoryTerm::RouterActivation, MemoryTerm::DispatchedRows,
          MemoryTerm::ExpertIntermediate, MemoryTerm::CombineActivation,
          MemoryTerm::GradientActivation}) {
        const auto t = static_cast<std::size_t>(term);
        const bool passes =
            term == MemoryTerm::GradientActivation || term == MemoryTerm::AttentionActivation;
        EXPECT_NEAR(got[t], want[t], 0.03 * want[t] + (passes ? 2.1 * stream : 0.0))
            << toText(GetParam()) << " " << toText(term);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, testing::ValuesIn(generatedSchedules()),
                         [](const auto& info) { return "s_" + std::string(toText(info.param)); });

TEST(UnevenStages, TrainLikeOneRank) {
    const std::int64_t pp = test::transport().world().size();
    if (pp == 1) return;
    Plan plan = planOf(ScheduleKind::ZbV, pp, 1);
    plan.stage_layers.assign(static_cast<std::size_t>(2 * pp), 1);
    plan.stage_layers[1] = 8 - 2 * pp + 1;
    expectLikeOneRank(plan);
}

}  // namespace
}  // namespace piper
