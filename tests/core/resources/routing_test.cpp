// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "core/resources/routing.h"
#include "core/resources/work.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::smallPlan;

Plan planOver(std::int64_t ep) {
    return smallPlan({.ep = ep, .dp = ep});
}

TEST(Routing, UniformIsBalanced) {
    EXPECT_DOUBLE_EQ(routingImbalance(planOver(4), LayerId(0)), 1.0);
    for (const double share : routedShares(planOver(4), LayerId(0))) EXPECT_DOUBLE_EQ(share, 0.25);
}

TEST(Routing, PlacementThatCrowdsARankShows) {
    Plan plan = planOver(2);
    plan.expert_placement = {0, 0, 0, 0, 0, 0, 1, 1};
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(0)), 1.5);  // 6 of 8 experts, times 2 ranks
}

TEST(Routing, HistogramAndPlacementByLayer) {
    Plan plan = planOver(2);
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = {{4, 0, 0, 0, 2, 1, 1, 0},
                                   {1, 1, 1, 1, 1, 1, 1, 1},
                                   {0, 0, 0, 0, 8, 0, 0, 0},
                                   {6, 0, 0, 0, 2, 0, 0, 0}};
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(0)), 1.0);
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(1)), 1.0);
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(2)), 2.0);
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(3)), 1.5);
    plan.expert_placement = {0, 1, 1, 1, 0, 1, 0, 0};  // experts 0 and 4 together
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(3)), 2.0);
}

TEST(Routing, WhatOneExpertCannotTakeGoesToTheOthers) {
    Plan plan = planOver(1);
    MoeSpec& moe = *plan.model.moe;
    moe.num_experts = 6;
    moe.router_topk = 2;
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = {{0, 0, 9, 0, 0, 0}, {6, 3, 1, 0, 0, 0}};
    const std::vector<double> even = drawableShares(plan, LayerId(0));
    for (std::size_t e = 0; e < even.size(); ++e) EXPECT_NEAR(even[e], e == 2 ? 0.5 : 0.1, 1e-12);
    // 0.1 too much, of which the others get in proportion 3 : 1.
    const std::vector<double> shares = drawableShares(plan, LayerId(1));
    EXPECT_NEAR(shares[0], 0.5, 1e-12);
    EXPECT_NEAR(shares[1], 0.375, 1e-12);
    EXPECT_NEAR(shares[2], 0.125, 1e-12);
    EXPECT_EQ(shares[3], 0.0);
}

TEST(Routing, ZipfGrowsWithItsExponentAndStaysPossible) {
    Plan plan = planOver(4);
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    double previous = 1.0;
    for (const double exponent : {0.0, 0.5, 1.0, 2.0, 8.0}) {
        plan.routing_load.zipf_exponent = exponent;
        const std::vector<double> shares = routedShares(plan, LayerId(0));
        EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1.0, 1e-12);
        const double imbalance = routingImbalance(plan, LayerId(0));
        EXPECT_GE(imbalance, previous);
        EXPECT_LE(imbalance, 4.0 + 1e-12);
        previous = imbalance;
    }
    // Two picks of each token: expert 0 is full at half of the rows, expert 1 gets nearly all of
    // the other half, both on rank 0.
    EXPECT_GT(previous, 3.9);
}

TEST(Routing, ZipfByHand) {
    Plan plan = planOver(8);
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 1.0;
    const double harmonic = 1 + 1. / 2 + 1. / 3 + 1. / 4 + 1. / 5 + 1. / 6 + 1. / 7 + 1. / 8;
    EXPECT_NEAR(routingImbalance(plan, LayerId(0)), 8 / harmonic, 1e-12);
}

TEST(Routing, CapacityPadsEveryRankAlike) {
    Plan plan = planOver(4);
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 2.0;
    plan.capacity_factor = 1.25;
    EXPECT_DOUBLE_EQ(routingImbalance(plan, LayerId(0)), 1.0);
}

/// The duplicates among dispatched rows that docs/formulas.md lists: 1 - nodes / k.
TEST(Routing, NodesATokenReaches) {
    EXPECT_NEAR(1.0 - expectedNodes(256, 8, 2) / 8, 0.7509, 5e-5);
    EXPECT_NEAR(1.0 - expectedNodes(256, 8, 4) / 8, 0.5482, 5e-5);
    EXPECT_DOUBLE_EQ(expectedNodes(256, 8, 1), 1.0);
    EXPECT_DOUBLE_EQ(expectedNodes(8, 8, 4), 4.0);  // all experts: all nodes
    // DeepSeek-V3 keeps a token on 4 of 8 nodes.
    EXPECT_LT(expectedNodes(256, 8, 8, 4), 4.0);
    EXPECT_GT(expectedNodes(256, 8, 8, 4), 3.5);
    EXPECT_GT(expectedNodes(256, 8, 8), 5.0);
}

TEST(Routing, TheLimitIsThePlansOrTheRouters) {
    Plan plan = test::smallPlan({.ep = 8, .dp = 8});
    EXPECT_EQ(nodeLimit(plan, 4), 4);
    plan.all_to_all.node_limit = 2;
    EXPECT_EQ(nodeLimit(plan, 4), 2);
    EXPECT_EQ(nodeLimit(plan, 1), 1);
    plan.all_to_all.node_limit = 0;
    plan.model.moe->num_groups = 8;
    plan.model.moe->topk_groups = 4;
    EXPECT_EQ(nodeLimit(plan, 8), 4);
    EXPECT_EQ(nodeLimit(plan, 3), 3);  // groups do not lie on nodes
}

}  // namespace
}  // namespace piper
