// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/tiers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/alltoall/token_exchange.h"
#include "kernels/alltoall/token_traffic.h"
#include "kernels/alltoall/wire_format.h"

namespace piper {
namespace {

using Ranks = std::vector<std::int64_t>;

TEST(ExchangeTiers, RacksThenNodesThenRanks) {
    // Two racks of two nodes of two ranks.
    const auto tiers = ExchangeTiers::make(8, {{0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 1, 1, 2, 2, 3, 3}});
    ASSERT_TRUE(tiers.ok());
    EXPECT_EQ(tiers->numTiers(), 3);
    // Rank 5, second of its rack: one row to the other rack, to the second rank there.
    ASSERT_EQ(tiers->receivers(0, 5).size(), 1U);
    EXPECT_EQ(tiers->receivers(0, 5)[0].rank, 1);
    ASSERT_EQ(tiers->receivers(1, 1).size(), 1U);
    EXPECT_EQ(tiers->receivers(1, 1)[0].rank, 3);
    EXPECT_EQ(tiers->receivers(2, 1)[0].rank, 0);
    EXPECT_EQ(tiers->givers(0, 1), (Ranks{5}));
    EXPECT_EQ(tiers->sources(0, 1), (Ranks{1}));
    EXPECT_EQ(tiers->sources(1, 1), (Ranks{1, 5}));
    EXPECT_EQ(tiers->sources(2, 1), (Ranks{1, 3, 5, 7}));
}

TEST(ExchangeTiers, UnevenNodesShareRelays) {
    const auto tiers = ExchangeTiers::make(4, {{0, 0, 0, 1}});
    ASSERT_TRUE(tiers.ok());
    EXPECT_EQ(tiers->givers(0, 3), (Ranks{0, 1, 2}));
    EXPECT_EQ(tiers->givers(0, 0), (Ranks{3}));
    EXPECT_EQ(tiers->givers(0, 1), (Ranks{}));
}

TEST(ExchangeTiers, NodesInTwoRacksAreRefused) {
    const auto tiers = ExchangeTiers::make(4, {{0, 0, 0, 1}, {0, 0, 1, 1}});
    ASSERT_FALSE(tiers.ok());
    EXPECT_NE(tiers.error().message.find("ranks 2 and 3"), std::string::npos);
    EXPECT_FALSE(ExchangeTiers::make(4, {{0, 0, 0}}).ok());
}

TEST(TokenTraffic, OneTokenCrossesOnceAndOneSumComesBack) {
    // Rank 0's token: both ranks of node 1 and its own mate; rows of 100 bytes.
    const Ranks nodes = {0, 0, 1, 1};
    const auto tiers = dedupTiers(TokenAlgorithm::NodeDedup, nodes, {});
    const SlotOwners owners = {{2, 3, 3, 1}, {}, {}, {}};
    const std::vector<TokenTraffic> ranks = tokenTraffic(*tiers, nodes, owners, 4, 100);
    const TokenTraffic& source = ranks[0];
    EXPECT_EQ(source.spread, (ExchangeTraffic{2, 200, 1, 100}));
    EXPECT_EQ(source.reduce, ExchangeTraffic{});
    const TokenTraffic& relay = ranks[2];
    EXPECT_EQ(relay.spread, (ExchangeTraffic{1, 100, 0, 0}));
    EXPECT_EQ(relay.reduce, (ExchangeTraffic{1, 100, 1, 100}));
    EXPECT_EQ(relay.reduce_scalars, (ExchangeTraffic{1, 112, 1, 112}));
    // Numbers for one source across, for two inside; records of three slots and of one.
    EXPECT_EQ(source.route, (ExchangeTraffic{4, 8 + 16 + 24 + 8, 2, 8 + 24}));
}

TEST(WireFormat, RowsKeepWhatTheFormatHolds) {
    std::vector<float> row(300);
    for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = std::sin(static_cast<float>(i)) * std::pow(2.0F, static_cast<float>(i % 7));
    for (const auto& [format, bytes, error] :
         {std::tuple{WireFormat::Fp32, 1200, 0.0F}, std::tuple{WireFormat::Bf16, 600, 1.0F / 256},
          std::tuple{WireFormat::Fp8, 312, 1.0F / 16}}) {
        EXPECT_EQ(wireRowBytes(format, 300), bytes);
        std::vector<std::byte> wire(static_cast<std::size_t>(bytes));
        std::vector<float> back(row.size());
        encodeRow(format, row, wire.data());
        decodeRow(format, wire.data(), back);
        for (std::size_t i = 0; i < row.size(); ++i)
            EXPECT_NEAR(back[i], row[i], std::fabs(row[i]) * error + (error > 0.01F ? 2e-4F : 0))
                << toText(format) << " element " << i;
        const std::vector<float> once = back;
        addDecodedRow(format, wire.data(), back);
        for (std::size_t i = 0; i < row.size(); ++i) EXPECT_EQ(back[i], 2 * once[i]);
    }
}

TEST(WireFormat, EveryFp8ValueComesBackAsItWas) {
    // Scale 1: the largest element is 448.
    std::vector<float> row = {448,           -448, 416,    0.015625F, 0.001953125F,
                              -0.013671875F, 0,    1.125F, 240};
    std::vector<std::byte> wire(static_cast<std::size_t>(wireRowBytes(WireFormat::Fp8, 9)));
    std::vector<float> back(row.size());
    encodeRow(WireFormat::Fp8, row, wire.data());
    decodeRow(WireFormat::Fp8, wire.data(), back);
    EXPECT_EQ(back, row);
    std::vector<float> zeros(9, 0.0F);
    encodeRow(WireFormat::Fp8, zeros, wire.data());
    decodeRow(WireFormat::Fp8, wire.data(), back);
    EXPECT_EQ(back, zeros);
}

}  // namespace
}  // namespace piper
