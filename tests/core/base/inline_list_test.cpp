// SPDX-License-Identifier: Apache-2.0
#include "core/base/inline_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace piper {
namespace {

using testing::ElementsAre;

TEST(InlineList, KeepsWhatWasAddedInOrder) {
    InlineList<int, 4> list;
    EXPECT_TRUE(list.empty());
    for (const int value : {7, -1, 7, 3}) list.push_back(value);
    EXPECT_THAT(list, ElementsAre(7, -1, 7, 3));
    EXPECT_EQ(list.size(), 4U);
    EXPECT_EQ(list.back(), 3);
    list.removeAll(7);
    EXPECT_THAT(list, ElementsAre(-1, 3));
    list[0] = 9;
    EXPECT_THAT(list, ElementsAre(9, 3));
}

TEST(InlineListDeathTest, TakesNoMoreThanItHasRoomFor) {
    InlineList<int, 2> list{1, 2};
    EXPECT_DEATH(list.push_back(3), "broken invariant");
}

}  // namespace
}  // namespace piper
