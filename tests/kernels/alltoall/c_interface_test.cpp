// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/alltoall/piper_alltoall.h"

namespace {

/// MPI runs already, started by the test's main: the library uses it and leaves it running.
class World {
public:
    World() : m_world(piper_a2a_open()) {}
    ~World() { piper_a2a_close(m_world); }
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    [[nodiscard]] piper_a2a_world* get() const { return m_world; }

private:
    piper_a2a_world* m_world;
};

TEST(CInterface, PlainBlocksOfUnequalSize) {
    const World world;
    ASSERT_NE(world.get(), nullptr) << piper_a2a_error();
    const std::int64_t size = piper_a2a_size(world.get()), rank = piper_a2a_rank(world.get());
    const auto bytes = [](std::int64_t from, std::int64_t to) { return (from * 3 + to) % 4; };
    for (const char* algorithm : {"flat", "node", "rail", "node_pair", "auto"}) {
        std::string send, expected;
        std::vector<std::int64_t> out, in;
        for (std::int64_t peer = 0; peer < size; ++peer) {
            out.push_back(bytes(rank, peer));
            in.push_back(bytes(peer, rank));
            send.append(static_cast<std::size_t>(out.back()), static_cast<char>('a' + rank));
            expected.append(static_cast<std::size_t>(in.back()), static_cast<char>('a' + peer));
        }
        std::string recv(expected.size(), '?');
        ASSERT_EQ(piper_a2a_alltoallv(world.get(), algorithm, send.data(), out.data(), recv.data(),
                                      in.data()),
                  0)
            << piper_a2a_error();
        EXPECT_EQ(recv, expected) << algorithm;
        // One rank is wrong: all say so, and the next exchange is not disturbed.
        std::vector<std::int64_t> wrong = in;
        if (rank == 0) wrong.back() += 1;
        EXPECT_LT(piper_a2a_alltoallv(world.get(), algorithm, send.data(), out.data(), recv.data(),
                                      wrong.data()),
                  0);
        EXPECT_NE(std::string(piper_a2a_error()).find(rank == 0 ? "are expected" : "another rank"),
                  std::string::npos)
            << piper_a2a_error();
        std::fill(recv.begin(), recv.end(), '?');
        ASSERT_EQ(piper_a2a_alltoallv(world.get(), algorithm, send.data(), out.data(), recv.data(),
                                      in.data()),
                  0);
        EXPECT_EQ(recv, expected) << algorithm;
    }
}

TEST(CInterface, TwoExchangesUnderWayDoNotMeet) {
    const World world;
    const std::int64_t size = piper_a2a_size(world.get());
    constexpr std::int64_t kTokens = 6, kHidden = 3;
    for (const char* algorithm : {"node", "node_dedup", "rail"}) {
        const piper_a2a_options options = {algorithm, "fp32", kHidden, 1, nullptr};
        std::vector<std::int32_t> experts;
        for (std::int64_t t = 0; t < kTokens; ++t)
            experts.push_back(static_cast<std::int32_t>(t % size));
        const std::vector<float> weights(kTokens, 1.0F);
        struct Side {
            piper_a2a_exchange* exchange = nullptr;
            piper_a2a_routed* routed = nullptr;
            std::vector<float> x, rows, out;
        };
        std::vector<Side> sides(2);
        for (std::size_t i = 0; i < sides.size(); ++i) {
            Side& s = sides[i];
            s.exchange = piper_a2a_make(world.get(), &options);
            ASSERT_NE(s.exchange, nullptr) << piper_a2a_error();
            s.routed = piper_a2a_route(s.exchange, kTokens, 1, experts.data(), weights.data());
            ASSERT_NE(s.routed, nullptr) << piper_a2a_error();
            s.x.assign(kTokens * kHidden, static_cast<float>(i + 1));
            s.rows.resize(static_cast<std::size_t>(piper_a2a_rows(s.routed) * kHidden));
            s.out.resize(s.x.size());
        }
        piper_a2a_transfer* first =
            piper_a2a_dispatch(sides[0].routed, sides[0].x.data(), sides[0].rows.data());
        piper_a2a_transfer* second =
            piper_a2a_dispatch(sides[1].routed, sides[1].x.data(), sides[1].rows.data());
        EXPECT_EQ(piper_a2a_wait(second), 0);
        EXPECT_EQ(piper_a2a_wait(first), 0);
        for (std::size_t i = 0; i < sides.size(); ++i) {
            Side& s = sides[i];
            for (const float v : s.rows) EXPECT_EQ(v, static_cast<float>(i + 1)) << algorithm;
            EXPECT_EQ(piper_a2a_wait(piper_a2a_combine(s.routed, s.rows.data(), s.out.data())), 0);
            EXPECT_EQ(s.out, s.x) << algorithm;
            piper_a2a_routed_free(s.routed);
            piper_a2a_free(s.exchange);
        }
    }
}

TEST(CInterface, NegativeCountsAreRefused) {
    const World world;
    const piper_a2a_options options = {"flat", "fp32", 4, 1, nullptr};
    piper_a2a_exchange* exchange = piper_a2a_make(world.get(), &options);
    ASSERT_NE(exchange, nullptr);
    EXPECT_EQ(piper_a2a_route(exchange, -1, 2, nullptr, nullptr), nullptr);
    EXPECT_EQ(piper_a2a_route(exchange, 1, 0, nullptr, nullptr), nullptr);
    EXPECT_NE(std::string(piper_a2a_error()).find("1 tokens with 0"), std::string::npos);
    const std::int64_t none = 0;
    EXPECT_LT(piper_a2a_alltoallv(world.get(), "node_dedup", nullptr, &none, nullptr, &none), 0);
    piper_a2a_free(exchange);
}

TEST(CInterface, UnknownWordsAreNamed) {
    const World world;
    piper_a2a_options options = {"node_dedupe", "fp32", 4, 1, nullptr};
    EXPECT_EQ(piper_a2a_make(world.get(), &options), nullptr);
    EXPECT_NE(std::string(piper_a2a_error()).find("node_dedup"), std::string::npos);
    options = {"flat", "fp16", 4, 1, nullptr};
    EXPECT_EQ(piper_a2a_make(world.get(), &options), nullptr);
    options = {"rack_dedup", "fp32", 4, 1, nullptr};
    EXPECT_EQ(piper_a2a_make(world.get(), &options), nullptr) << "racks are missing";
}

}  // namespace
