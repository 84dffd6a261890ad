// SPDX-License-Identifier: Apache-2.0
#include "sessions/packed_transfer.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(PackedTransfer, PacksWhereLinkAndHostBothGain) {
    const PackingSample half{0.5, BytesPerSecond(80e6)};
    EXPECT_TRUE(packingPays(half, BytesPerSecond(10e6)));
    EXPECT_TRUE(packingPays(half, BytesPerSecond(60e6)));
    EXPECT_FALSE(packingPays(half, BytesPerSecond(80e6))) << "gzip holds it up";
    EXPECT_FALSE(packingPays(half, BytesPerSecond(400e6)));
    EXPECT_FALSE(packingPays({0.9, BytesPerSecond(80e6)}, BytesPerSecond(1e6))) << "hardly smaller";
    EXPECT_FALSE(packingPays({1.0, BytesPerSecond(40e6)}, BytesPerSecond(1e5)));
    EXPECT_FALSE(packingPays(half, BytesPerSecond(0.0))) << "a rate that nobody measured";
}

}  // namespace
}  // namespace piper
