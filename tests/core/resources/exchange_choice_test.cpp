// SPDX-License-Identifier: Apache-2.0
#include "core/resources/exchange_choice.h"

#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/resources/work.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

Seconds ms(double value) {
    return Seconds(1e-3 * value);
}

/// 8 ranks on 4 nodes, 192 tokens a rank, rows of 4,096 bytes, top-8.
ExchangeSetting setting() {
    ExchangeSetting s;
    s.ranks = 8;
    s.nodes = s.reach = 4;
    s.tokens = 192;
    s.row_bytes = 4096;
    s.topk = 8;
    return s;
}

ExchangePoint point(const char* algorithm, double milliseconds) {
    ExchangePoint p;
    p.algorithm = algorithm;
    p.ranks = 8;
    p.nodes = 4;
    p.tokens = 192;
    p.row = Bytes(4096);
    p.topk = 8;
    p.time = ms(milliseconds);
    return p;
}

MeasuredCurves table() {
    MeasuredCurves curves;
    curves.exchange = {point("vendor", 30), point("flat", 31), point("rank_dedup", 1),
                       point("node_dedup", 15)};
    for (ExchangePoint p : {point("vendor", 2), point("flat", 3), point("node_dedup", 4)}) {
        p.row = Bytes(256);
        curves.exchange.push_back(p);
    }
    return curves;
}

TEST(MeasuredChoice, TheFastestOfTheNearestSetting) {
    const auto large = measuredChoice(table(), setting());
    ASSERT_TRUE(large);
    EXPECT_EQ(large->algorithm, AllToAllAlgorithm::NodeDedup);  // no plan names rank_dedup
    EXPECT_EQ(large->flat, ms(31));
    EXPECT_EQ(large->vendor, ms(30));
    ExchangeSetting small = setting();
    small.row_bytes = 400;
    EXPECT_EQ(measuredChoice(table(), small)->algorithm, AllToAllAlgorithm::Vendor);
}

TEST(MeasuredChoice, WhatCannotRunIsNotChosen) {
    ExchangeSetting s = setting();
    s.tokens_move = false;
    EXPECT_EQ(measuredChoice(table(), s)->algorithm, AllToAllAlgorithm::Vendor);
    MeasuredCurves curves;
    curves.exchange = {point("node_dedup", 15)};
    EXPECT_FALSE(measuredChoice(curves, s));
}

TEST(MeasuredChoice, FarSettingsSayNothing) {
    ExchangeSetting more_ranks = setting(), one_node = setting(), more_bytes = setting();
    more_ranks.ranks = 32;
    one_node.nodes = one_node.reach = 1;
    more_bytes.tokens *= 8;
    for (const ExchangeSetting& s : {more_ranks, one_node, more_bytes})
        EXPECT_FALSE(measuredChoice(table(), s));
}

TEST(MeasuredChoice, LimitAndSkewPickTheirOwnPoints) {
    MeasuredCurves curves = table();
    for (ExchangePoint p : {point("flat", 8), point("node", 7), point("node_dedup", 9)}) {
        p.node_limit = 2;
        p.imbalance = 2.5;
        curves.exchange.push_back(p);
    }
    ExchangeSetting s = setting();
    s.reach = 2;
    s.imbalance = 2.2;
    EXPECT_EQ(measuredChoice(curves, s)->algorithm, AllToAllAlgorithm::Node);
    EXPECT_EQ(measuredChoice(curves, setting())->algorithm, AllToAllAlgorithm::NodeDedup);
}

TEST(FormulaChoice, BytesDecideLargeRowsAndMessagesSmallOnes) {
    const FormulaChoice large = formulaChoice(setting(), 64, {});
    EXPECT_EQ(large.algorithm, AllToAllAlgorithm::NodeDedup);
    // 2 ranks, there and back, 192 tokens, 2.74 of 3 other nodes.
    EXPECT_NEAR(large.cost.node_bytes, 2 * 2 * 192 * 2.744 * 4096, 3e3);
    EXPECT_NE(large.cost.limit().find("the link of a node limits"), std::string::npos);
    ExchangeSetting small = setting();
    small.ranks = 64;
    small.nodes = small.reach = 8;
    small.tokens = 1;
    small.row_bytes = 4;
    const FormulaChoice few = formulaChoice(small, 64, {});
    EXPECT_NE(few.algorithm, AllToAllAlgorithm::Flat);
    EXPECT_LT(few.cost.rank_messages, few.flat.rank_messages / 3);
    EXPECT_NE(few.cost.limit().find("messages of one rank limit"), std::string::npos);
    small.tokens_move = false;
    EXPECT_NE(formulaChoice(small, 64, {}).algorithm, AllToAllAlgorithm::NodeDedup);
}

TEST(PairsChoice, ManySmallMessagesAreJoinedAndLargeOnesGoStraight) {
    // 16 nodes of 8 ranks, a microsecond a message, 12.5 GB/s a rank.
    ExchangeLinks links;
    links.node = gbps(100);
    links.local = gbps(300);
    links.copy = gbps(500);
    links.message = links.latency = microseconds(1);
    const FormulaChoice small = pairsChoice(128, 16, 256, links);
    EXPECT_TRUE(small.algorithm == AllToAllAlgorithm::Node ||
                small.algorithm == AllToAllAlgorithm::Rail);
    // 15 to other nodes, 7 inside, two hops; what crosses takes 2.5 us meanwhile, copies 0.2 us.
    EXPECT_DOUBLE_EQ(small.cost.rank_messages, 22);
    EXPECT_NEAR(small.cost.total().value, 23.2e-6, 0.1e-6);
    EXPECT_NEAR(small.flat.total().value, 128e-6, 0.1e-6);
    const FormulaChoice large = pairsChoice(128, 16, 262144, links);
    EXPECT_EQ(large.algorithm, AllToAllAlgorithm::Flat);
    // 120 remote ranks' bytes from each of 8, over the node's link.
    EXPECT_DOUBLE_EQ(large.cost.node_bytes, 8.0 * 120 * 262144);
    EXPECT_EQ(pairsChoice(8, 1, 64, links).algorithm, AllToAllAlgorithm::Flat);
    EXPECT_EQ(pairsChoice(8, 8, 64, links).algorithm, AllToAllAlgorithm::Flat);
}

TEST(PairsChoice, CopiesAreThoseOfEachStation) {
    // 2 nodes of 2 ranks, a byte a pair. Node: 2 packed for the other node; of the 2 that come one
    // is unpacked, the other packed with the mate's own; the mate's 2 unpacked.
    EXPECT_DOUBLE_EQ(copiedBytes(AllToAllAlgorithm::Node, 2, 2, 2), 2 + 1 + 2 + 2);
    // Rail: 2 packed for the mate, whose 2 come; 1 of these and the own one packed across; the
    // mate's own and 2 from there unpacked.
    EXPECT_DOUBLE_EQ(copiedBytes(AllToAllAlgorithm::Rail, 2, 2, 2), 2 + 2 + 1 + 2);
    EXPECT_DOUBLE_EQ(copiedBytes(AllToAllAlgorithm::Flat, 2, 1, 2), 0.0);
    EXPECT_DOUBLE_EQ(copiedBytes(AllToAllAlgorithm::NodePair, 2, 3, 2), 8.0);
}

/// ep 8 of our worker on two nodes of four.
Plan ownPlan() {
    Plan plan = test::smallPlan({.ep = 8, .dp = 8});
    plan.framework = Framework::Plain;
    plan.cluster.device.kind = DeviceKind::Cpu;
    plan.cluster.devices_per_node = 4;
    plan.cluster.nodes = 2;
    return plan;
}

TEST(ChooseExchange, ModelAndWorkerAskTheSame) {
    Plan plan = ownPlan();
    const AlgorithmChoice choice = chooseExchange(plan, 8, 2);
    EXPECT_EQ(exchangeAlgorithm(plan), choice.algorithm);
    EXPECT_EQ(pickExchange(plan, 8, 2), choice.algorithm);
    EXPECT_NE(choice.reason.find("by the cost formulas"), std::string::npos) << choice.reason;
    EXPECT_EQ(chooseExchange(plan, 8, 1).algorithm, AllToAllAlgorithm::Flat);

    for (const auto& [name, time] : {std::pair{"rail", 2.0}, {"vendor", 2.5}, {"flat", 3.0}}) {
        ExchangePoint p = point(name, time);
        p.nodes = 2;
        p.tokens = 64;
        p.row = Bytes(256);
        p.topk = 2;
        plan.cluster.curves.exchange.push_back(p);
    }
    const AlgorithmChoice measured = chooseExchange(plan, 8, 2);
    EXPECT_EQ(measured.algorithm, AllToAllAlgorithm::Rail);
    EXPECT_EQ(exchangeAlgorithm(plan), AllToAllAlgorithm::Rail);
    EXPECT_NE(measured.reason.find("2 ms for dispatch and combine, flat 3 ms, vendor 2.5 ms"),
              std::string::npos)
        << measured.reason;
    plan.all_to_all.algorithm = AllToAllAlgorithm::Node;
    EXPECT_EQ(chooseExchange(plan, 8, 2).algorithm, AllToAllAlgorithm::Node);
}

TEST(ChooseExchange, OthersHandRowsToTheirLibrary) {
    Plan plan = ownPlan();
    plan.framework = Framework::Megatron;
    EXPECT_EQ(exchangeAlgorithm(plan), AllToAllAlgorithm::Flat);
    plan.framework = Framework::Plain;
    plan.cluster.device.kind = DeviceKind::Gpu;
    EXPECT_EQ(exchangeAlgorithm(plan), AllToAllAlgorithm::Flat);
}

TEST(ChooseExchange, TheTableIsPartOfTheClusterFile) {
    Plan plan = ownPlan();
    plan.cluster.curves = table();
    plan.cluster.curves.exchange[0].node_limit = 2;
    plan.cluster.curves.exchange[0].imbalance = 1.5;
    const auto back = readCluster(writeCluster(plan.cluster), "cluster");
    ASSERT_TRUE(back.ok()) << back.error().text();
    EXPECT_EQ(writeCluster(*back), writeCluster(plan.cluster));
    ASSERT_EQ(back->curves.exchange.size(), plan.cluster.curves.exchange.size());
    EXPECT_EQ(back->curves.exchange[0].node_limit, 2);
    EXPECT_EQ(back->curves.exchange[0].imbalance, 1.5);
    EXPECT_EQ(back->curves.exchange[3].time, ms(15));
}

TEST(ExchangeLinks, AreThoseOfTheCluster) {
    ClusterSpec cluster = ownPlan().cluster;
    cluster.levels.resize(2);
    cluster.levels[0].domain_devices = 4;
    cluster.levels[0].bandwidth = gbps(2);
    cluster.levels[1].domain_devices = 8;
    cluster.levels[1].bandwidth = gbps(0.5);
    cluster.levels[1].latency = microseconds(30);
    cluster.device.memory_bandwidth = gbps(8);
    const ExchangeLinks links = exchangeLinks(cluster, 2);
    EXPECT_EQ(links.node, gbps(1));
    EXPECT_EQ(links.local, gbps(2));
    EXPECT_EQ(links.message, microseconds(30));
    EXPECT_EQ(links.latency, microseconds(30));
    EXPECT_EQ(links.copy, gbps(4));
}

}  // namespace
}  // namespace piper
