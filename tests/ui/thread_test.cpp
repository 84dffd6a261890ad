// SPDX-License-Identifier: GPL-3.0-or-later
// Threads that wait for hosts, and the end of a program that does not.
#include <gtest/gtest.h>

#include <latch>
#include <memory>

#include "app/workbench/thread_executor.h"

namespace piper::app {
namespace {

using namespace std::chrono_literals;

TEST(ThreadSet, LetsGoOfWhatHasEndedAndOfWhatItHeld) {
    ThreadSet threads;
    const auto held = std::make_shared<int>(1);
    for (int i = 0; i < 20; ++i) {
        const auto ended = std::make_shared<std::latch>(1);
        (void)threads.start([held, ended](const std::stop_token&) { ended->count_down(); });
        ended->wait();
    }
    EXPECT_TRUE(threads.endBy(std::chrono::steady_clock::now() + 60s));
    EXPECT_EQ(held.use_count(), 1);
    (void)threads.start([](const std::stop_token&) {});
    EXPECT_EQ(threads.size(), 1U);
}

TEST(ThreadSet, AsksToEndAndSaysWhatDoesNot) {
    std::latch go(1);
    ThreadSet threads;
    (void)threads.start([&go](const std::stop_token&) { go.wait(); });
    const std::stop_source stop = threads.start([](const std::stop_token& asked) {
        while (!asked.stop_requested()) std::this_thread::yield();
    });
    EXPECT_FALSE(threads.endBy(std::chrono::steady_clock::now() + 1ms)) << "one hears nothing";
    EXPECT_TRUE(stop.stop_requested());
    go.count_down();
    EXPECT_TRUE(threads.endBy(std::chrono::steady_clock::now() + 60s));
}

TEST(ThreadExecutorTest, AHostThatDoesNotAnswerIsNotWaitedForButFilesAreWritten) {
    std::latch answer(1), written(1);
    ThreadExecutor executor;
    executor.submit(QStringLiteral("host"), ui::Executor::Lane::Network,
                    [&](const ui::Executor::Context&) {
                        answer.wait();
                        return ui::Executor::OnWindow();
                    });
    executor.submit(QStringLiteral("file"), ui::Executor::Lane::Background,
                    [&](const ui::Executor::Context&) {
                        written.count_down();
                        return ui::Executor::OnWindow();
                    });
    EXPECT_FALSE(executor.endBy(std::chrono::steady_clock::now() + 1ms));
    EXPECT_TRUE(written.try_wait());
    answer.count_down();
    EXPECT_TRUE(executor.endBy(std::chrono::steady_clock::now() + 60s));
}

}  // namespace
}  // namespace piper::app
