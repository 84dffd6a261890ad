// SPDX-License-Identifier: Apache-2.0
#include "core/base/sample.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(Sample, QuantilesLieBetweenTheirNeighbours) {
    EXPECT_DOUBLE_EQ(quantile({3.0, 1.0, 2.0}, 0.5), 2.0);
    EXPECT_DOUBLE_EQ(quantile({4.0, 1.0, 3.0, 2.0}, 0.5), 2.5);
    EXPECT_DOUBLE_EQ(quantile({0.0, 10.0}, 0.9), 9.0);
    EXPECT_DOUBLE_EQ(quantile({7.0}, 0.9), 7.0);
    EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0.0);
}

TEST(Sample, HashesAreThoseOfFnv1a) {
    // Published test vectors of the 64-bit hash.
    EXPECT_EQ(textHash(""), 0xcbf29ce484222325ULL);
    EXPECT_EQ(textHash("a"), 0xaf63dc4c8601ec8cULL);
    EXPECT_EQ(textHash("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace piper
