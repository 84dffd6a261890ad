// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
        in.back() += 1;
        EXPECT_LT(piper_a2a_alltoallv(world.get(), algorithm, send.data(), out.data(), recv.data(),
                                      in.data()),
                  0);
        EXPECT_NE(std::string(piper_a2a_error()).find("are expected"), std::string::npos);
    }
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
