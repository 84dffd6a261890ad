// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/exposure.h"

#include <gtest/gtest.h>

#include "core/schedule/host.h"
#include "core/schedule/step_model.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

constexpr Overlap kNothing{false, false, false, true, false, false};

StepEstimate stepOf(Plan plan, const Overlap& overlap) {
    plan.overlap = overlap;
    const CostModel cost(plan);
    Result<StepModel> model = StepModel::make(plan, cost);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
    return model->estimate().value();
}

double shareOf(Plan plan, const Overlap& overlap, const OperationKey& key) {
    plan.overlap = overlap;
    WorkTable work(plan);
    const CostModel cost(plan);
    return Exposure(work, cost).share(key, StageId(0));
}

/// Mixtral 8x7B on 8 nodes: tp 2, cp 2, pp 2, ep 8.
Plan mixtral() {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 8, 8192, 64);
    plan.layout = {2, true, 2, 2, 1, 8, 1, 8};
    plan.zero_stage = 1;
    return plan;
}

struct Kind {
    const char* name;
    bool Overlap::*field;
    Phase phase;
};

class EveryKind : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryKind, ShortensTheStepByWhatItHidesAndNeverHidesAll) {
    const Kind& kind = GetParam();
    Overlap overlap = kNothing;
    overlap.*kind.field = true;
    const StepEstimate without = stepOf(mixtral(), kNothing);
    const StepEstimate with = stepOf(mixtral(), overlap);
    EXPECT_LT(with.step_ns, without.step_ns);
    const auto p = static_cast<std::size_t>(kind.phase);
    for (std::size_t s = 0; s < with.stages.size(); ++s) {
        const StageEstimate &a = without.stages[s], &b = with.stages[s];
        EXPECT_LT(b.exposed_ns[p], a.exposed_ns[p]);
        EXPECT_GT(b.exposed_ns[p], 0);
        // The exchange itself takes as long as before, and compute does not change.
        EXPECT_NEAR(static_cast<double>(b.phase_ns[p]) / static_cast<double>(a.phase_ns[p]), 1.0,
                    1e-3);
        EXPECT_EQ(b.busy_compute_ns, a.busy_compute_ns);
    }
}

INSTANTIATE_TEST_SUITE_P(Overlap, EveryKind,
                         ::testing::Values(Kind{"tp", &Overlap::tp, Phase::TpComm},
                                           Kind{"cp", &Overlap::cp, Phase::CpComm},
                                           Kind{"ep", &Overlap::ep, Phase::Combine},
                                           Kind{"reduce", &Overlap::dp_grad_reduce, Phase::DpComm},
                                           Kind{"gather", &Overlap::dp_param_gather,
                                                Phase::DpComm}),
                         [](const auto& info) { return info.param.name; });

TEST(Exposure, BlockingMessagesCostTheStageTheirTime) {
    Overlap blocking = kNothing;
    blocking.pp = false;
    const StepEstimate without = stepOf(mixtral(), kNothing), with = stepOf(mixtral(), blocking);
    // Each of the stage's four micro-batches waits for at least its own message.
    const auto message = without.stages[0].phase_ns[static_cast<std::size_t>(Phase::PpComm)];
    EXPECT_GE(with.step_ns - without.step_ns, message / 2);
    EXPECT_GT(message, 0);
}

TEST(Exposure, WithoutComputeNothingIsHidden) {
    // Slow links: gradients take far longer than a backward pass, so most of them stays.
    Plan plan = mixtral();
    for (LinkLevel& level : plan.cluster.levels) level.bandwidth = level.bandwidth * 1e-4;
    Overlap overlap = kNothing;
    overlap.dp_grad_reduce = true;
    const OperationKey reduce{OperationKind::ReduceScatter, Phase::DpComm, Pass::Backward,
                              LayerKind::Dense};
    EXPECT_GT(shareOf(plan, overlap, reduce), 0.95);
    EXPECT_LT(shareOf(mixtral(), overlap, reduce), 0.7);
    EXPECT_EQ(shareOf(mixtral(), kNothing, reduce), 1.0);
}

TEST(Exposure, TensorExchangesAreWaitedForUnlessTheyGoInSlices) {
    Plan plan = mixtral();
    Overlap sliced = kNothing;
    sliced.tp = true;
    for (const Framework framework : {Framework::Plain, Framework::Megatron})
        for (const Pass pass : {Pass::Forward, Pass::Backward}) {
            plan.framework = framework;
            const OperationKey gather{OperationKind::AllGather, Phase::TpComm, pass};
            EXPECT_EQ(shareOf(plan, kNothing, gather), 1.0);
            EXPECT_LT(shareOf(plan, sliced, gather), 0.9);
        }
}

TEST(Exposure, OneMicroBatchHasNoPartnerForItsExchange) {
    Plan plan = mixtral();
    plan.layout.pp = 1;
    plan.layout.dp = 16;
    Overlap overlap = kNothing;
    overlap.ep = true;
    const OperationKey dispatch{OperationKind::Dispatch, Phase::Dispatch, Pass::Forward};
    plan.global_batch_size = 16;
    EXPECT_EQ(shareOf(plan, overlap, dispatch), 1.0);
    plan.global_batch_size = 256;
    EXPECT_LT(shareOf(plan, overlap, dispatch), 0.9);
}

TEST(Host, SmallWorkWaitsForTheHostThatIssuesIt) {
    Plan plan = mixtral();
    plan.seq_len = 128;
    plan.framework = Framework::Megatron;
    const OperationKey router{OperationKind::Forward, Phase::Router};
    const double eager = shareOf(plan, kNothing, router);
    EXPECT_GT(eager, 2.0);
    plan.cuda_graphs = true;
    EXPECT_LT(shareOf(plan, kNothing, router), 0.5 * eager);
    EXPECT_GE(shareOf(plan, kNothing, router), runFactors(plan).matrix);
    // Our own worker has no calls beyond the launches that are counted already.
    plan.framework = Framework::Plain;
    EXPECT_EQ(hostTime(plan, router).value, 0.0);
    EXPECT_GE(shareOf(plan, kNothing, router), runFactors(plan).matrix);
    EXPECT_LE(shareOf(plan, kNothing, router), runFactors(plan).memory);
}

TEST(Host, LargeWorkHidesTheHost) {
    Plan plan = mixtral();
    plan.framework = Framework::Megatron;
    const OperationKey expert{OperationKind::Forward, Phase::Expert};
    // Mostly matrices, some element-wise work.
    EXPECT_GT(shareOf(plan, kNothing, expert), runFactors(plan).matrix);
    EXPECT_LT(shareOf(plan, kNothing, expert),
              0.6 * runFactors(plan).matrix + 0.4 * runFactors(plan).memory);
    const OperationKey weights{OperationKind::WeightGrad, Phase::Expert, Pass::Backward};
    EXPECT_EQ(shareOf(plan, kNothing, weights), runFactors(plan).matrix);
    const OperationKey optimizer{OperationKind::Optimizer, Phase::Optimizer, Pass::Backward};
    EXPECT_DOUBLE_EQ(shareOf(plan, kNothing, optimizer), runFactors(plan).memory);
}

TEST(Host, MeasuredCurvesNeedNoRunFactor) {
    Plan plan = mixtral();
    for (const double factor : {runFactors(plan).matrix, runFactors(plan).memory}) {
        EXPECT_GT(factor, 1.1);
        EXPECT_LT(factor, 1.6);
    }
    plan.cluster.curves.memory.push_back({gib(1), gbps(2500)});
    EXPECT_EQ(runFactors(plan).matrix, 1.0);
    EXPECT_EQ(runFactors(plan).memory, 1.0);
}

TEST(Host, AttentionOfPytorchIsSlowerOnHopper) {
    Plan plan = mixtral();
    const OperationKey attention{OperationKind::Forward, Phase::Attention};
    const double megatron = shareOf(plan, kNothing, attention);
    plan.framework = Framework::Torchtitan;
    EXPECT_GT(shareOf(plan, kNothing, attention), megatron * 1.02);
    EXPECT_LT(shareOf(plan, kNothing, attention), megatron * 1.6);
}

}  // namespace
}  // namespace piper
