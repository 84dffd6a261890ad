// SPDX-License-Identifier: Apache-2.0
#include "core/resources/measured_routing.h"

#include <gtest/gtest.h>

#include "core/resources/routing.h"
#include "core/resources/work.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

/// Two ep ranks of two layers; `rows` of rank 0 in each micro-batch, of `total`.
Run runOf(const Plan& plan, const std::vector<std::vector<double>>& rows_of_layer, double total) {
    Run run;
    run.ranks.resize(2);
    const auto experts = static_cast<std::size_t>(plan.model.moe->num_experts);
    for (int r = 0; r < 2; ++r) {
        run.ranks[static_cast<std::size_t>(r)].rank = RankId(r);
        for (std::size_t layer = 0; layer < rows_of_layer.size(); ++layer) {
            ExpertLoad load;
            load.layer = LayerId(static_cast<std::int32_t>(layer));
            load.tokens.assign(experts, 0);
            for (std::size_t mb = 0; mb < rows_of_layer[layer].size(); ++mb) {
                const double first = rows_of_layer[layer][mb];
                Event e;
                e.phase = Phase::Expert;
                e.layer = load.layer;
                e.micro_batch = MicroBatchId(static_cast<std::int32_t>(mb));
                e.flops = 1e6 * (r == 0 ? first : total - first);
                run.ranks[static_cast<std::size_t>(r)].events.push_back(e);
                load.tokens[0] += static_cast<std::int64_t>(first);
                load.tokens[experts - 1] += static_cast<std::int64_t>(total - first);
            }
            run.ranks[static_cast<std::size_t>(r)].expert_load.push_back(load);
        }
    }
    return run;
}

Plan twoRanks() {
    Plan plan = test::smallPlan({.ep = 2, .dp = 2});
    plan.model.moe->shared_ffn_hidden_size = 0;
    return plan;
}

TEST(MeasuredRouting, HottestRanksOfMicroBatchesDoNotEvenOut) {
    Plan plan = twoRanks();
    // Each rank is as hot as the other over the run, and once 1.5 times the mean.
    const piper::Run run = runOf(plan, {{75, 25, 75, 25}, {50, 50, 50, 50}}, 100);
    const std::optional<RoutingLoad> load = measuredRouting(run, plan);
    ASSERT_TRUE(load.has_value());
    plan.routing_load = *load;
    EXPECT_NEAR(routingImbalance(plan, LayerId(0)), 1.5, 1e-9);
    EXPECT_NEAR(routingImbalance(plan, LayerId(1)), 1.0, 1e-9);
}

TEST(MeasuredRouting, TheRankWithMostRowsIsTheHottest) {
    Plan plan = twoRanks();
    const piper::Run run = runOf(plan, {{20, 40}, {90, 70}}, 100);
    plan.routing_load = *measuredRouting(run, plan);
    EXPECT_NEAR(routedShares(plan, LayerId(0))[1], 0.7, 1e-9);
    EXPECT_NEAR(routedShares(plan, LayerId(1))[0], 0.8, 1e-9);
}

TEST(MeasuredRouting, MemorySeesTheLargestLoads) {
    Plan plan = twoRanks();
    // Rank 0 has 60 and 90 of 100 rows of micro-batch 0, 150 of 200 over both layers.
    plan.routing_load = *measuredRouting(runOf(plan, {{60, 20}, {90, 30}}, 100), plan);
    ASSERT_EQ(plan.routing_load.peaks.size(), 1U);
    EXPECT_NEAR(exchangeImbalance(plan, StageId(0)), 1.8, 1e-9);
    EXPECT_NEAR(memoryImbalance(plan, StageId(0)), 1.5, 1e-9);
    // Another pipeline depth has other stages: the histogram holds.
    plan.routing_load.peaks.resize(3);
    EXPECT_LT(exchangeImbalance(plan, StageId(0)), 1.8);
}

TEST(MeasuredRouting, WithoutRecordsThereIsNone) {
    const Plan plan = twoRanks();
    EXPECT_FALSE(measuredRouting(piper::Run{}, plan).has_value());
    Plan dense = plan;
    dense.model.moe.reset();
    EXPECT_FALSE(measuredRouting(runOf(plan, {{50}}, 100), dense).has_value());
}

TEST(MeasuredRouting, AGroupWithoutAllItsRanksCountsByItsRowsOfTheRun) {
    Plan plan = twoRanks();
    piper::Run run = runOf(plan, {{80, 80}}, 100);
    run.ranks[1].events.clear();  // a rank that was lost
    plan.routing_load = *measuredRouting(run, plan);
    EXPECT_NEAR(routedShares(plan, LayerId(0))[0], 0.8, 1e-9);
}

}  // namespace
}  // namespace piper
