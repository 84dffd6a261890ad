// SPDX-License-Identifier: Apache-2.0
#include "sessions/directory_turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/paths.h"

namespace piper {
namespace {

TEST(DirectoryTurn, OneAtATimeAlsoWhenTheDirectoryIsRemovedByWhoHadIt) {
    const test::TemporaryDirectory directory;
    const auto place = directory.path() / "job" / "one";
    std::atomic<int> inside = 0, most = 0, turns = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&] {
                for (int round = 0; round < 5; ++round) {
                    const auto turn = DirectoryTurn::take(place, {});
                    ASSERT_TRUE(turn.ok()) << turn.error().text();
                    most = std::max(most.load(), ++inside);
                    std::this_thread::yield();
                    --inside;
                    ++turns;
                    std::error_code ignored;
                    std::filesystem::remove_all(place, ignored);
                }
            });
    }
    EXPECT_EQ(turns, 40);
    EXPECT_EQ(most, 1);
}

TEST(DirectoryTurn, WhoWaitsCanBeStoppedAndAFileIsNoDirectory) {
    const test::TemporaryDirectory directory;
    const auto held = DirectoryTurn::take(directory.path(), {});
    ASSERT_TRUE(held.ok());
    std::stop_source stop;
    std::optional<ErrorCode> code;
    std::jthread waiting([&] {
        const auto turn = DirectoryTurn::take(directory.path(), stop.get_token());
        if (!turn.ok()) code = turn.error().code;
    });
    stop.request_stop();
    waiting.join();
    EXPECT_EQ(code, ErrorCode::Cancelled);
    EXPECT_EQ(DirectoryTurn::take("/dev/null/x", {}).error().code, ErrorCode::Io);
}

}  // namespace
}  // namespace piper
