// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/local_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/support/paths.h"

namespace piper::cuda {
namespace {

/// Runs body(group) for every rank; each maps the file itself, as processes do.
template <class Body>
void onRanks(int ranks, Body body) {
    const test::TemporaryDirectory folder;
    const std::string file = (folder.path() / "group").string();
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
        threads.emplace_back([&, r] {
            LocalGroup group(file, r, ranks);
            body(group);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(LocalGroup, NobodyPassesABarrierBeforeAllHaveCome) {
    std::atomic<int> come{0};
    std::atomic<int> early{0};
    onRanks(4, [&](LocalGroup& group) {
        for (int round = 1; round <= 40; ++round) {
            ++come;
            group.barrier();
            if (come < 4 * round) ++early;
            group.barrier();
        }
    });
    EXPECT_EQ(early, 0);
    EXPECT_EQ(come, 160);
}

TEST(LocalGroup, EveryRankSeesTheBlocksOfAllEachTime) {
    std::atomic<int> wrong{0};
    onRanks(3, [&](LocalGroup& group) {
        for (int round = 0; round < 20; ++round) {
            const auto all = group.exchange(std::vector<unsigned char>(
                100, static_cast<unsigned char>(round * 3 + group.rank())));
            for (int r = 0; r < 3; ++r) {
                const std::vector<unsigned char> wanted(100,
                                                        static_cast<unsigned char>(round * 3 + r));
                if (all.at(static_cast<std::size_t>(r)) != wanted) ++wrong;
            }
        }
    });
    EXPECT_EQ(wrong, 0);
}

TEST(LocalGroup, ARankThatFailsFreesTheOthers) {
    std::atomic<int> freed{0};
    onRanks(3, [&](LocalGroup& group) {
        if (group.rank() == 1) {
            group.fail();
            return;
        }
        try {
            group.barrier();
        } catch (const std::runtime_error& error) {
            if (std::string(error.what()) == "another rank has failed") ++freed;
        }
    });
    EXPECT_EQ(freed, 2);
}

TEST(LocalGroup, ARankThatDoesNotComeIsAnError) {
    onRanks(1, [](LocalGroup& group) {
        group.barrier();
        EXPECT_EQ(group.exchange({7}), (std::vector<std::vector<unsigned char>>{{7}}));
    });
    const test::TemporaryDirectory folder;
    LocalGroup alone((folder.path() / "group").string(), 0, 2);
    EXPECT_THROW(alone.barrier(0.05), std::runtime_error);
}

TEST(LocalGroup, NumbersOutOfRangeAndUnusableFilesAreRefused) {
    const test::TemporaryDirectory folder;
    const std::string file = (folder.path() / "group").string();
    EXPECT_THROW(LocalGroup(file, 2, 2), std::runtime_error);
    EXPECT_THROW(LocalGroup(file, 0, 65), std::runtime_error);
    EXPECT_THROW(LocalGroup((folder.path() / "no" / "group").string(), 0, 1), std::runtime_error);
}

}  // namespace
}  // namespace piper::cuda
