// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/topology.h"

#include <gtest/gtest.h>

#include "kernels/alltoall/traffic.h"

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
    using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
    EXPECT_EQ(t.relayedPairs(AllToAllAlgorithm::Node, 3), (Pairs{{0, 4}, {2, 4}}));
    EXPECT_EQ(t.relayedPairs(AllToAllAlgorithm::Node, 2), (Pairs{}));
    EXPECT_EQ(t.relayedPairs(AllToAllAlgorithm::Rail, 0), (Pairs{{1, 3}, {2, 3}}));
    EXPECT_EQ(t.relayedPairs(AllToAllAlgorithm::Flat, 0), (Pairs{}));
}

TEST(ExchangeTopology, OnePairOfNodesHasOneCarrierOnEach) {
    const ExchangeTopology t({0, 0, 1, 1, 2, 2});
    using Way = ExchangeTopology::Way;
    const auto way = [&](std::int64_t s, std::int64_t d) {
        return t.way(AllToAllAlgorithm::NodePair, s, d);
    };
    EXPECT_EQ(way(0, 2), (Way{0, 1, 3, 2}));
    EXPECT_EQ(way(1, 3), (Way{1, 1, 3, 3}));
    EXPECT_EQ(way(0, 4), (Way{0, 0, 4, 4}));
    EXPECT_EQ(way(0, 1), (Way{0, 0, 1, 1}));
}

TEST(ExchangeTraffic, UniformClosedFormIsTheSumOverRanks) {
    const std::vector<std::vector<std::int64_t>> maps = {
        {0}, {0, 0, 0}, {0, 1, 2}, {0, 0, 1, 1}, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}};
    for (const auto& map : maps)
        for (const AllToAllAlgorithm a : {AllToAllAlgorithm::Flat, AllToAllAlgorithm::Node,
                                          AllToAllAlgorithm::Rail, AllToAllAlgorithm::NodePair}) {
            const ExchangeTopology t(map);
            ExchangeTraffic sum;
            const std::vector<std::int64_t> rows(map.size() * map.size(), 1);
            for (const ExchangeTraffic& rank : exchangeTraffic(a, t, rows, 10)) sum += rank;
            EXPECT_EQ(sum, uniformTraffic(a, t.numNodes(), t.size() / t.numNodes(), 10))
                << toText(a) << " of " << map.size();
        }
}

TEST(ExchangeTraffic, BalancedTwoByTwo) {
    // One row of 10 bytes for every pair of 4 ranks on 2 nodes.
    const ExchangeTopology t({0, 0, 1, 1});
    const std::vector<std::int64_t> rows(16, 1);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(exchangeTraffic(AllToAllAlgorithm::Flat, t, rows, 10)[rank],
                  (ExchangeTraffic{3, 30, 2, 20}));
        // To the other node (2 rows); to the mate the own row and one of the other node's twin.
        EXPECT_EQ(exchangeTraffic(AllToAllAlgorithm::Node, t, rows, 10)[rank],
                  (ExchangeTraffic{2, 40, 1, 20}));
        EXPECT_EQ(mirroredTraffic(AllToAllAlgorithm::Node, t, rows, 10)[rank],
                  (ExchangeTraffic{2, 40, 1, 20}));
    }
}

TEST(ExchangeTraffic, NoRowsNoMessages) {
    const ExchangeTopology t({0, 0, 1, 1});
    const std::vector<std::int64_t> rows(16, 0);
    for (const ExchangeTraffic& rank : exchangeTraffic(AllToAllAlgorithm::Node, t, rows, 8))
        EXPECT_EQ(rank, ExchangeTraffic{});
}

}  // namespace
}  // namespace piper
