// SPDX-License-Identifier: Apache-2.0
#include "core/search/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/search/cluster_change.h"
#include "core/search/shortfall.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::HasSubstr;

/// A small MoE model on eight devices of 16 GiB; few dimensions are open, so that every question is
/// a search of some plans.
SearchSpace smallSpace() {
    SearchSpace space;
    space.base = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 1024, 16);
    space.base.cluster.device.memory = gib(16);
    space.base.zero_stage = 1;
    space.base.layout.tp = 1;
    space.fixed = {"tp", "zero_stage", "offload", "rank_order", "chunks", "algorithm", "cp", "etp"};
    space.objective = Objective::TokensPerSecond;
    space.top = 1;
    return space;
}

/// The whole space, not its frugal part.
bool fits(const SearchSpace& space) {
    const Result<SearchResult> found = searchPlans(space, sequentialFor());
    EXPECT_TRUE(found.ok());
    return found.ok() && found->feasible > 0;
}

TEST(ModelFamily, GrowsInTheNamedDirectionAlone) {
    const ModelSpec deepseek = test::exampleModel("configs/DeepSeek-V3.json");
    const ModelSpec layers = familyMember(deepseek, GrowBy::Layers, 70).value();
    EXPECT_EQ(layers.num_layers, 70);
    EXPECT_EQ(layers.numMoeLayers(), 67) << "three dense layers lead, as in the member";
    EXPECT_FALSE(layers.isMoe(LayerId(2)));
    const ModelSpec experts = familyMember(deepseek, GrowBy::Experts, 512).value();
    EXPECT_EQ(experts.moe->num_experts, 512);
    EXPECT_EQ(modelParameters(experts).active - modelParameters(deepseek).active,
              58 * 256 * 7168 + 58 * 256 +
                  (modelParameters(experts).mtp_active - modelParameters(deepseek).mtp_active))
        << "active parameters grow by the router alone";
    const ModelSpec mixtral = test::exampleModel("configs/Mixtral-8x7B-v0.1.json");
    const ModelSpec wide = familyMember(mixtral, GrowBy::Hidden, 16).value();
    EXPECT_EQ(wide.hidden_size, 2 * mixtral.hidden_size);
    EXPECT_EQ(wide.attention.num_heads, 64);
    EXPECT_EQ(wide.attention.num_kv_heads, 16);
    EXPECT_EQ(wide.moe->moe_ffn_hidden_size, 2 * 14336);
    EXPECT_EQ(wide.attention.head_dim, mixtral.attention.head_dim);
    EXPECT_EQ(familyMember(mixtral, GrowBy::Hidden, 8).value(), mixtral);
    for (const GrowBy by : {GrowBy::Layers, GrowBy::Experts, GrowBy::Hidden})
        for (const std::int64_t size : {8, 16, 24, 40})
            EXPECT_TRUE(familyMember(deepseek, by, size).ok()) << toText(by) << size;
}

TEST(ModelFamily, SaysWhatASizeNeeds) {
    const ModelSpec mixtral = test::exampleModel("configs/Mixtral-8x7B-v0.1.json");
    EXPECT_THAT(familyMember(mixtral, GrowBy::Layers, 0).error().text(), HasSubstr("at least 1"));
    EXPECT_THAT(familyMember(mixtral, GrowBy::Experts, 1).error().text(), HasSubstr("at least 2"));
    const ModelSpec deepseek = test::exampleModel("configs/DeepSeek-V3.json");
    EXPECT_THAT(familyMember(deepseek, GrowBy::Layers, 3).error().text(), HasSubstr("at least 4"));
    ModelSpec dense = mixtral;
    dense.moe.reset();
    dense.layers.assign(32, LayerKind::Dense);
    dense.ffn_hidden_size = 14336;
    EXPECT_THAT(familyMember(dense, GrowBy::Experts, 8).error().text(), HasSubstr("is dense"));
    EXPECT_EQ(familyMember(dense, GrowBy::Layers, 40)->layers.size(), 40U);
}

TEST(ClusterChange, KeepsASoundCluster) {
    const ClusterSpec cluster = defaultCluster("H100 SXM", 4).value();
    for (const std::int64_t devices : {1, 2, 4, 8, 16, 32, 64, 800}) {
        const ClusterSpec changed = withDevices(cluster, devices);
        EXPECT_EQ(changed.numDevices(), devices);
        EXPECT_TRUE(checkCluster(changed).empty()) << devices;
    }
    EXPECT_EQ(withNodes(cluster, 1).levels.size(), 1U);
    EXPECT_EQ(withNodes(cluster, 9).levels.back().domain_devices, 72);
    const ClusterSpec faster = withLinks(cluster, true, 2.0);
    EXPECT_EQ(faster.levels.back().bandwidth, cluster.levels.back().bandwidth * 2.0);
    EXPECT_EQ(faster.levels.front().bandwidth, cluster.levels.front().bandwidth);
    EXPECT_TRUE(checkCluster(withLinks(cluster, false, 0.5)).empty());
    EXPECT_EQ(withMemory(cluster, 1.5).device.memory, cluster.device.memory * 1.5);
    const std::string& network = cluster.levels.back().name;
    EXPECT_EQ(withLink(cluster, network, 4.0)->levels.back().bandwidth,
              cluster.levels.back().bandwidth * 4.0);
    EXPECT_THAT(withLink(cluster, network + "x", 2.0).error().text(),
                HasSubstr("nearest: '" + network + "'"));
}

/// Two nodes of eight with points inside a node, over the network, and of one rank a node.
ClusterSpec measuredCluster() {
    ClusterSpec cluster = defaultCluster("H100 SXM", 2).value();
    for (const auto& [ranks, on_node] : {std::pair{8, 8}, std::pair{16, 8}, std::pair{2, 1}})
        for (const CollectiveKind kind : {CollectiveKind::AllToAll, CollectiveKind::AllReduce,
                                          CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
            cluster.curves.collective.push_back(
                {kind, "", ranks, on_node, mib(1.0), microseconds(400.0)});
    return cluster;
}

std::vector<std::int64_t> measuredRanks(const ClusterSpec& cluster) {
    std::vector<std::int64_t> out;
    for (const CollectivePoint& point : cluster.curves.collective)
        if (point.kind == CollectiveKind::AllToAll) out.push_back(point.ranks);
    return out;
}

TEST(ClusterChange, DropsWhatWasMeasuredOnChangedLinksAlone) {
    const ClusterSpec cluster = measuredCluster();
    const auto ranks = [](std::vector<std::int64_t> values) { return values; };
    EXPECT_EQ(measuredRanks(withLinks(cluster, true, 2.0)), ranks({8}));
    EXPECT_EQ(measuredRanks(withLinks(cluster, false, 2.0)), ranks({2}));
    EXPECT_EQ(measuredRanks(withLinks(cluster, true, 1.0)), ranks({8, 16, 2}));
    EXPECT_EQ(measuredRanks(withLink(cluster, cluster.levels.front().name, 1.0).value()),
              ranks({8, 16, 2}));
    EXPECT_EQ(measuredRanks(withLink(cluster, cluster.levels.back().name, 0.5).value()),
              ranks({8}));
    EXPECT_EQ(withLinks(cluster, true, 1.0).levels.back().evidence.kind,
              cluster.levels.back().evidence.kind);
}

TEST(ClusterChange, TakesWholeNodesOnly) {
    EXPECT_DEATH((void)withDevices(defaultCluster("H100 SXM", 4).value(), 12), "broken invariant");
}

TEST(Capacity, TheLargestModelFitsAndTheNextDoesNot) {
    const SearchSpace space = smallSpace();
    for (const GrowBy by : {GrowBy::Layers, GrowBy::Experts, GrowBy::Hidden}) {
        const LargestModel answer = largestModel(space, by, {}).value();
        ASSERT_TRUE(answer.best) << toText(by);
        EXPECT_GT(answer.size, 0);
        EXPECT_EQ(answer.next_size, answer.size + familyStep(space.base.model, by));
        EXPECT_NE(answer.best->prediction.memory.verdict, FitVerdict::DoesNotFit);
        SearchSpace here = space, next = space;
        here.base.model = familyMember(space.base.model, by, answer.size).value();
        next.base.model = familyMember(space.base.model, by, answer.next_size).value();
        EXPECT_TRUE(fits(here));
        EXPECT_FALSE(fits(next));
        EXPECT_EQ(answer.stopped.rule, "memory");
        ASSERT_TRUE(answer.stopped.nearest);
        EXPECT_GT(answer.stopped.nearest->prediction.memory.device_total, gib(16));
        EXPECT_EQ(largestModelJson(answer).dump(),
                  largestModelJson(largestModel(space, by, {}).value()).dump());
    }
}

TEST(Capacity, SizesAreThoseThatFixedDegreesDivide) {
    SearchSpace space = smallSpace();
    space.base.layout.vpp = 2;
    space.base.layout.pp = 2;
    space.fixed.insert(space.fixed.end(), {"vpp", "pp"});
    const LargestModel layers = largestModel(space, GrowBy::Layers, {}).value();
    ASSERT_TRUE(layers.best) << layers.stopped.message;
    EXPECT_EQ(layers.best->plan.layout.vpp, 2);
    EXPECT_NE(layers.best->plan.schedule, ScheduleKind::OneF1B);
    EXPECT_EQ(layers.size % 4, 0);
    EXPECT_EQ(layers.next_size, layers.size + 4);
    EXPECT_EQ(layers.stopped.rule, "memory");
    for (std::int64_t size = layers.next_size; size <= layers.size + 16; size += 4) {
        SearchSpace larger = space;
        larger.base.model = familyMember(space.base.model, GrowBy::Layers, size).value();
        EXPECT_FALSE(fits(larger)) << size;
    }
    space = smallSpace();
    space.base.layout.tp = 8;
    const LargestModel wide = largestModel(space, GrowBy::Hidden, {}).value();
    ASSERT_TRUE(wide.best);
    EXPECT_EQ(wide.size % 8, 0);
    EXPECT_EQ(wide.next_size, wide.size + 8);
    EXPECT_EQ(wide.stopped.rule, "memory");
}

TEST(Capacity, OpenDegreesLeaveNoSizeOut) {
    // Sizes that a larger tp divides may fit where a smaller one in between does not.
    SearchSpace space = smallSpace();
    std::erase(space.fixed, "tp");
    space.base.cluster.device.memory = gib(10);
    space.base.micro_batch_size = 1;
    space.fixed.insert(space.fixed.end(), {"pp", "ep", "micro_batch_size", "schedule"});
    space.base.model = test::exampleModel("configs/Mixtral-8x7B-v0.1.json");
    space.base.model = familyMember(space.base.model, GrowBy::Layers, 2).value();
    const LargestModel answer = largestModel(space, GrowBy::Hidden, {}).value();
    std::int64_t largest = 0;
    for (std::int64_t size = 1; size <= 24; ++size) {
        SearchSpace there = space;
        there.base.model = familyMember(space.base.model, GrowBy::Hidden, size).value();
        if (fits(there)) largest = size;
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(largest, 24);
    EXPECT_EQ(answer.size, largest);
}

TEST(Capacity, NotEvenTheSmallestModel) {
    SearchSpace space = smallSpace();
    space.base.cluster.device.memory = gib(2);
    const LargestModel answer = largestModel(space, GrowBy::Layers, {}).value();
    EXPECT_FALSE(answer.best);
    EXPECT_EQ(answer.next_size, 1);
    EXPECT_EQ(answer.stopped.rule, "memory");
    EXPECT_THAT(answer.stopped.message, HasSubstr("of the 2.00 GiB of a device"));
    EXPECT_TRUE(largestModelJson(answer).at("plan").is_null());
}

TEST(Capacity, FewestDevicesAreTheFirstCountThatFits) {
    SearchSpace space = smallSpace();
    space.base.cluster = defaultCluster("H100 SXM", 4).value();
    space.base.cluster.device.memory = gib(12);
    const FewestDevices answer = fewestDevices(space, 0, {}).value();
    ASSERT_TRUE(answer.best);
    std::int64_t first = 0;
    for (const std::int64_t devices : {1, 2, 4, 8, 16, 24, 32}) {
        SearchSpace there = space;
        there.base.cluster = withDevices(space.base.cluster, devices);
        if (!fits(there)) continue;
        first = devices;
        break;
    }
    EXPECT_EQ(answer.devices, first);
    EXPECT_LE(answer.least_possible, answer.devices);
    EXPECT_EQ(answer.best->plan.layout.world(), answer.devices);
    EXPECT_EQ(answer.stopped.rule, "memory");
    EXPECT_EQ(answer.stopped_devices, answer.devices / 2);
    EXPECT_EQ(fewestDevicesJson(answer).at("stopped_devices").get<std::int64_t>(),
              answer.devices / 2);
    // With less than that it says what stops it and what would do.
    const FewestDevices none = fewestDevices(space, answer.devices / 2, {}).value();
    EXPECT_FALSE(none.best);
    EXPECT_FALSE(none.stopped.message.empty());
    EXPECT_EQ(none.stopped_devices, answer.devices / 2);
    // No more than whole nodes can be asked for.
    space.base.cluster.device.memory = gib(0.25);
    const FewestDevices whole = fewestDevices(space, 12, {}).value();
    EXPECT_FALSE(whole.best);
    EXPECT_EQ(whole.stopped_devices, 8);
    space.base.cluster = defaultCluster("H100 SXM", 1).value();
    EXPECT_THAT(fewestDevices(space, 64, {}).error().text(), HasSubstr("no link that joins nodes"));
}

TEST(Capacity, ARuleAgainstTheFrugalPartIsNoRefusal) {
    // Megatron-LM hides the exchange only without full recompute, which the frugal part takes.
    SearchSpace space = smallSpace();
    space.base.framework = Framework::Megatron;
    space.base.overlap.emplace();
    space.base.overlap->ep = true;
    space.base.layout.pp = 1;
    space.base.micro_batch_size = 1;
    for (const char* key : {"pp", "micro_batch_size", "schedule"}) space.fixed.emplace_back(key);
    space.base.cluster.device.memory = gib(32);
    const FewestDevices fewest = fewestDevices(space, 8, {}).value();
    ASSERT_TRUE(fewest.best) << fewest.stopped.message;
    EXPECT_NE(fewest.best->plan.recompute.granularity, RecomputeGranularity::Full);
    const LargestModel largest = largestModel(space, GrowBy::Layers, {}).value();
    ASSERT_TRUE(largest.best) << largest.stopped.message;
    EXPECT_GT(largest.size, 0);
    EXPECT_EQ(largest.stopped.rule, "memory");
    space.base.cluster.device.memory = gib(2);
    const BestPlan none = bestPlan(space, {}).value();
    EXPECT_FALSE(none.best);
    EXPECT_EQ(none.shortfall.rule, "memory") << none.shortfall.message;
    ASSERT_TRUE(none.shortfall.nearest);
    EXPECT_TRUE(validatePlan(none.shortfall.nearest->plan).empty());
}

TEST(Capacity, ARefusalIsNeverThatAPlanIsSlower) {
    SearchSpace space = smallSpace();
    space.base.layout.tp = 3;  // divides neither heads nor devices
    const BestPlan none = bestPlan(space, {}).value();
    EXPECT_FALSE(none.best);
    EXPECT_NE(none.shortfall.rule, "slower");
    EXPECT_FALSE(none.shortfall.message.empty());
    SearchResult rejected;
    rejected.rejections = {{"tp=1", "slower", "slower than the best"},
                           {"tp=3", "heads", "16 heads over tp 3"}};
    EXPECT_EQ(shortfallOf(space, rejected, {}).value().rule, "heads");
}

TEST(Capacity, OnlyNumbersOfDevicesAndLinksAreNeeded) {
    SearchSpace space = smallSpace();
    ClusterSpec& cluster = space.base.cluster;
    cluster = {};
    cluster.name = "a machine nobody measured";
    cluster.device.name = "accelerator";
    cluster.device.peak[Precision::Bf16] = FlopsPerSecond(200e12);
    cluster.device.memory = gib(16);
    cluster.device.memory_bandwidth = BytesPerSecond(1.6e12);
    cluster.devices_per_node = 4;
    cluster.nodes = 2;
    LinkLevel inside, network;
    inside.name = "inside";
    inside.domain_devices = 4;
    inside.bandwidth = inside.port_bandwidth = BytesPerSecond(100e9);
    network.name = "network";
    network.domain_devices = 8;
    network.bandwidth = network.port_bandwidth = BytesPerSecond(12.5e9);
    cluster.levels = {inside, network};
    ASSERT_TRUE(checkCluster(cluster).empty());
    const LargestModel answer = largestModel(space, GrowBy::Layers, {}).value();
    ASSERT_TRUE(answer.best);
    EXPECT_GT(answer.best->prediction.mfu, 0.0);
}

TEST(Capacity, ABillIsStepsTimesSeconds) {
    RankedPlan plan;
    plan.plan = smallSpace().base;
    plan.plan.layout.dp = 8;
    plan.plan.cluster.price_per_device_hour = 2.5;
    plan.prediction.step = Seconds(2.0);
    const TrainingBill bill = trainingBill(plan, 16 * 1024 * 1000.0, 0.8);
    EXPECT_DOUBLE_EQ(bill.steps, 1000.0);
    EXPECT_DOUBLE_EQ(bill.time.value, 2500.0);
    EXPECT_DOUBLE_EQ(bill.device_hours, 8 * 2500.0 / 3600.0);
    EXPECT_DOUBLE_EQ(bill.price, bill.device_hours * 2.5);
    EXPECT_DOUBLE_EQ(trainingBill(plan, 1.0, 1.0).steps, 1.0) << "no part of a step";
}

Purchases bought(const SearchSpace& space, double factor) {
    return nextPurchases(space, bestPlan(space, {}).value(), factor, {}).value();
}

TEST(Capacity, WhatToBuyIsWhatTheClusterLacks) {
    SearchSpace space = smallSpace();
    space.base.cluster = defaultCluster("H100 SXM", 2).value();
    space.base.cluster = withLinks(space.base.cluster, true, 0.05);
    space.base.layout.ep = 16;
    space.base.layout.pp = 1;
    space.base.micro_batch_size = 1;
    for (const char* key : {"pp", "ep", "micro_batch_size", "schedule"})
        space.fixed.emplace_back(key);
    const Purchases slow = bought(space, 2.0);
    ASSERT_TRUE(slow.now.best);
    ASSERT_EQ(slow.parts.size(), 4U);
    const auto part = [](const Purchases& p, std::string_view name) {
        return *std::ranges::find(p.parts, name, &Purchase::part);
    };
    EXPECT_GT(*part(slow, "network").gain, 0.3) << "every exchange crosses it";
    EXPECT_LT(*part(slow, "node_links").gain, 0.05);
    for (std::size_t i = 1; i < slow.parts.size(); ++i)
        EXPECT_GE(slow.parts[i - 1].tokens_per_second, slow.parts[i].tokens_per_second);
    EXPECT_EQ(part(slow, "nodes").nodes, 4);
    // Nodes come whole: the factor is the one bought.
    const Purchase third = part(bought(space, 1.25), "nodes");
    EXPECT_EQ(third.nodes, 3);
    EXPECT_DOUBLE_EQ(third.factor, 1.5);
    space.base.cluster.device.memory = gib(6);
    const Purchases small = bought(space, 4.0);
    EXPECT_FALSE(small.now.best);
    EXPECT_EQ(small.now.shortfall.rule, "memory");
    EXPECT_TRUE(part(small, "memory").best);
    EXPECT_FALSE(part(small, "memory").gain);
    EXPECT_FALSE(part(small, "network").best);
    EXPECT_TRUE(purchasesJson(small).at("now").is_null());
    EXPECT_THAT(nextPurchases(space, {}, 1.0, {}).error().text(), HasSubstr("must be above 1"));
}

TEST(Capacity, AMeasuredNetworkIsNotComparedWithAModelledOne) {
    SearchSpace space = smallSpace();
    space.base.cluster = measuredCluster();
    std::vector<CollectivePoint>& measured = space.base.cluster.curves.collective;
    std::erase_if(measured, [](const CollectivePoint& point) { return point.ranks == 8; });
    for (CollectivePoint& point : measured) point.time = point.time * 200.0;  // a faulty network
    space.base.layout.ep = 16;
    space.base.layout.pp = 1;
    space.base.micro_batch_size = 1;
    for (const char* key : {"pp", "ep", "micro_batch_size", "schedule"})
        space.fixed.emplace_back(key);
    SearchSpace modelled = space;
    modelled.base.cluster.curves.collective =
        withLinks(space.base.cluster, true, 2.0).curves.collective;
    const BestPlan before = bestPlan(modelled, {}).value();
    const Purchases answer = bought(space, 2.0);
    const Purchase network = *std::ranges::find(answer.parts, "network", &Purchase::part);
    ASSERT_TRUE(network.gain);
    EXPECT_NEAR(*network.gain, before.best->prediction.step / network.best->prediction.step - 1.0,
                1e-9);
    EXPECT_LT(*network.gain, answer.now.best->prediction.step / network.best->prediction.step - 1.0)
        << "slow measured points are no gain of a faster link";
}

}  // namespace
}  // namespace piper
