// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "kernels/pipeline/support.h"
#include "kernels/transport/payload.h"
#include "tests/kernels/support/mpi_main.h"
#include "tests/kernels/support/tiny_run.h"

namespace piper {
namespace {

using Bytes64 = std::map<std::pair<OperationKind, Pass>, std::int64_t>;

Bytes64 measuredBytes(const RankTimeline& timeline) {
    Bytes64 sum;
    for (const Event& event : timeline.events)
        if (event.lane != Lane::Compute) sum[{event.kind, event.pass}] += event.bytes;
    return sum;
}

Plan planOf(std::int64_t pp, std::int64_t dp, std::int64_t ep) {
    Plan plan = test::tinyPlan();
    plan.layout.pp = pp;
    plan.layout.dp = dp;
    plan.layout.ep = ep;
    plan.global_batch_size = 8;
    plan.all_to_all.algorithm = AllToAllAlgorithm::Flat;
    return plan;
}

/// Rows this rank sent to experts of other ranks, from the routing it recorded.
std::int64_t remoteRows(const test::TinyRun& run, std::int64_t own_ep_rank) {
    const std::vector<std::int64_t> owners = expertOwners(run.plan);
    std::int64_t rows = 0;
    for (const ExpertLoad& load : run.recorder.timeline().expert_load)
        for (std::size_t e = 0; e < owners.size(); ++e)
            if (owners[e] != own_ep_rank) rows += load.tokens[e];
    return rows;
}

TEST(MeasuredBytes, ExchangesOfRowsReallyRouted) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    const Plan plan = planOf(1, n, 2);
    test::TinyRun run(plan, world);
    TrainingOptions options;
    options.steps = 1;
    const Status status = run.train(options);
    ASSERT_TRUE(status.ok()) << status.error().text();
    const ProcessGrid grid(plan.layout, plan.rank_order);
    const auto place = grid.coordinates(RankId(static_cast<std::int32_t>(world.world().rank())));
    const std::int64_t row = plan.model.hidden_size * 4;
    const std::int64_t rows = remoteRows(run, place.ep);
    Bytes64 bytes = measuredBytes(run.recorder.timeline());
    // The counts of the other rank's three experts travel with each of two layers' dispatches.
    const std::int64_t counts = plan.numMicroBatches() * 2 * 3 * 8;
    EXPECT_EQ((bytes[{OperationKind::Dispatch, Pass::Forward}]), rows * row + counts);
    EXPECT_EQ((bytes[{OperationKind::Combine, Pass::Backward}]), rows * row);
    // Gradients: the whole model's dense ones over dp, a rank's experts over edp.
    const StageParameters parameters = stageParameters(plan, StageId(0));
    std::int64_t reduced = allReducePayload(n, static_cast<std::int64_t>(parameters.dense) * 4);
    reduced += allReducePayload(n / 2, static_cast<std::int64_t>(parameters.expert) * 4);
    EXPECT_EQ((bytes[{OperationKind::AllReduce, Pass::Backward}]), reduced);
}

TEST(MeasuredBytes, AFalsifiedScheduleShowsADifference) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    const Plan plan = planOf(2, n / 2, n / 2);
    test::TinyRun honest(plan, world), falsified(plan, world);
    double scheduled = 0.0;
    const ProcessGrid grid(plan.layout, plan.rank_order);
    const auto stage = static_cast<std::size_t>(
        grid.coordinates(RankId(static_cast<std::int32_t>(world.world().rank()))).pp);
    for (StageProgram& program : falsified.schedule.stages)
        for (Operation& op : program.operations) {
            op.bytes = op.bytes * 7.0;
            op.flops = op.flops * 7.0;
        }
    for (const Operation& op : falsified.schedule.stages[stage].operations)
        if (op.key.kind == OperationKind::Send) scheduled += op.bytes.value;
    TrainingOptions options;
    options.steps = 1;
    ASSERT_TRUE(honest.train(options).ok());
    ASSERT_TRUE(falsified.train(options).ok());
    Bytes64 bytes = measuredBytes(falsified.recorder.timeline());
    EXPECT_EQ(bytes, measuredBytes(honest.recorder.timeline()));
    const OperationKind send = OperationKind::Send;
    const std::int64_t sent = bytes[{send, Pass::Forward}] + bytes[{send, Pass::Backward}];
    EXPECT_EQ(sent,
              plan.numMicroBatches() * plan.tokensPerMicroBatch() * plan.model.hidden_size * 4);
    EXPECT_DOUBLE_EQ(scheduled, 7.0 * static_cast<double>(sent));
}

}  // namespace
}  // namespace piper
