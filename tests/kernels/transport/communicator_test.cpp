// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "kernels/transport/clock_sync.h"
#include "kernels/transport/payload.h"
#include "tests/kernels/support/mpi_main.h"

namespace piper {
namespace {

Communicator& world() {
    return test::transport().world();
}

/// What the counters grew by.
class CounterDifference {
public:
    explicit CounterDifference(const Communicator& comm)
        : m_comm(comm), m_before(comm.counters()) {}
    [[nodiscard]] std::int64_t sent() const {
        return m_comm.counters().bytes_sent - m_before.bytes_sent;
    }
    [[nodiscard]] std::int64_t received() const {
        return m_comm.counters().bytes_received - m_before.bytes_received;
    }

private:
    const Communicator& m_comm;
    TransportCounters m_before;
};

TEST(Communicator, NodesFollowThePretendedMap) {
    const std::vector<std::int64_t> nodes = world().nodes();
    ASSERT_EQ(static_cast<std::int64_t>(nodes.size()), world().size());
    if (world().size() == 4)
        EXPECT_EQ(nodes, (std::vector<std::int64_t>{0, 0, 1, 1}));
    else
        EXPECT_EQ(nodes, std::vector<std::int64_t>(nodes.size(), 0));
}

TEST(Communicator, RingOfMessages) {
    const std::int64_t n = world().size(), me = world().rank();
    if (n == 1) return;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
        const CounterDifference counted(world());
        std::vector<std::int32_t> out(count, static_cast<std::int32_t>(me)), in(count, -1);
        auto receive = world().receive(std::as_writable_bytes(std::span(in)), (me + n - 1) % n, 7);
        auto send = world().send(std::as_bytes(std::span(out)), (me + 1) % n, 7);
        ASSERT_TRUE(receive.ok() && send.ok());
        ASSERT_TRUE((*receive)->wait().ok());
        ASSERT_TRUE((*send)->wait().ok());
        EXPECT_EQ(in,
                  std::vector<std::int32_t>(count, static_cast<std::int32_t>((me + n - 1) % n)));
        EXPECT_EQ(counted.sent(), static_cast<std::int64_t>(4 * count));
        EXPECT_EQ(counted.received(), static_cast<std::int64_t>(4 * count));
    }
}

TEST(Communicator, PeerOutOfRangeIsNamed) {
    const std::byte one{};
    const auto sent = world().send(std::span(&one, 1), world().size(), 0);
    ASSERT_FALSE(sent.ok());
    EXPECT_NE(sent.error().message.find(std::to_string(world().size())), std::string::npos);
    EXPECT_FALSE(test::transport().makeGroup({RankId(1000)}).ok());
}

TEST(Communicator, SumsAndTheirPayload) {
    const std::int64_t n = world().size(), me = world().rank();
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(me + 1) * static_cast<float>(i % 17);
    const CounterDifference counted(world());
    ASSERT_TRUE(world().allReduceSum(values).ok());
    const auto ranks = static_cast<float>(n * (n + 1) / 2);
    for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], ranks * static_cast<float>(i % 17)) << i;
    EXPECT_EQ(counted.sent(), allReducePayload(n, 4000));

    std::vector<double> top{static_cast<double>(me), -static_cast<double>(me)};
    ASSERT_TRUE(world().allReduceMax(top).ok());
    EXPECT_EQ(top, (std::vector<double>{static_cast<double>(n - 1), 0.0}));

    std::vector<float> parts(static_cast<std::size_t>(n) * 5, 1.0F), own(5);
    const CounterDifference scattered(world());
    ASSERT_TRUE(world().reduceScatterSum(parts, own).ok());
    EXPECT_EQ(own, std::vector<float>(5, static_cast<float>(n)));
    EXPECT_EQ(scattered.sent(), reduceScatterPayload(n, 20));
}

TEST(Communicator, GatherBroadcastAllToAll) {
    const std::int64_t n = world().size(), me = world().rank();
    std::vector<std::int64_t> all(static_cast<std::size_t>(n), -1), expected(all.size());
    std::iota(expected.begin(), expected.end(), 100);
    const std::int64_t own = 100 + me;
    ASSERT_TRUE(
        world()
            .allGather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)))
            .ok());
    EXPECT_EQ(all, expected);

    std::int64_t word = me == n - 1 ? 42 : 0;
    ASSERT_TRUE(world().broadcast(std::as_writable_bytes(std::span(&word, 1)), n - 1).ok());
    EXPECT_EQ(word, 42);

    // Rank s sends (s + d) % 3 bytes of value s to d: zero counts on the way.
    std::vector<std::int64_t> out_bytes, in_bytes;
    std::vector<std::byte> out, in, in_expected;
    std::int64_t to_others = 0;
    for (std::int64_t peer = 0; peer < n; ++peer) {
        const std::int64_t count = (me + peer) % 3;
        out_bytes.push_back(count);
        in_bytes.push_back(count);
        if (peer != me) to_others += count;
        out.insert(out.end(), static_cast<std::size_t>(count), static_cast<std::byte>(me));
        in_expected.insert(in_expected.end(), static_cast<std::size_t>(count),
                           static_cast<std::byte>(peer));
    }
    in.resize(in_expected.size());
    const CounterDifference counted(world());
    ASSERT_TRUE(world().allToAllV(out, out_bytes, in, in_bytes).ok());
    EXPECT_EQ(in, in_expected);
    EXPECT_EQ(counted.sent(), to_others);
    EXPECT_FALSE(world().allToAllV({}, {}, in, in_bytes).ok());
}

TEST(Communicator, GroupsKeepTheirOrderAndCountersApart) {
    const std::int64_t n = world().size(), me = world().rank();
    std::vector<RankId> members;  // same parity, descending
    for (std::int64_t rank = n - 1; rank >= 0; --rank)
        if (rank % 2 == me % 2) members.emplace_back(static_cast<std::int32_t>(rank));
    auto group = test::transport().makeGroup(members);
    ASSERT_TRUE(group.ok()) << group.error().text();
    EXPECT_EQ((*group)->size(), static_cast<std::int64_t>(members.size()));
    EXPECT_EQ(members[static_cast<std::size_t>((*group)->rank())].value, me);
    EXPECT_EQ((*group)->nodes()[0], world().nodes()[members[0].index()]);
    const CounterDifference counted(world());
    std::vector<double> sum{static_cast<double>(me)};
    double expected = 0;
    for (const RankId member : members) expected += member.value;
    ASSERT_TRUE((*group)->allReduceSum(sum).ok());
    EXPECT_EQ(sum[0], expected);
    EXPECT_EQ(counted.sent(), 0);
}

TEST(Communicator, ClockOffsetIsFound) {
    // Every rank's clock is ahead by a known amount.
    const std::int64_t ahead = 1'000'000'000 * world().rank();
    const auto clock = [&] {
        return ahead + std::chrono::steady_clock::now().time_since_epoch().count();
    };
    const auto sample = measureClockOffset(world(), clock);
    ASSERT_TRUE(sample.ok());
    EXPECT_LE(std::abs(sample->offset_ns + ahead), sample->round_trip_ns / 2 + 1000);
    EXPECT_TRUE(world().barrier().ok());
}

}  // namespace
}  // namespace piper
