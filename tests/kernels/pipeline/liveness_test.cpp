// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/paths.h"

namespace piper {
namespace {

/// A process that joins as rank 1, leaves as told and then sleeps until it is killed.
pid_t otherRank(const std::filesystem::path& directory, Liveness::State state, const char* text) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    auto joined = Liveness::join(directory, RankId(1), 2);
    if (!joined.ok()) ::_exit(1);
    if (state == Liveness::State::Running)
        (*joined)->note(text);
    else
        (*joined)->leave(state, text);
    for (;;) ::pause();
}

void awaitProcess(const std::filesystem::path& directory, pid_t process) {
    for (int i = 0; i < 500 && Liveness::processOf(directory, 1) != process; ++i) ::usleep(10'000);
    ::usleep(50'000);
}

void killAndReap(pid_t process) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
}

TEST(Liveness, AKilledRankIsFoundWithItsLastOperation) {
    const test::TemporaryDirectory directory;
    const pid_t other = otherRank(directory.path(), Liveness::State::Running, "step 3, attention");
    awaitProcess(directory.path(), other);
    auto self = Liveness::join(directory.path(), RankId(0), 2);
    ASSERT_TRUE(self.ok());
    EXPECT_FALSE((*self)->findLoss().has_value()) << "alive ranks are no loss";
    killAndReap(other);
    const auto loss = (*self)->findLoss();
    ASSERT_TRUE(loss.has_value());
    EXPECT_EQ(loss->rank, RankId(1));
    EXPECT_TRUE(loss->killed);
    EXPECT_EQ(loss->message, "step 3, attention");
    EXPECT_TRUE((*self)->isLowestAlive());
}

TEST(Liveness, AFailedRankIsFoundWhileItLives) {
    const test::TemporaryDirectory directory;
    const pid_t other = otherRank(directory.path(), Liveness::State::Failed, "the loss is NaN");
    awaitProcess(directory.path(), other);
    auto self = Liveness::join(directory.path(), RankId(0), 2);
    const auto loss = (*self)->findLoss();
    killAndReap(other);
    ASSERT_TRUE(loss.has_value());
    EXPECT_FALSE(loss->killed);
    EXPECT_EQ(loss->message, "the loss is NaN");
}

TEST(Liveness, WhoLeavesInOrderIsNoLoss) {
    const test::TemporaryDirectory directory;
    const pid_t other = otherRank(directory.path(), Liveness::State::Stopping, "");
    awaitProcess(directory.path(), other);
    auto self = Liveness::join(directory.path(), RankId(0), 2);
    killAndReap(other);
    EXPECT_FALSE((*self)->findLoss().has_value());
}

TEST(Liveness, MissingDirectoryIsAnError) {
    const auto joined = Liveness::join("/nonexistent/directory", RankId(0), 1);
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().code, ErrorCode::Io);
}

}  // namespace
}  // namespace piper
