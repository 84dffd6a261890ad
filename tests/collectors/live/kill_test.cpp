// SPDX-License-Identifier: Apache-2.0
// A writer killed at random moments: what it was told is committed is in its file, whole.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "collectors/live/live_recorder.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

constexpr int kKills = 200;

Event eventAt(std::int64_t i) {
    Event e;
    e.start_ns = 10 * i;
    e.duration_ns = i % 7;
    e.step = static_cast<std::int32_t>(i / 100);
    e.operation = static_cast<std::int32_t>(i % 100);
    e.bytes = i * i % 4096;
    return e;
}

/// Records until it is killed; writes to `pipe` how many rows are committed.
[[noreturn]] void recordForEver(const std::filesystem::path& directory, int pipe) {
    LiveOptions options;
    options.job_directory = directory;
    options.rank = RankId(0);
    options.buffer_rows = 700;  // commits in mid-step too
    Result<std::unique_ptr<LiveRecorder>> recorder = LiveRecorder::create(std::move(options));
    if (!recorder.ok()) _exit(1);
    for (std::int64_t i = 0;;) {
        for (const std::int64_t end = i + 100 + i % 1900; i < end; ++i)
            (*recorder)->event(eventAt(i));
        (*recorder)->memory({10 * i, MemoryTerm::Weights, i});
        if (!(*recorder)->flush().ok()) _exit(2);
        if (write(pipe, &i, sizeof i) != sizeof i) _exit(3);
    }
}

/// Starts a writer, kills it after `microseconds`, with `recording` counted from its first commit
/// on; how many rows it was told are safe.
std::int64_t killWriter(const std::filesystem::path& directory, int microseconds, bool recording) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe(ends), 0);
    const pid_t writer = fork();
    if (writer == 0) {
        close(ends[0]);
        recordForEver(directory, ends[1]);
    }
    close(ends[1]);
    pollfd told{ends[0], POLLIN, 0};
    if (recording) {
        EXPECT_EQ(poll(&told, 1, -1), 1);
    }
    usleep(static_cast<useconds_t>(microseconds));
    EXPECT_EQ(kill(writer, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(waitpid(writer, &status, 0), writer);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << WEXITSTATUS(status);
    std::int64_t safe = 0, count = 0;
    while (read(ends[0], &count, sizeof count) == sizeof count) safe = count;
    close(ends[0]);
    return safe;
}

TEST(KilledWriter, LosesNothingThatWasCommitted) {
    std::mt19937 random(11);
    std::int64_t rows = 0;
    int with_rows = 0;
    for (int round = 0; round < kKills; ++round) {
        const test::TemporaryDirectory directory;
        const std::int64_t safe =
            killWriter(directory.path(), static_cast<int>(random() % 60'000), round % 2 == 1);
        Result<Workspace> file = Workspace::open(rankFile(directory.path(), RankId(0)));
        if (!file.ok()) {
            // Killed before the file was made.
            EXPECT_EQ(safe, 0) << file.error().text();
            continue;
        }
        const auto runs = file->runs();
        ASSERT_TRUE(runs.ok());
        if (runs->empty()) {
            EXPECT_EQ(safe, 0);
            continue;
        }
        const Result<piper::Run> run = file->readRun(runs->front().name);
        ASSERT_TRUE(run.ok()) << run.error().text();
        EXPECT_TRUE(file->damage().empty()) << file->damage().front();
        EXPECT_EQ(run->outcome, RunOutcome::Running);
        if (run->ranks.empty()) {
            EXPECT_EQ(safe, 0);
            continue;
        }
        const std::vector<Event>& events = run->ranks[0].events;
        ASSERT_GE(std::ssize(events), safe) << "round " << round;
        for (std::int64_t i = 0; i < std::ssize(events); ++i)
            ASSERT_EQ(events[static_cast<std::size_t>(i)], eventAt(i)) << i;
        rows += std::ssize(events);
        with_rows += events.empty() ? 0 : 1;
    }
    EXPECT_GE(with_rows, kKills / 2);
    RecordProperty("rows", static_cast<int>(rows / kKills));
}

}  // namespace
}  // namespace piper
