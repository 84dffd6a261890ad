// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/local_transport.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/transport/clock_sync.h"
#include "kernels/transport/payload.h"

namespace piper {
namespace {

TEST(LocalTransport, CollectivesOfOneRankMoveNothing) {
    const auto transport = makeLocalTransport();
    Communicator& world = transport->world();
    std::array<float, 3> values{1, 2, 3}, out{};
    ASSERT_TRUE(world.allReduceSum(values).ok());
    EXPECT_EQ(values, (std::array<float, 3>{1, 2, 3}));
    ASSERT_TRUE(world.reduceScatterSum(values, out).ok());
    EXPECT_EQ(out, values);
    EXPECT_EQ(world.counters().bytes_sent, 0);
    EXPECT_EQ(world.counters().messages_sent, 0);
}

TEST(LocalTransport, ThereIsNobodyToSendTo) {
    const auto transport = makeLocalTransport();
    const std::array<std::byte, 2> data{};
    const auto sent = transport->world().send(data, 1, 0);
    ASSERT_FALSE(sent.ok());
    EXPECT_NE(sent.error().message.find("peer 1"), std::string::npos);
    EXPECT_FALSE(transport->makeGroup({RankId(0), RankId(1)}).ok());
}

TEST(LocalTransport, UnequalAllToAllCountsAreRefused) {
    const auto transport = makeLocalTransport();
    std::array<std::byte, 8> a{}, b{};
    const std::array<std::int64_t, 1> four{4}, five{5};
    EXPECT_TRUE(transport->world().allToAllV(a, four, b, four).ok());
    EXPECT_FALSE(transport->world().allToAllV(a, four, b, five).ok());
}

TEST(LocalTransport, RankZeroHasNoOffset) {
    const auto transport = makeLocalTransport();
    std::int64_t now = 100;
    const auto sample = measureClockOffset(transport->world(), [&] { return now += 10; });
    ASSERT_TRUE(sample.ok());
    EXPECT_EQ(sample->offset_ns, 0);
    EXPECT_EQ(sample->round_trip_ns, 0);
}

TEST(Payload, RingVolumes) {
    EXPECT_EQ(allReducePayload(4, 1000), 1500);
    EXPECT_EQ(allReducePayload(1, 1000), 0);
    EXPECT_EQ(allReducePayload(3, 100), 133);
    EXPECT_EQ(allGatherPayload(4, 100), 300);
    EXPECT_EQ(reduceScatterPayload(4, 100), 300);
    EXPECT_EQ(broadcastPayload(4, 100), 300);
}

}  // namespace
}  // namespace piper
