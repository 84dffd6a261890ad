// SPDX-License-Identifier: Apache-2.0
#include "core/search/expert_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"
#include "core/resources/work.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// OLMoE on one node, every rank of the ep group an eighth of 64 experts.
Plan olmoe(std::int64_t pp = 1) {
    Plan plan = test::h100Plan("configs/OLMoE-1B-7B-0924.json", pp, 2048, 32 * 8);
    plan.layout.pp = pp;
    plan.layout.ep = plan.layout.dp = 8;
    plan.zero_stage = 1;
    return plan;
}

/// The first rank's experts are hot, in each layer others of them.
std::vector<std::vector<double>> skewed(const Plan& plan, std::int64_t rows) {
    std::vector<std::vector<double>> out;
    for (std::int64_t r = 0; r < rows; ++r) {
        std::vector<double>& row =
            out.emplace_back(static_cast<std::size_t>(plan.model.moe->num_experts), 1.0);
        for (std::size_t e = 0; e < 8; ++e)
            row[(e + static_cast<std::size_t>(r) * 8) % row.size()] = 2.0 + static_cast<double>(e);
    }
    return out;
}

ExpertPlacement balanced(const Plan& plan, const PlacementOptions& options = {}) {
    Result<ExpertPlacement> out = balanceExperts(plan, options);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

struct PaperRow {
    const char* model;
    std::int64_t experts, hidden, ffn;
    double gigabytes;  ///< decimal, as its check column; the paper mixes GB and GiB
};

TEST(Migration, WholeLayersMoveAsInThePapersTable) {
    // arXiv 2605.05049, table IV: every expert of a layer changes its rank, 8 ranks at 50 GB/s.
    const PaperRow rows[] = {
        {"Switch-Base", 128, 768, 2048, 1.21},   {"Mixtral 8x7B", 8, 4096, 14336, 2.82},
        {"Mixtral 8x22B", 8, 6144, 16384, 4.83}, {"Grok-1", 8, 6144, 32768, 9.66},
        {"GLaM 1.2T", 64, 8192, 32768, 103.08},  {"DeepSeek-V2", 160, 5120, 1536, 7.55},
        {"DeepSeek-V3", 256, 7168, 2048, 22.55},
    };
    for (const PaperRow& row : rows) {
        Plan plan = olmoe();
        plan.model.num_layers = 1;
        plan.model.layers.assign(1, LayerKind::Moe);
        plan.model.hidden_size = row.hidden;
        plan.model.moe->num_experts = row.experts;
        plan.model.moe->moe_ffn_hidden_size = row.ffn;
        plan.optimizer.gradients = StateFormat::Bf16;
        plan.cluster.device.name = "some accelerator";
        plan.cluster.levels.assign(1, LinkLevel{});
        plan.cluster.levels[0].domain_devices = 8;
        plan.cluster.levels[0].bandwidth = BytesPerSecond(50e9);
        plan.cluster.levels[0].latency = Seconds(0.0);
        plan.zero_stage = 0;
        const ExpertLayout before = ExpertLayout::of({}, row.experts, 8);
        ExpertLayout after = before;
        for (std::vector<std::int64_t>& holders : after.ranks) holders[0] = (holders[0] + 1) % 8;
        const std::vector<ExpertTransfer> moves = expertTransfers(before, after, 8);
        ASSERT_EQ(static_cast<std::int64_t>(moves.size()), row.experts);
        const MigrationCost cost = migrationCost(plan, {moves}, true);
        EXPECT_NEAR(cost.busiest.value / 1e9, row.gigabytes, 0.005) << row.model;
        EXPECT_NEAR(
            cost.busiest.value,
            expertMigrationBytes(static_cast<double>(row.experts), static_cast<double>(row.hidden),
                                 static_cast<double>(row.ffn), 8.0)
                .value,
            1.0);
        EXPECT_NEAR(cost.time.time.value, cost.busiest.value / 50e9, 1e-9) << row.model;
        // What really has to travel between two steps has no gradients: 14 of the 16 bytes.
        EXPECT_NEAR(migrationCost(plan, {moves}).busiest / cost.busiest, 14.0 / 16.0, 1e-12);
    }
}

TEST(Migration, BytesFollowShardsAndLayersOfAStage) {
    Plan plan = olmoe(2);
    const double elements = 3.0 * 2048 * 1024;
    EXPECT_DOUBLE_EQ(expertStateBytes(plan).value, elements * 14.0);
    plan.layout.dp = 8;
    plan.layout.ep = 4;  // edp 2: the optimizer state of an expert is on two ranks
    EXPECT_DOUBLE_EQ(expertStateBytes(plan).value, elements * (2.0 + 12.0 / 2.0));
    const MigrationCost cost = migrationCost(plan, {{{0, 0, 3}, {60, 3, 0}}});
    EXPECT_EQ(cost.transfers, 2 * 16) << "16 layers";
    EXPECT_DOUBLE_EQ(cost.busiest.value, cost.expert.value * 8.0) << "8 layers a stage";
    EXPECT_DOUBLE_EQ(cost.total.value, cost.expert.value * 32.0 * 2.0) << "two ep groups a stage";
    EXPECT_GT(cost.time.time.value, 0.0);
    EXPECT_EQ(migrationCost(plan, {{}}).time.time.value, 0.0);
}

TEST(Migration, TheHolderThatSentLeastSends) {
    ExpertLayout before = ExpertLayout::of({}, 4, 4);
    before.ranks[0] = {0, 1};
    ExpertLayout after = before;
    after.ranks[0] = {1, 2, 3};
    EXPECT_THAT(expertTransfers(before, after, 4),
                ElementsAre(ExpertTransfer{0, 0, 2}, ExpertTransfer{0, 1, 3}));
}

TEST(BalanceExperts, TheNewPlanIsSoundFasterAndPays) {
    Plan plan = olmoe();
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = skewed(plan, 1);
    const ExpertPlacement placed = balanced(plan);
    EXPECT_TRUE(placed.launchable);
    EXPECT_NEAR(placed.imbalance_before, 44.0 * 8 / (44.0 + 56.0), 1e-12);
    // The hottest expert has 9 rows and seven others of its rank 1 each: 16 over the mean of 12.5.
    EXPECT_NEAR(placed.imbalance_after, 1.28, 1e-12);
    EXPECT_TRUE(validatePlan(placed.plan).empty());
    EXPECT_NEAR(routingImbalance(placed.plan, LayerId(0)), placed.imbalance_after, 1e-12);
    EXPECT_EQ(placed.after.step, predict(placed.plan)->step);
    EXPECT_EQ(placed.before.step, predict(plan)->step);
    EXPECT_LT(placed.after.step, placed.before.step);
    EXPECT_LT(placed.after.memory.peak, placed.before.memory.peak);
    ASSERT_TRUE(placed.stepsToPay());
    EXPECT_DOUBLE_EQ(*placed.stepsToPay(), std::ceil(placed.migration.time.time / placed.gain()));
    EXPECT_TRUE(placed.fits);
}

TEST(BalanceExperts, LayersOfTheirOwnAreBetterThanOneForAll) {
    Plan plan = olmoe();
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = skewed(plan, plan.model.num_layers);
    const ExpertPlacement one = balanced(plan);
    const ExpertPlacement each = balanced(plan, {PlacementScope::Layer, 0, 512});
    EXPECT_EQ(one.layouts.size(), 1U);
    EXPECT_EQ(each.layouts.size(), 16U);
    EXPECT_FALSE(each.launchable);
    EXPECT_LT(one.imbalance_after, one.imbalance_before);
    EXPECT_LT(each.imbalance_after, one.imbalance_after);
    EXPECT_LE(each.after.step, one.after.step);
    // The stand-in plan gives predict the loads of the layouts.
    double sum = 0.0;
    for (const LayerId layer : each.moe_layers) sum += routingImbalance(each.plan, layer);
    EXPECT_NEAR(sum / 16.0, each.imbalance_after, 1e-9);
    // An evenly loaded plan has nothing to move.
    plan.routing_load = {};
    const ExpertPlacement none = balanced(plan);
    EXPECT_EQ(none.swaps, 0);
    EXPECT_EQ(none.migration.transfers, 0);
    EXPECT_FALSE(none.stepsToPay());
}

TEST(BalanceExperts, ReplicasCostMemoryAndASync) {
    Plan plan = olmoe();
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = {std::vector<double>(64, 1.0)};
    plan.routing_load.histogram[0][5] = 40.0;  // more than a rank's share: no swap helps
    const ExpertPlacement swapped = balanced(plan);
    const ExpertPlacement replicated = balanced(plan, {PlacementScope::Plan, 8, 512});
    EXPECT_GT(swapped.imbalance_after, 3.0);
    EXPECT_LT(replicated.imbalance_after, 1.3);
    EXPECT_FALSE(replicated.launchable);
    // One more expert on a rank, in each of 16 layers, gradients with it.
    EXPECT_DOUBLE_EQ(replicated.replicas.memory.value, 16.0 * expertStateBytes(plan, true).value);
    EXPECT_GT(replicated.replicas.sync.time.value, 0.0);
    EXPECT_GT(replicated.replicas.sync_payload.value, 0.0);
    EXPECT_EQ(swapped.replicas.memory.value, 0.0);
    // The same answer every time.
    EXPECT_EQ(placementJson(replicated).dump(),
              placementJson(balanced(plan, {PlacementScope::Plan, 8, 512})).dump());
    EXPECT_EQ(placementJson(replicated).at("layouts").size(), 1U);
}

TEST(BalanceExperts, SaysWhatIsMissing) {
    Plan plan = olmoe();
    EXPECT_THAT(balanceExperts(plan, {PlacementScope::Plan, -1, 1}).error().text(),
                HasSubstr("must not be negative"));
    EXPECT_THAT(balanceExperts(plan, {PlacementScope::Plan, 449, 1}).error().text(),
                HasSubstr("64 experts have room for 448 more copies on 8 ep ranks"));
    plan.layout.ep = 1;
    EXPECT_THAT(balanceExperts(plan, {}).error().text(), HasSubstr("set ep to 2 or more"));
    plan = olmoe();
    plan.expert_placement.assign(64, 0);
    EXPECT_THAT(balanceExperts(plan, {}).error().text(), HasSubstr("expert_placement puts 0"));
    plan = olmoe();
    plan.model.moe.reset();
    plan.model.layers.assign(16, LayerKind::Dense);
    EXPECT_THAT(balanceExperts(plan, {}).error().text(), HasSubstr("no experts"));
}

}  // namespace
}  // namespace piper
