// SPDX-License-Identifier: Apache-2.0
// Roofs of collectives, with the cases that users met (tests/data/user_cases.csv, kinds
// comm-formula and comm).
#include "core/cost/roof.h"

#include <gtest/gtest.h>

#include "tests/core/resources/plans.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

/// Nodes of eight devices; the NICs of a node together carry `node_gb_s`.
ClusterSpec cluster(std::int64_t nodes, double node_gb_s, double inside_gb_s = 450) {
    ClusterSpec c = test::roundCluster(nodes);
    c.levels[0].bandwidth = c.levels[0].port_bandwidth = gbps(inside_gb_s);
    c.levels[1].bandwidth = c.levels[1].port_bandwidth = gbps(node_gb_s / 8);
    return c;
}

double algbw(const ClusterSpec& c, CollectiveKind kind) {
    const Result<CollectiveRoof> roof = collectiveRoof(c, kind, c.numDevices());
    EXPECT_TRUE(roof.ok());
    return roof.ok() ? roof->algbw.value / 1e9 : 0.0;
}

bool inTable(const char* id) {
    const std::string text = test::readText(test::sourceDir() / "tests/data/user_cases.csv");
    return text.find(std::string("\n") + id + ",") != std::string::npos;
}

TEST(UserCaseC01, CeilingsOfAnAllToAllOverOneNicADevice) {
    EXPECT_TRUE(inTable("C01"));
    const std::pair<std::int64_t, double> printed[] = {{2, 97.0}, {4, 64.7}, {6, 58.2}, {16, 51.7}};
    for (const auto& [nodes, ceiling] : printed) {
        const ClusterSpec c = cluster(nodes, 8 * 48.5);
        EXPECT_NEAR(algbw(c, CollectiveKind::AllToAll), ceiling, 0.05) << nodes;
        const auto roof = collectiveRoof(c, CollectiveKind::AllToAll, 8 * nodes);
        const double n = static_cast<double>(8 * nodes);
        EXPECT_DOUBLE_EQ(roof->busbw.value, roof->algbw.value * (n - 1) / n);
        EXPECT_EQ(roof->level, "ib");
        EXPECT_NEAR(roof->algbw.value * roof->wire_share, 48.5e9, 1);
    }
}

TEST(UserCaseC02, SixNodesOfEightNics) {
    EXPECT_TRUE(inTable("C02"));
    // 48-49 GB/s per NIC and device: 58 GB/s, per device, not per node.
    EXPECT_NEAR(algbw(cluster(6, 8 * 48.5), CollectiveKind::AllToAll), 58.2, 0.05);
}

TEST(UserCaseC03, TwentyOfFiftyTwoIsTwoAndAHalfTimesLow) {
    EXPECT_TRUE(inTable("C03"));
    const double roof = algbw(cluster(16, 8 * 48.5), CollectiveKind::AllToAll);
    EXPECT_NEAR(roof, 51.7, 0.05);
    EXPECT_NEAR(roof / 20.5, 2.5, 0.1);
}

TEST(UserCaseC04, EightDevicesShareA100GbitNic) {
    EXPECT_TRUE(inTable("C04"));
    const double roof = algbw(cluster(8, 12.5), CollectiveKind::AllToAll);
    EXPECT_NEAR(roof, 1.5625 * 8 / 7, 1e-9);
    EXPECT_NEAR(roof / 0.51, 3.5, 0.05);
}

TEST(UserCaseC05, ANicOverItsDevices) {
    EXPECT_TRUE(inTable("C05"));
    const auto roof = collectiveRoof(cluster(64, 25), CollectiveKind::AllToAll, 512);
    EXPECT_NEAR(roof->per_device.value, 25e9 / 8, 1);  // "about 3 GB/s per GPU"
    EXPECT_NEAR(roof->busbw.value / 1e9, 3.1, 0.1);
}

TEST(UserCaseC06, HalfTheNicsHalfTheRoof) {
    EXPECT_TRUE(inTable("C06"));
    const double all = algbw(cluster(2, 400), CollectiveKind::AllToAll);
    const double half = algbw(cluster(2, 200), CollectiveKind::AllToAll);
    const double one = algbw(cluster(2, 50), CollectiveKind::AllToAll);
    EXPECT_DOUBLE_EQ(half, all / 2);
    EXPECT_NEAR(4.6 / (wireBandwidth(gbps(one), 2).value / 1e9), 0.74,
                0.01);  // one NIC explains it
}

TEST(UserCaseC07, FourNodesFarBelowTheRoof) {
    EXPECT_TRUE(inTable("C07"));
    // Printed with the own node: roof 66.7 at four nodes, README class 57-61, seen 12.5.
    const double roof = algbw(cluster(4, 400), CollectiveKind::AllToAll);
    EXPECT_NEAR(roof, 66.7, 0.05);
    EXPECT_GT(roof, 61.0);
    EXPECT_LT(wireBandwidth(gbps(12.5), 4).value, 0.2 * 50e9);  // the fabric, not the kernel
}

TEST(UserCaseC08, PrintedFiguresCountTheOwnNode) {
    EXPECT_TRUE(inTable("C08"));
    EXPECT_NEAR(wireBandwidth(gbps(43.2), 2).value / 1e9, 21.6, 1e-9);
    EXPECT_NEAR(wireBandwidth(gbps(43), 2).value / 1e9, 21.5, 1e-9);
    EXPECT_EQ(wireBandwidth(gbps(43), 1).value, 0.0);
}

TEST(UserCaseC09, SixtyPercentOfWhatOthersReach) {
    EXPECT_TRUE(inTable("C09"));
    // 43 printed on two nodes is 21.5 of a NIC's 50; 25.8 is 12.9: a quarter of the roof.
    EXPECT_LT(
        wireBandwidth(gbps(25.8), 2).value,
        0.26 * collectiveRoof(cluster(2, 400), CollectiveKind::AllToAll, 16)->per_device.value);
}

TEST(UserCaseC11, FourHdrNicsCarryAnAllReduceOfAHundred) {
    EXPECT_TRUE(inTable("C11"));
    const auto roof = collectiveRoof(cluster(2, 100, 300), CollectiveKind::AllReduce, 16);
    EXPECT_NEAR(roof->busbw.value, 100e9, 1);
    EXPECT_LT(30e9 / roof->busbw.value, 0.4);
    EXPECT_GT(93e9 / roof->busbw.value, 0.9);
}

TEST(Roof, InsideANodeAndBadInput) {
    const ClusterSpec c = cluster(2, 400);
    const auto inside = collectiveRoof(c, CollectiveKind::AllReduce, 8);
    EXPECT_EQ(inside->level, "nvlink");
    EXPECT_NEAR(inside->busbw.value, 450e9, 1);
    EXPECT_DOUBLE_EQ(busFactor(CollectiveKind::AllReduce, 8), 1.75);
    EXPECT_DOUBLE_EQ(busFactor(CollectiveKind::AllGather, 8), 0.875);
    EXPECT_FALSE(collectiveRoof(c, CollectiveKind::AllReduce, 1).ok());
    const auto many = collectiveRoof(c, CollectiveKind::AllReduce, 17);
    ASSERT_FALSE(many.ok());
    EXPECT_NE(many.error().text().find("16"), std::string::npos);
    ClusterSpec tapered = c;
    tapered.levels[0].taper = 2.0;
    EXPECT_NEAR(algbw(tapered, CollectiveKind::AllToAll), algbw(c, CollectiveKind::AllToAll) / 2,
                1e-9);
}

}  // namespace
}  // namespace piper
