// SPDX-License-Identifier: Apache-2.0
// Every schedule trains to the losses of one rank.
#include <gtest/gtest.h>

#include "tests/kernels/support/mpi_main.h"
#include "tests/kernels/support/tiny_run.h"

namespace piper {
namespace {

constexpr std::int64_t kSteps = 3;

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

Outcome outcomeOf(test::TinyRun& run) {
    TrainingOptions options;
    options.steps = kSteps;
    const Status status = run.train(options);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    Outcome out;
    for (const StepRecord& step : run.recorder.timeline().steps) {
        out.losses.push_back(step.loss);
        out.norms.push_back(step.gradient_norm);
    }
    return out;
}

void expectLikeOneRank(const Plan& plan) {
    Plan one = plan;
    one.layout = {};
    one.schedule = ScheduleKind::OneF1B;
    one.stage_layers.clear();
    one.all_to_all.chunks = 1;
    test::TinyRun alone(one), together(plan, test::transport());
    const Outcome expected = outcomeOf(alone), got = outcomeOf(together);
    ASSERT_EQ(got.losses.size(), static_cast<std::size_t>(kSteps)) << toText(plan.schedule);
    for (std::size_t i = 0; i < expected.losses.size(); ++i) {
        EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-5 * expected.losses[i])
            << toText(plan.schedule) << " step " << i;
        EXPECT_NEAR(got.norms[i], expected.norms[i], 1e-4 * expected.norms[i])
            << toText(plan.schedule) << " step " << i;
    }
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
