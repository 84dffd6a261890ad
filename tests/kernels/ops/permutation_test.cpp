// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace piper {
namespace {

using Ids = std::vector<std::int32_t>;
using Counts = std::vector<std::int64_t>;

TEST(Permutation, SortsSlotsByExpertAndKeepsTheOrderOfTokens) {
    const Ids experts{2, 0, 2, 4, 0, 2};
    Ids slots(6, -1), rows(6, -1);
    Counts offsets(6, -1);
    ASSERT_TRUE(makePermutation(experts, 5, slots, rows, offsets).ok());
    EXPECT_EQ(slots, (Ids{1, 4, 0, 2, 5, 3}));
    EXPECT_EQ(rows, (Ids{2, 0, 3, 5, 1, 4}));
    EXPECT_EQ(offsets, (Counts{0, 2, 2, 5, 5, 6}));
}

TEST(Permutation, OfNoTokens) {
    Ids none;
    Counts offsets(4, -1);
    ASSERT_TRUE(makePermutation(none, 3, none, none, offsets).ok());
    EXPECT_EQ(offsets, (Counts{0, 0, 0, 0}));
}

TEST(Permutation, RefusesAnExpertOutOfRange) {
    for (const std::int32_t bad : {3, -1}) {
        Ids slots(2), rows(2);
        Counts offsets(4);
        const Status status = makePermutation(Ids{0, bad}, 3, slots, rows, offsets);
        ASSERT_FALSE(status.ok());
        EXPECT_THAT(status.error().message, ::testing::HasSubstr("slot 1"));
    }
}

TEST(ReceiveOrder, GathersEachExpertAcrossSources) {
    // Three sources, two local experts: rows 0-1 | 2 | - | 3-5 | 6 | 7
    const Counts counts{2, 1, 0, 3, 1, 1};
    Ids order(8, -1);
    Counts offsets(3, -1);
    makeReceiveOrder(counts, 2, order, offsets);
    EXPECT_EQ(order, (Ids{0, 1, 6, 2, 3, 4, 5, 7}));
    EXPECT_EQ(offsets, (Counts{0, 3, 8}));
}

TEST(ReceiveOrder, OfNothing) {
    Ids order;
    Counts offsets(3, -1);
    makeReceiveOrder(Counts{0, 0, 0, 0}, 2, order, offsets);
    EXPECT_EQ(offsets, (Counts{0, 0, 0}));
}

TEST(CapacityPermutation, TakesTheFirstAndDropsTheRest) {
    const std::vector<std::int32_t> experts{1, 0, 1, 1, 0, 1, 3, 1};
    std::vector<std::int32_t> slot_of_row(8), row_of_slot(8);
    const auto dropped = makeCapacityPermutation(experts, 4, 2, slot_of_row, row_of_slot);
    ASSERT_TRUE(dropped.ok());
    EXPECT_EQ(*dropped, 3);
    EXPECT_EQ(slot_of_row, (std::vector<std::int32_t>{1, 4, 0, 2, -1, -1, 6, -1}));
    EXPECT_EQ(row_of_slot, (std::vector<std::int32_t>{2, 0, 3, -1, 1, -1, 6, -1}));
    const std::vector<std::int32_t> wrong{0, 4};
    std::vector<std::int32_t> two(2);
    EXPECT_FALSE(makeCapacityPermutation(wrong, 4, 2, slot_of_row, two).ok());
}

TEST(ExpertCapacity, RoundsUpAndForgivesBinaryFractions) {
    EXPECT_EQ(expertCapacity(64, 8, 1.25), 10);
    EXPECT_EQ(expertCapacity(65, 8, 1.0), 9);
    EXPECT_EQ(expertCapacity(4, 8, 1.0), 1);
    EXPECT_EQ(expertCapacity(2, 64, 1.0), 1);
}

}  // namespace
}  // namespace piper
