// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

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

constexpr Liveness::Patience kShort{
    .beat_ms = 5, .looks_without_beat = 40, .beats_idle = 20, .beats_busy = 100000};

/// A process that joins as rank 1 and then lives as told until it is killed.
template <class Live>
pid_t rankThat(const std::filesystem::path& directory, Liveness::Patience patience, Live&& live) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    auto joined = Liveness::join(directory, RankId(1), 2, patience);
    if (!joined.ok()) ::_exit(1);
    (*joined)->note("step 7, expert");
    for (;;) live(**joined);
}

/// Looks until there is a loss, at most so many times.
std::optional<Liveness::Loss> lookFor(const std::filesystem::path& directory, pid_t other,
                                      int looks) {
    awaitProcess(directory, other);
    auto self = Liveness::join(directory, RankId(0), 2, kShort);
    std::optional<Liveness::Loss> loss;
    for (int i = 0; i < looks && !loss; ++i) {
        ::usleep(5'000);
        loss = (*self)->findLoss();
    }
    killAndReap(other);
    return loss;
}

TEST(Liveness, ARankThatSleepsHangs) {
    const test::TemporaryDirectory directory;
    const pid_t other = rankThat(directory.path(), kShort, [](Liveness&) { ::pause(); });
    const auto loss = lookFor(directory.path(), other, 5000);
    ASSERT_TRUE(loss.has_value());
    EXPECT_TRUE(loss->hangs);
    EXPECT_FALSE(loss->killed);
    EXPECT_EQ(loss->message, "step 7, expert");
}

#ifndef __SANITIZE_THREAD__  // which makes every vfork a fork

/// Waits uninterruptibly, as for a disk (state D): a parent does while its vfork child lives.
void waitUninterruptibly(Liveness&) {
    const pid_t child = ::vfork();
    if (child != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
}

TEST(Liveness, ARankThatWaitsForADiskIsNoLoss) {
    const test::TemporaryDirectory directory;
    const pid_t other = rankThat(directory.path(), kShort, waitUninterruptibly);
    awaitProcess(directory.path(), other);
    std::ifstream stat("/proc/" + std::to_string(other) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(stat), {}};
    EXPECT_NE(text.find(") D "), std::string::npos) << text;
    EXPECT_FALSE(lookFor(directory.path(), other, 200).has_value());
}

#endif

TEST(Liveness, AStoppedRankHangs) {
    const test::TemporaryDirectory directory;
    const pid_t other = rankThat(directory.path(), kShort, [](Liveness&) { ::raise(SIGSTOP); });
    const auto loss = lookFor(directory.path(), other, 5000);
    ASSERT_TRUE(loss.has_value());
    EXPECT_TRUE(loss->hangs);
}

TEST(Liveness, ARankThatComputesAtOneOperationForeverHangs) {
    const test::TemporaryDirectory directory;
    Liveness::Patience patience = kShort;
    patience.beats_busy = 10;
    const pid_t other = rankThat(directory.path(), kShort, [](Liveness&) {});
    awaitProcess(directory.path(), other);
    auto self = Liveness::join(directory.path(), RankId(0), 2, patience);
    std::optional<Liveness::Loss> loss;
    for (int i = 0; i < 5000 && !loss; ++i) {
        ::usleep(5'000);
        loss = (*self)->findLoss();
    }
    killAndReap(other);
    ASSERT_TRUE(loss.has_value());
    EXPECT_TRUE(loss->hangs);
}

TEST(Liveness, ARankThatWaitsForOthersDoesNotHang) {
    const test::TemporaryDirectory directory;
    const pid_t other = rankThat(directory.path(), kShort, [](Liveness& self) {
        ::usleep(2'000);
        self.waits();
    });
    EXPECT_FALSE(lookFor(directory.path(), other, 120).has_value());
}

TEST(Liveness, MissingDirectoryIsAnError) {
    const auto joined = Liveness::join("/nonexistent/directory", RankId(0), 1);
    ASSERT_FALSE(joined.ok());
    EXPECT_EQ(joined.error().code, ErrorCode::Io);
}

}  // namespace
}  // namespace piper
