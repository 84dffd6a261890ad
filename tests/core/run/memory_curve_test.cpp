// SPDX-License-Identifier: Apache-2.0
#include "core/run/memory_curve.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(MemoryCurve, HoldsTheSumOfTermsOnTheCommonClock) {
    RankTimeline rank;
    EXPECT_TRUE(MemoryCurve(rank).empty());
    rank.offset_ns = 1000;
    rank.memory = {{0, MemoryTerm::Weights, 50},
                   {10, MemoryTerm::Gradients, 30},
                   {10, MemoryTerm::Weights, 40},  // with the one before: a transfer is no peak
                   {20, MemoryTerm::Gradients, 0}};
    const MemoryCurve curve(rank);
    EXPECT_EQ(curve.peak(), 70);
    EXPECT_EQ(curve.at(999), 0);
    EXPECT_EQ(curve.at(1000), 50);
    EXPECT_EQ(curve.at(1010), 70);
    EXPECT_EQ(curve.at(5000), 40);
    EXPECT_EQ(curve.mostIn(1015, 1030), 70);
    EXPECT_EQ(curve.mostIn(1000, 1010), 50);
    EXPECT_EQ(curve.mostIn(1020, 1030), 40);
}

}  // namespace
}  // namespace piper
