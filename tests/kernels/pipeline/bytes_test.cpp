// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "kernels/alltoall/token_exchange.h"
#include "kernels/alltoall/token_traffic.h"
#include "kernels/pipeline/routing_trace.h"
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

Plan dedupPlan(AllToAllAlgorithm algorithm, std::int64_t ranks) {
    Plan plan = planOf(1, ranks, ranks);
    plan.model.moe->num_experts = 2 * ranks;
    plan.model.moe->router_topk = 3;
    plan.all_to_all.algorithm = algorithm;
    plan.all_to_all.chunks = 2;
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

TEST(MeasuredBytes, LocalRowsLeaveTheirCountsToTravel) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    Plan plan = planOf(1, n, 2);
    TrainingOptions options;
    options.steps = 1;
    options.constants.local_rows = true;
    test::TinyRun run(plan, world);
    const Status status = run.train(options);
    ASSERT_TRUE(status.ok()) << status.error().text();
    Bytes64 bytes = measuredBytes(run.recorder.timeline());
    EXPECT_EQ((bytes[{OperationKind::Dispatch, Pass::Forward}]),
              plan.numMicroBatches() * 2 * 3 * 8);
    EXPECT_EQ((bytes[{OperationKind::Combine, Pass::Forward}]), 0);
    EXPECT_EQ((bytes[{OperationKind::Combine, Pass::Backward}]), 0);
    EXPECT_EQ((bytes[{OperationKind::Dispatch, Pass::Backward}]), 0);
    EXPECT_TRUE(std::isfinite(run.losses().front()));

    plan = dedupPlan(AllToAllAlgorithm::NodeDedup, n);
    if (ExchangeTopology(world.world().nodes()).numNodes() == 1) return;
    const Status refused = test::TinyRun(plan, world).train(options);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, testing::HasSubstr("node_dedup moves tokens"));
}

/// A look at the transfers after every product instead of none: relays pass on within operations.
TEST(MeasuredBytes, LookingAtTransfersWhileComputingChangesNothing) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    for (const AllToAllAlgorithm algorithm :
         {AllToAllAlgorithm::Flat, AllToAllAlgorithm::NodePair, AllToAllAlgorithm::NodeDedup}) {
        const Plan plan = dedupPlan(algorithm, n);
        test::TinyRun seldom(plan, world), often(plan, world);
        often.tick_ns = 1'000'000;
        TrainingOptions options;
        options.steps = 3;
        ASSERT_TRUE(seldom.train(options).ok());
        ASSERT_TRUE(often.train(options).ok());
        EXPECT_EQ(often.losses(), seldom.losses()) << toText(algorithm);
        EXPECT_EQ(measuredBytes(often.recorder.timeline()),
                  measuredBytes(seldom.recorder.timeline()))
            << toText(algorithm);
    }
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

// --- a token crosses to a node once --------------------------------------------------------------

/// Experts' owners of every rank's tokens in one layer and chunk, from a recorded routing.
SlotOwners recordedOwners(const RoutingTrace& trace, const Plan& plan, std::int32_t layer,
                          std::int64_t chunk) {
    const std::int64_t k = plan.model.moe->router_topk, chunks = plan.all_to_all.chunks;
    const std::int64_t tokens = plan.tokensPerMicroBatch();
    const std::vector<std::int64_t> expert_owner = expertOwners(plan);
    SlotOwners owners;
    for (std::int64_t rank = 0; rank < plan.layout.dp; ++rank) {
        std::vector<std::int32_t> experts(static_cast<std::size_t>(tokens * k));
        const auto per_sample = static_cast<std::size_t>(plan.seq_len * k);
        for (std::int64_t i = 0; i < plan.micro_batch_size; ++i)
            EXPECT_TRUE(trace
                            .choose(0, LayerId(layer), rank * plan.micro_batch_size + i,
                                    Indices(experts).subspan(
                                        static_cast<std::size_t>(i) * per_sample, per_sample),
                                    0)
                            .ok());
        owners.emplace_back();
        for (std::int64_t slot = tokens * chunk / chunks * k;
             slot < tokens * (chunk + 1) / chunks * k; ++slot)
            owners.back().push_back(
                expert_owner[static_cast<std::size_t>(experts[static_cast<std::size_t>(slot)])]);
    }
    return owners;
}

TEST(MeasuredBytes, ATokenCrossesToANodeOnce) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    const Plan plan = dedupPlan(AllToAllAlgorithm::NodeDedup, n);
    const Plan flat_plan = dedupPlan(AllToAllAlgorithm::Flat, n);
    test::TinyRun flat(flat_plan, world), dedup(plan, world);
    TrainingOptions options;
    options.steps = 2;
    ASSERT_TRUE(flat.train(options).ok());
    options.record_routing = testing::TempDir() + fmt::format("routing_dedup_{}", n);
    const Status status = dedup.train(options);
    ASSERT_TRUE(status.ok()) << status.error().text();
    for (std::size_t i = 0; i < flat.losses().size(); ++i)
        EXPECT_NEAR(dedup.losses()[i], flat.losses()[i], 1e-5 * flat.losses()[i]);
    ASSERT_TRUE(world.world().barrier().ok());
    const auto& nodes = world.world().nodes();
    const ExchangeTopology topology(nodes);
    if (topology.numNodes() == 1) return;  // flat, as the test above has it

    options.steps = 1;
    test::TinyRun one(plan, world);
    ASSERT_TRUE(one.train(options).ok());
    ASSERT_TRUE(world.world().barrier().ok());
    const auto trace = RoutingTrace::read(options.record_routing, 3, plan.seq_len);
    ASSERT_TRUE(trace.ok()) << trace.error().text();
    const auto tiers = dedupTiers(TokenAlgorithm::NodeDedup, nodes, {});
    TokenTraffic sum;
    for (const std::int32_t layer : {1, 2})
        for (const std::int64_t chunk : {0, 1}) {
            const TokenTraffic t = tokenTraffic(
                *tiers, nodes, recordedOwners(*trace, plan, layer, chunk), 3,
                plan.model.hidden_size * 4)[static_cast<std::size_t>(world.world().rank())];
            sum.route += t.route;
            sum.spread += t.spread;
            sum.reduce += t.reduce;
            sum.reduce_scalars += t.reduce_scalars;
        }
    Bytes64 bytes = measuredBytes(one.recorder.timeline());
    EXPECT_EQ((bytes[{OperationKind::Dispatch, Pass::Forward}]),
              sum.spread.bytes + sum.route.bytes);
    EXPECT_EQ((bytes[{OperationKind::Combine, Pass::Forward}]), sum.reduce.bytes);
    EXPECT_EQ((bytes[{OperationKind::Combine, Pass::Backward}]), sum.spread.bytes);
    EXPECT_EQ((bytes[{OperationKind::Dispatch, Pass::Backward}]), sum.reduce_scalars.bytes);
}

/// On as many nodes as the launcher said, evenly; false where they are uneven.
bool placeOnNodes(Plan& plan) {
    const ExchangeTopology topology(test::transport().world().nodes());
    plan.cluster.nodes = topology.numNodes();
    plan.cluster.devices_per_node = topology.size() / topology.numNodes();
    return topology.size() % topology.numNodes() == 0;
}

/// What all ranks together hand to the transport for one kind of exchange in a step.
double predictedBytes(const Plan& plan, OperationKind kind, Pass pass) {
    const Phase phase = kind == OperationKind::Dispatch ? Phase::Dispatch : Phase::Combine;
    const OperationWork work =
        operationWork(plan, {kind, phase, pass, LayerKind::Moe, false}, StageId(0));
    return work.communication->bytes.value *
           static_cast<double>(plan.all_to_all.chunks * plan.numMicroBatches() *
                               plan.model.numMoeLayers() * plan.layout.dp);
}

double measuredSum(const test::TinyRun& run, OperationKind kind, Pass pass) {
    Bytes64 bytes = measuredBytes(run.recorder.timeline());
    double sum = static_cast<double>(bytes[{kind, pass}]);
    EXPECT_TRUE(test::transport().world().allReduceSum(std::span(&sum, 1)).ok());
    return sum;
}

TEST(PredictedBytes, AreThoseMeasuredWhereEveryTokenGoesEverywhere) {
    Transport& world = test::transport();
    const std::int64_t n = world.world().size();
    for (const AllToAllAlgorithm algorithm :
         {AllToAllAlgorithm::Auto, AllToAllAlgorithm::Flat, AllToAllAlgorithm::Node,
          AllToAllAlgorithm::Rail, AllToAllAlgorithm::NodePair, AllToAllAlgorithm::NodeDedup}) {
        Plan plan = dedupPlan(algorithm, n);
        plan.model.moe->router_topk = plan.model.moe->num_experts;
        if (!placeOnNodes(plan)) GTEST_SKIP() << "uneven nodes";
        test::TinyRun run(plan, world);
        TrainingOptions options;
        options.steps = 1;
        ASSERT_TRUE(run.train(options).ok());
        for (const auto& [kind, pass] : {std::pair{OperationKind::Combine, Pass::Forward},
                                         std::pair{OperationKind::Combine, Pass::Backward},
                                         std::pair{OperationKind::Dispatch, Pass::Backward}})
            EXPECT_DOUBLE_EQ(measuredSum(run, kind, pass), predictedBytes(plan, kind, pass))
                << toText(algorithm) << ' ' << toText(kind) << ' ' << toText(pass);
        // The numbers that travel with a dispatch are no payload of the model.
        EXPECT_GT(measuredSum(run, OperationKind::Dispatch, Pass::Forward),
                  predictedBytes(plan, OperationKind::Dispatch, Pass::Forward));
    }
}

TEST(PredictedBytes, AreNearThoseOfAMeasuredLoad) {
    Transport& world = test::transport();
    Plan plan = dedupPlan(AllToAllAlgorithm::NodeDedup, world.world().size());
    if (!placeOnNodes(plan)) GTEST_SKIP() << "uneven nodes";
    test::TinyRun run(plan, world);
    TrainingOptions options;
    options.steps = 1;
    ASSERT_TRUE(run.train(options).ok());
    const auto experts = static_cast<std::size_t>(plan.model.moe->num_experts);
    std::vector<std::vector<double>> load(3, std::vector<double>(experts, 0.0));
    for (const ExpertLoad& row : run.recorder.timeline().expert_load)
        for (std::size_t e = 0; e < experts; ++e)
            load[row.layer.index()][e] += static_cast<double>(row.tokens[e]);
    for (auto& layer : load) ASSERT_TRUE(world.world().allReduceSum(std::span<double>(layer)).ok());
    const double measured = measuredSum(run, OperationKind::Combine, Pass::Forward);
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = load;
    const double predicted = predictedBytes(plan, OperationKind::Combine, Pass::Forward);
    EXPECT_NEAR(predicted, measured, 0.05 * measured);
}

}  // namespace
}  // namespace piper
