// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(Units, GibAndGbDiffer) {
    EXPECT_DOUBLE_EQ(gib(1).value, 1073741824.0);
    EXPECT_DOUBLE_EQ(gb(1).value, 1e9);
    EXPECT_DOUBLE_EQ(gbitps(200).value, 25e9);
}

TEST(Units, RatiosMakeTheRightUnit) {
    const Seconds t = gb(48.5) / gbps(48.5);
    EXPECT_DOUBLE_EQ(t.value, 1.0);
    EXPECT_DOUBLE_EQ(inTflops(tflop(312) / seconds(2)), 156.0);
    EXPECT_DOUBLE_EQ(gib(3) / gib(2), 1.5);
}

TEST(Units, NanosecondsRoundToNearest) {
    EXPECT_EQ(inNs(seconds(1.4e-9)), 1);
    EXPECT_EQ(inNs(seconds(1.6e-9)), 2);
    EXPECT_EQ(inNs(seconds(-1.6e-9)), -2);
}

TEST(Units, HumanTextNamesTheUnit) {
    EXPECT_EQ(humanBytes(gib(1.5)), "1.50 GiB");
    EXPECT_EQ(humanBytes(bytes(17)), "17 B");
    EXPECT_EQ(humanSeconds(seconds(0.0142)), "14.2 ms");
    EXPECT_EQ(humanFlopsPerSecond(tflops(312)), "312 TFLOP/s");
    EXPECT_EQ(humanBytesPerSecond(gbps(48.5)), "48.5 GB/s");
}

}  // namespace
}  // namespace piper
