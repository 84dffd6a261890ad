// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/topology.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

using Ranks = std::vector<std::int64_t>;

TEST(ExchangeTopology, RelayHasTheSamePlaceModuloTheNode) {
    const ExchangeTopology t({5, 5, 5, 9, 9});
    EXPECT_EQ(t.numNodes(), 2);
    EXPECT_EQ(t.members(1), (Ranks{3, 4}));
    EXPECT_EQ(t.relay(0, 1), 3);
    EXPECT_EQ(t.relay(1, 1), 4);
    EXPECT_EQ(t.relay(2, 1), 3);
    EXPECT_EQ(t.relayedSources(3), (Ranks{0, 2}));
    EXPECT_EQ(t.relayedSources(2), (Ranks{}));
}

TEST(ChooseAlgorithm, AutoFollowsTheNodes) {
    const ExchangeTopology one({0, 0}), two({0, 0, 1, 1}), spread({0, 1, 2});
    EXPECT_EQ(chooseAlgorithm(AllToAllAlgorithm::Auto, one).algorithm, AllToAllAlgorithm::Flat);
    EXPECT_EQ(chooseAlgorithm(AllToAllAlgorithm::Auto, two).algorithm, AllToAllAlgorithm::Node);
    EXPECT_EQ(chooseAlgorithm(AllToAllAlgorithm::Flat, two).algorithm, AllToAllAlgorithm::Flat);
    const AlgorithmChoice fallen = chooseAlgorithm(AllToAllAlgorithm::Node, spread);
    EXPECT_EQ(fallen.algorithm, AllToAllAlgorithm::Flat);
    EXPECT_TRUE(chooseAlgorithm(AllToAllAlgorithm::Rail, two).fell_back);
    EXPECT_TRUE(fallen.fell_back);
    EXPECT_NE(fallen.reason.find("3 nodes"), std::string::npos);
    EXPECT_FALSE(chooseAlgorithm(AllToAllAlgorithm::Auto, spread).fell_back);
}

TEST(ExchangeTraffic, BalancedTwoByTwo) {
    // One row of 10 bytes for every pair of 4 ranks on 2 nodes.
    const ExchangeTopology t({0, 0, 1, 1});
    const std::vector<std::int64_t> rows(16, 1);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(exchangeTraffic(AllToAllAlgorithm::Flat, t, rows, 10, rank),
                  (ExchangeTraffic{3, 30, 2, 20}));
        // To the mate, to the other node (2 rows), and 1 relayed row of the other node's twin.
        EXPECT_EQ(exchangeTraffic(AllToAllAlgorithm::Node, t, rows, 10, rank),
                  (ExchangeTraffic{3, 40, 1, 20}));
        EXPECT_EQ(mirroredTraffic(AllToAllAlgorithm::Node, t, rows, 10, rank),
                  (ExchangeTraffic{3, 40, 1, 20}));
    }
}

TEST(ExchangeTraffic, NoRowsNoMessages) {
    const ExchangeTopology t({0, 0, 1, 1});
    EXPECT_EQ(exchangeTraffic(AllToAllAlgorithm::Node, t, std::vector<std::int64_t>(16, 0), 8, 0),
              ExchangeTraffic{});
}

}  // namespace
}  // namespace piper
