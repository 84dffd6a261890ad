// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/selector.h"

#include <gtest/gtest.h>

#include <random>

namespace piper {
namespace {

/// `tokens` tokens a rank, each with topk distinct owners drawn from all ranks.
SlotOwners drawOwners(std::int64_t ranks, std::int64_t tokens, std::int64_t topk) {
    std::minstd_rand random(5);
    std::vector<std::int64_t> all(static_cast<std::size_t>(ranks));
    for (std::size_t r = 0; r < all.size(); ++r) all[r] = static_cast<std::int64_t>(r);
    SlotOwners owners(static_cast<std::size_t>(ranks));
    for (auto& own : owners)
        for (std::int64_t t = 0; t < tokens; ++t) {
            std::shuffle(all.begin(), all.end(), random);
            own.insert(own.end(), all.begin(), all.begin() + topk);
        }
    return owners;
}

TEST(Selector, BytesDecideLargeRowsAndMessagesSmallOnes) {
    const std::vector<std::int64_t> nodes = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const SlotOwners owners = drawOwners(16, 64, 8);
    const auto large = estimateAlgorithms(nodes, owners, 8, 4096, {});
    EXPECT_EQ(large.front().algorithm, TokenAlgorithm::NodeDedup);
    EXPECT_NE(explainChoice(large).find("the link of node"), std::string::npos);

    ExchangeLinks slow_messages;
    slow_messages.message = Seconds(1e-3);
    slow_messages.node = BytesPerSecond(1e12);
    const auto small = estimateAlgorithms(nodes, owners, 8, 16, slow_messages);
    EXPECT_TRUE(small.front().algorithm == TokenAlgorithm::NodePair ||
                small.front().algorithm == TokenAlgorithm::Node ||
                small.front().algorithm == TokenAlgorithm::NodeDedup)
        << toText(small.front().algorithm);
    EXPECT_LT(small.front().cost.rank_messages, 2 * 15);
    EXPECT_NE(explainChoice(small).find("messages of one rank limit"), std::string::npos);
}

TEST(Selector, OnOneNodeNothingBeatsTheFewestCopies) {
    const auto estimates = estimateAlgorithms({0, 0, 0, 0}, drawOwners(4, 16, 2), 2, 4096, {});
    for (const AlgorithmEstimate& e : estimates) EXPECT_EQ(e.cost.node_bytes, 0.0);
    // All send one message to each mate: the tie on rows of distinct ranks goes to flat.
    EXPECT_EQ(estimates.front().algorithm, TokenAlgorithm::Flat);
}

TEST(Selector, WithoutTokensFlatIsChosen) {
    const auto estimates = estimateAlgorithms({0, 0, 1, 1}, SlotOwners(4), 2, 4096, {});
    EXPECT_EQ(estimates.front().algorithm, TokenAlgorithm::Flat);
    EXPECT_EQ(estimates.front().cost.total().value, 0.0);
}

}  // namespace
}  // namespace piper
