// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string_view>

#include "core/cost/cost.h"
#include "core/resources/routing.h"
#include "tests/core/cost/groups.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::smallPlan;

/// What a rank sends of a call over its whole `buffer` (of an all-to-all: to the others).
CommunicationWork exchange(CollectiveKind kind, const char* dimension, std::int64_t group,
                           double buffer) {
    const double g = static_cast<double>(group);
    if (kind == CollectiveKind::AllReduce) buffer *= 2.0 * (g - 1.0) / g;
    if (kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter)
        buffer *= (g - 1.0) / g;
    CommunicationWork w;
    w.kind = kind;
    w.dimension = dimension;
    w.group_size = group;
    w.bytes = w.hottest_bytes = Bytes(buffer);
    return w;
}

TEST(Communication, ALibraryIsPricedByItsOwnCurves) {
    // HybridEP on NVL72, 8 ranks, 4096 tokens of 14336 bytes to 8 experts: 561 us published.
    Plan plan = smallPlan({.ep = 8, .dp = 8});
    plan.cluster = *defaultCluster("GB200", 2);
    plan.model.hidden_size = 7168;
    plan.model.moe->router_topk = 8;
    const double payload = 4096.0 * 8 * 14336 * 7 / 8;
    const CommunicationWork work = exchange(CollectiveKind::AllToAll, "ep", 8, payload);
    plan.all_to_all.library = AllToAllLibrary::HybridEp;
    const Cost hybrid = CostModel(plan).communication(work);
    EXPECT_NEAR(hybrid.time.value, 561e-6, 20e-6);
    EXPECT_EQ(hybrid.evidence.kind, EvidenceKind::Published);
    plan.all_to_all.library = AllToAllLibrary::DeepEp;
    EXPECT_GT(CostModel(plan).communication(work).time.value, 1.5 * hybrid.time.value);
}

TEST(Spread, KnownLayoutsOnEightByEight) {
    const Plan inside = smallPlan({.pp = 8, .ep = 8, .dp = 8});
    const CostModel model(inside);
    EXPECT_EQ(model.spreadOf("ep").nodes, 1);
    EXPECT_EQ(model.spreadOf("ep").ranks_per_node, 8);
    EXPECT_EQ(model.spreadOf("pp").nodes, 8);
    EXPECT_EQ(model.spreadOf("pp").ranks_per_node, 1);
    EXPECT_EQ(model.spreadOf("edp").size, 1);
    const Plan across = smallPlan({.tp = 2, .ep = 16, .etp = 1, .dp = 32});
    const CostModel wide(across);
    EXPECT_EQ(wide.spreadOf("tp").ranks_per_node, 2);
    EXPECT_EQ(wide.spreadOf("ep").nodes, 2);
    EXPECT_EQ(wide.spreadOf("ep").ranks_per_node, 8);
    EXPECT_EQ(wide.spreadOf("edp").size, 4);
    EXPECT_EQ(wide.spreadOf("edp").nodes, 4);
    EXPECT_EQ(wide.spreadOf("dp").size, 32);
    EXPECT_EQ(wide.spreadOf("dp").nodes, 8);
    EXPECT_EQ(wide.spreadOf("dp").ranks_per_node, 4);
}

TEST(Spread, AgreesWithTheProcessGridForEveryOrder) {
    const std::vector<Layout> layouts = {{.tp = 2, .cp = 2, .pp = 4, .ep = 4, .etp = 2, .dp = 4},
                                         {.pp = 2, .ep = 8, .dp = 32},
                                         {.tp = 4, .pp = 2, .ep = 8, .etp = 1, .dp = 8},
                                         {.tp = 4, .pp = 4, .ep = 2, .etp = 2, .dp = 4},
                                         {.tp = 8, .pp = 8}};
    for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp"}) {
        for (const Layout& layout : layouts) {
            // With pp between the others both grids must agree on where a stage begins.
            if (std::string_view(order) == "tp-cp-ep-pp-dp" &&
                layout.tp * layout.cp != layout.ep * layout.etp)
                continue;
            Plan plan = smallPlan(layout);
            plan.rank_order = order;
            const CostModel model(plan);
            const ProcessGrid grid(layout, order);
            for (const char* dimension : {"tp", "cp", "pp", "ep", "etp", "edp"}) {
                const std::vector<RankId> group = grid.group(RankId(0), dimension);
                const test::WorstGroup worst = test::worstGroup(grid, layout, dimension, 8);
                const GroupSpread spread = model.spreadOf(dimension);
                EXPECT_EQ(spread.size, static_cast<std::int64_t>(group.size()))
                    << dimension << " of " << order;
                EXPECT_EQ(spread.nodes, worst.nodes) << dimension << " of " << order;
                EXPECT_EQ(spread.ranks_per_node, worst.ranks_per_node)
                    << dimension << " of " << order;
            }
        }
    }
}

TEST(AlphaBeta, AllToAllByHand) {
    const Plan plan = smallPlan({.ep = 16, .dp = 64});
    const CostModel model(plan);
    // 15 MB: 7 peers inside (2 us, 400 GB/s), 8 outside (5 us, 50 GB/s).
    const Cost c = model.communication(exchange(CollectiveKind::AllToAll, "ep", 16, 15e6));
    EXPECT_NEAR(c.time.value, 7 * 2e-6 + 8 * 5e-6 + 8e6 / 50e9, 1e-12);
    EXPECT_EQ(c.evidence.kind, EvidenceKind::VendorPeak);
    EXPECT_LT(c.evidence.low, c.time.value);
    EXPECT_GT(c.evidence.high, c.time.value);
}

TEST(AlphaBeta, AllReduceAndPointToPointByHand) {
    const Plan plan = smallPlan({.tp = 8, .pp = 2, .dp = 4});
    const CostModel model(plan);
    const Cost inside = model.communication(exchange(CollectiveKind::AllReduce, "tp", 8, 8e6));
    EXPECT_NEAR(inside.time.value, 14 * 2e-6 + 2 * 7.0 / 8 * 8e6 / 400e9, 1e-12);
    // dp: 4 nodes, one rank on each: a tree of two steps each way over the slow level.
    const Cost between = model.communication(exchange(CollectiveKind::AllReduce, "dp", 4, 8e6));
    EXPECT_NEAR(between.time.value, 2 * 2 * 5e-6 + 2 * 3.0 / 4 * 8e6 / 50e9, 2e-5);
    const Cost send = model.communication(exchange(CollectiveKind::PointToPoint, "pp", 2, 5e6));
    EXPECT_NEAR(send.time.value, 5e-6 + 5e6 / 50e9, 1e-12);
}

TEST(AlphaBeta, TaperSlowsWhatLeavesTheDomain) {
    Plan plan = smallPlan({.ep = 16, .dp = 64});
    const CommunicationWork w = exchange(CollectiveKind::AllToAll, "ep", 16, 15e9);
    const double straight = CostModel(plan).communication(w).time.value;
    plan.cluster.levels[0].taper = 2.0;
    EXPECT_NEAR(CostModel(plan).communication(w).time.value / straight, 2.0, 1e-3);
}

TEST(AlphaBeta, CallsPayTheirLatencyEach) {
    const Plan plan = smallPlan({.tp = 8, .dp = 8});
    const CostModel model(plan);
    CommunicationWork w = exchange(CollectiveKind::AllReduce, "tp", 8, 8e6);
    const double once = model.communication(w).time.value;
    w.calls = 2;
    EXPECT_NEAR(model.communication(w).time.value - once, 14 * 2e-6, 1e-12);
}

TEST(AlphaBeta, HottestRankDecides) {
    const Plan plan = smallPlan({.ep = 8, .dp = 8});
    CommunicationWork w = exchange(CollectiveKind::AllToAll, "ep", 8, 7e6);
    w.hottest_bytes = Bytes(21e6);
    EXPECT_NEAR(CostModel(plan).communication(w).time.value, 7 * 2e-6 + 21e6 / 400e9, 1e-12);
}

TEST(Measured, CollectivePointsComeBackExactly) {
    Plan plan = smallPlan({.ep = 8, .dp = 8});
    for (const double kib : {1.0, 16.0, 256.0, 4096.0})
        plan.cluster.curves.collective.push_back({CollectiveKind::AllToAll, "flat", 8, 8,
                                                  Bytes(kib * 1024),
                                                  microseconds(20 + kib * 0.05)});
    const CostModel model(plan);
    const auto time_of = [&](double message) {
        return model.communication(exchange(CollectiveKind::AllToAll, "ep", 8, message * 7));
    };
    for (const double kib : {1.0, 16.0, 256.0, 4096.0}) {
        const Cost c = time_of(kib * 1024);
        EXPECT_NEAR(c.time.value, (20 + kib * 0.05) * 1e-6, 1e-12);
        EXPECT_EQ(c.evidence.kind, EvidenceKind::Measured);
        EXPECT_FALSE(c.evidence.extrapolated);
    }
    double previous = 0;
    for (double message = 512; message < 64e6; message *= 1.3) {
        const double t = time_of(message).time.value;
        EXPECT_GT(t, previous);
        previous = t;
    }
    EXPECT_TRUE(time_of(64e6).evidence.extrapolated);
    EXPECT_TRUE(time_of(16).evidence.extrapolated);
}

TEST(Measured, OtherGroupSizesAreExtrapolated) {
    Plan plan = smallPlan({.ep = 16, .dp = 64});
    plan.cluster.curves.collective = {
        {CollectiveKind::AllToAll, "", 8, 8, Bytes(1e6), microseconds(50)}};
    const Cost c =
        CostModel(plan).communication(exchange(CollectiveKind::AllToAll, "ep", 16, 15e6));
    EXPECT_TRUE(c.evidence.extrapolated);
    EXPECT_GT(c.time.value, 50e-6);  // twice the ranks, half of them over the slow level
}

TEST(Measured, TheStagedAlgorithmHasItsOwnCurve) {
    Plan plan = smallPlan({.ep = 8, .dp = 8});
    plan.cluster.curves.collective = {
        {CollectiveKind::AllToAll, "flat", 8, 8, Bytes(1e6), microseconds(50)},
        {CollectiveKind::AllToAll, "node", 8, 8, Bytes(1e6), microseconds(80)}};
    const CommunicationWork w = exchange(CollectiveKind::AllToAll, "ep", 8, 7e6);
    EXPECT_NEAR(CostModel(plan).communication(w).time.value, 50e-6, 1e-12);
    plan.all_to_all.algorithm = AllToAllAlgorithm::Node;
    EXPECT_NEAR(CostModel(plan).communication(w).time.value, 80e-6, 1e-12);
}

TEST(Communication, ATokenThatCrossesOnceCostsItsBytes) {
    // 16 ranks on two nodes: node_dedup is node with the bytes of distinct nodes for those of
    // slots.
    Plan plan = smallPlan({.ep = 16, .dp = 64});
    const MoeSpec& moe = *plan.model.moe;
    const double share =
        expectedNodes(moe.num_experts, moe.router_topk, 2) / static_cast<double>(moe.router_topk);
    ASSERT_LT(share, 1.0);
    const auto time_of = [&](AllToAllAlgorithm algorithm, double bytes) {
        plan.all_to_all.algorithm = algorithm;
        return CostModel(plan)
            .communication(exchange(CollectiveKind::AllToAll, "ep", 16, bytes))
            .time.value;
    };
    EXPECT_DOUBLE_EQ(time_of(AllToAllAlgorithm::NodeDedup, 64e6),
                     time_of(AllToAllAlgorithm::Node, 64e6 * share));
    EXPECT_LT(time_of(AllToAllAlgorithm::NodeDedup, 64e6), time_of(AllToAllAlgorithm::Node, 64e6));
    plan.layout = {.ep = 8, .dp = 64};  // one node: nothing crosses
    const auto inside = exchange(CollectiveKind::AllToAll, "ep", 8, 64e6);
    const double dedup = CostModel(plan).communication(inside).time.value;
    plan.all_to_all.algorithm = AllToAllAlgorithm::Node;
    EXPECT_DOUBLE_EQ(CostModel(plan).communication(inside).time.value, dedup);
}

TEST(Communication, NothingToSendCostsNothing) {
    const Plan plan = smallPlan({});
    EXPECT_EQ(
        CostModel(plan).communication(exchange(CollectiveKind::AllToAll, "ep", 1, 1e6)).time.value,
        0);
}

}  // namespace
}  // namespace piper
