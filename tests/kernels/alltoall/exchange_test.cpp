// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/traffic.h"
#include "tests/kernels/support/mpi_main.h"

namespace piper {
namespace {

constexpr std::int64_t kClasses = 3;
constexpr AllToAllAlgorithm kAlgorithms[] = {AllToAllAlgorithm::Flat, AllToAllAlgorithm::Node,
                                             AllToAllAlgorithm::Rail, AllToAllAlgorithm::NodePair,
                                             AllToAllAlgorithm::Vendor};

/// Rows of class k that rank s sends to rank d in a chunk; every rank can ask for any of them.
using CountRule = std::int64_t (*)(std::int64_t s, std::int64_t d, std::int64_t k, std::int64_t c);

std::int64_t uneven(std::int64_t s, std::int64_t d, std::int64_t k, std::int64_t c) {
    return (s * 7 + d * 5 + k * 3 + c) % 4;
}
std::int64_t sparse(std::int64_t s, std::int64_t d, std::int64_t k, std::int64_t) {
    return (s + 2 * d + k) % 5 == 0 ? 9 : 0;
}
std::int64_t onlyToLast(std::int64_t, std::int64_t d, std::int64_t k, std::int64_t) {
    return d == test::transport().world().size() - 1 ? k + 1 : 0;
}
std::int64_t none(std::int64_t, std::int64_t, std::int64_t, std::int64_t) {
    return 0;
}

/// Content of a row: a pattern of who sent it to whom, its number and its chunk.
void writeRow(std::byte* row, std::int64_t row_bytes, std::int64_t s, std::int64_t d,
              std::int64_t i, std::int64_t c) {
    std::minstd_rand random(static_cast<unsigned>(1 + s + 100 * d + 10000 * i + 7 * c));
    for (std::int64_t b = 0; b < row_bytes; ++b) row[b] = static_cast<std::byte>(random());
}

struct Case {
    CountRule rule;
    std::int64_t chunk, row_bytes;
    Communicator& world = test::transport().world();

    [[nodiscard]] std::int64_t rows(std::int64_t s, std::int64_t d) const {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < kClasses; ++k) sum += rule(s, d, k, chunk);
        return sum;
    }
    [[nodiscard]] std::vector<std::int64_t> matrix() const {
        std::vector<std::int64_t> all;
        for (std::int64_t s = 0; s < world.size(); ++s)
            for (std::int64_t d = 0; d < world.size(); ++d) all.push_back(rows(s, d));
        return all;
    }
    [[nodiscard]] std::vector<std::byte> sent() const {
        std::vector<std::byte> out;
        for (std::int64_t d = 0; d < world.size(); ++d) append(out, world.rank(), d);
        return out;
    }
    [[nodiscard]] std::vector<std::byte> received() const {
        std::vector<std::byte> out;
        for (std::int64_t s = 0; s < world.size(); ++s) append(out, s, world.rank());
        return out;
    }

private:
    void append(std::vector<std::byte>& out, std::int64_t s, std::int64_t d) const {
        for (std::int64_t i = 0; i < rows(s, d); ++i) {
            out.resize(out.size() + static_cast<std::size_t>(row_bytes));
            writeRow(out.data() + out.size() - row_bytes, row_bytes, s, d, i, chunk);
        }
    }
};

std::vector<std::int64_t> countsOf(CountRule rule, std::int64_t chunks) {
    const Communicator& world = test::transport().world();
    std::vector<std::int64_t> counts;
    for (std::int64_t c = 0; c < chunks; ++c)
        for (std::int64_t d = 0; d < world.size(); ++d)
            for (std::int64_t k = 0; k < kClasses; ++k)
                counts.push_back(rule(world.rank(), d, k, c));
    return counts;
}

void expectTraffic(const TransportCounters& before, const TransportCounters& after,
                   const ExchangeTraffic& closed_form) {
    EXPECT_EQ(after.messages_sent - before.messages_sent, closed_form.messages);
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, closed_form.bytes);
    EXPECT_EQ(after.inter_node_messages - before.inter_node_messages,
              closed_form.inter_node_messages);
    EXPECT_EQ(after.inter_node_bytes - before.inter_node_bytes, closed_form.inter_node_bytes);
}

void checkMirrored(AllToAll& exchange, const ExchangeRoute& route, const Case& one) {
    const std::vector<std::byte> send = one.received();
    std::vector<std::byte> back(one.sent().size());
    const TransportCounters before = one.world.counters();
    auto started = exchange.start(route, ExchangeDirection::Mirrored, send, back, one.row_bytes);
    ASSERT_TRUE(started.ok());
    while (!(*started)->test()) {
    }
    ASSERT_TRUE((*started)->wait().ok());
    EXPECT_EQ(back, one.sent()) << "chunk " << one.chunk;
    expectTraffic(before, one.world.counters(),
                  mirroredTraffic(exchange.choice().algorithm, exchange.topology(), one.matrix(),
                                  one.row_bytes)[static_cast<std::size_t>(one.world.rank())]);
}

void expectCounts(const ExchangeRoute& route, const Case& one) {
    for (std::int64_t s = 0; s < one.world.size(); ++s)
        for (std::int64_t k = 0; k < kClasses; ++k)
            EXPECT_EQ(route.recv_counts[static_cast<std::size_t>(s * kClasses + k)],
                      one.rule(s, one.world.rank(), k, one.chunk));
}

void checkChunks(CountRule rule, AllToAllAlgorithm algorithm, std::int64_t row_bytes,
                 std::int64_t in_flight = 0) {
    constexpr std::int64_t kChunks = 3;
    Communicator& world = test::transport().world();
    TaggedAllocator allocator;
    AllToAll exchange(world, allocator, algorithm);
    exchange.limitInFlight(in_flight);
    auto routes = exchange.exchangeCounts(countsOf(rule, kChunks), kChunks, kClasses);
    ASSERT_TRUE(routes.ok()) << routes.error().text();
    ASSERT_EQ(routes->size(), static_cast<std::size_t>(kChunks));

    // All chunks under way at once.
    std::vector<std::vector<std::byte>> sent(kChunks), received(kChunks);
    std::vector<std::unique_ptr<PendingTransfer>> pending;
    ExchangeTraffic closed_form;
    const TransportCounters before = world.counters();
    for (std::size_t i = 0; i < sent.size(); ++i) {
        const Case one{rule, static_cast<std::int64_t>(i), row_bytes};
        sent[i] = one.sent();
        received[i].resize(one.received().size());
        auto started = exchange.start((*routes)[i], ExchangeDirection::Forward, sent[i],
                                      received[i], row_bytes);
        ASSERT_TRUE(started.ok()) << started.error().text();
        pending.push_back(std::move(started).value());
        closed_form +=
            exchangeTraffic(exchange.choice().algorithm, exchange.topology(), one.matrix(),
                            row_bytes)[static_cast<std::size_t>(world.rank())];
    }
    for (const auto& p : pending) ASSERT_TRUE(p->wait().ok());
    expectTraffic(before, world.counters(), closed_form);

    for (std::size_t i = 0; i < sent.size(); ++i) {
        const Case one{rule, static_cast<std::int64_t>(i), row_bytes};
        EXPECT_EQ(received[i], one.received()) << "chunk " << i;
        expectCounts((*routes)[i], one);
        checkMirrored(exchange, (*routes)[i], one);
    }
    pending.clear();
    EXPECT_EQ(allocator.currentBytes(), 0) << "staging memory is given back";
    ASSERT_TRUE(world.barrier().ok());
}

TEST(Exchange, ByteExactThereAndBack) {
    for (const AllToAllAlgorithm algorithm : kAlgorithms)
        for (const CountRule rule : {uneven, sparse, onlyToLast, none})
            for (const std::int64_t row_bytes : {std::int64_t{4}, std::int64_t{1030}})
                checkChunks(rule, algorithm, row_bytes);
}

TEST(Exchange, LargeRowsCrossTheEagerLimit) {
    for (const AllToAllAlgorithm algorithm : kAlgorithms) checkChunks(uneven, algorithm, 40'000);
}

TEST(Exchange, MessagesThatComeOneByOne) {
    for (const AllToAllAlgorithm algorithm : kAlgorithms) {
        checkChunks(onlyToLast, algorithm, 40'000, 1);
        for (const CountRule rule : {uneven, sparse}) checkChunks(rule, algorithm, 16, 2);
    }
}

TEST(Exchange, WrongBuffersAreRefusedOnTheSpot) {
    Communicator& world = test::transport().world();
    TaggedAllocator allocator;
    AllToAll exchange(world, allocator, AllToAllAlgorithm::Auto);
    auto routes = exchange.exchangeCounts(countsOf(uneven, 1), 1, kClasses);
    ASSERT_TRUE(routes.ok());
    std::vector<std::byte> small(3);
    const auto started =
        exchange.start(routes->front(), ExchangeDirection::Forward, small, small, 1024);
    ASSERT_FALSE(started.ok());
    EXPECT_EQ(started.error().code, ErrorCode::InvalidInput);
    EXPECT_FALSE(exchange.exchangeCounts(std::vector<std::int64_t>(1), 1, kClasses).ok());
    ASSERT_TRUE(world.barrier().ok());
}

TEST(Exchange, TokensAreNotMovedAsBlocks) {
    Communicator& world = test::transport().world();
    TaggedAllocator allocator;
    EXPECT_FALSE(checkMovesBlocks(AllToAllAlgorithm::NodeDedup).ok());
    AllToAll exchange(world, allocator, AllToAllAlgorithm::NodeDedup);
    if (exchange.choice().algorithm != AllToAllAlgorithm::NodeDedup) GTEST_SKIP() << "one node";
    const auto routes = exchange.exchangeCounts(countsOf(none, 1), 1, kClasses);
    ASSERT_FALSE(routes.ok());
    EXPECT_NE(routes.error().text().find("node_dedup moves tokens"), std::string::npos);
    EXPECT_FALSE(
        exchange.start(exchange.uniformRoute(0), ExchangeDirection::Forward, {}, {}, 8).ok());
}

}  // namespace
}  // namespace piper
