// SPDX-License-Identifier: Apache-2.0
#include "collectors/live/live_recorder.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "collectors/store/workspace.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

LiveOptions optionsFor(const std::filesystem::path& directory, int rank) {
    LiveOptions options;
    options.job_directory = directory;
    options.rank = RankId(rank);
    options.stage = StageId(rank);
    options.world = 2;
    options.host = "here";
    options.plan_json = "{}";
    return options;
}

void recordAll(Recorder& recorder, const RankTimeline& rank) {
    for (const auto& text : rank.names) recorder.name(text);
    for (const auto& track : rank.tracks) recorder.track(track);
    for (const auto& e : rank.events) recorder.event(e);
    for (const auto& m : rank.memory) recorder.memory(m);
    for (const auto& c : rank.clock) recorder.clock(c);
    for (const auto& s : rank.steps) recorder.step(s);
    for (const auto& l : rank.expert_load) recorder.expertLoad(l);
    for (const auto& [name, value] : rank.counters) recorder.counter(name, value);
}

/// One step of 300 events and its record.
void recordStep(Recorder& recorder, std::int32_t step) {
    for (int i = 0; i < 300; ++i) {
        Event e;
        e.start_ns = step * 1000000 + i * 1000;
        e.duration_ns = 900;
        e.step = step;
        e.operation = i;
        e.lane = static_cast<Lane>(i % 5);
        recorder.event(e);
    }
    recorder.step({step, step * 1000000, step * 1000000 + 300000, 4.0, 1.0, 128});
}

piper::Run readBack(const std::filesystem::path& directory, int rank) {
    Result<Workspace> file = Workspace::open(rankFile(directory, RankId(rank)));
    EXPECT_TRUE(file.ok()) << file.error().text();
    if (!file.ok()) return {};
    EXPECT_TRUE(file->check().ok());
    EXPECT_TRUE(file->damage().empty()) << file->damage().front();
    Result<piper::Run> run = file->readRun("run");
    EXPECT_TRUE(run.ok()) << run.error().text();
    return run.ok() ? *run : piper::Run{};
}

TEST(LiveRecorder, AFinishedRankHoldsEveryRecord) {
    const test::TemporaryDirectory directory;
    RankTimeline rank = test::syntheticRank(1, 20000, 10, 4);
    LiveOptions options = optionsFor(directory.path(), 1);
    options.buffer_rows = 1000;  // many commits in mid-step
    auto recorder = LiveRecorder::create(options);
    ASSERT_TRUE(recorder.ok()) << recorder.error().text();
    recordAll(**recorder, rank);
    ASSERT_TRUE((*recorder)->finish(RunOutcome::Finished, "").ok());
    const piper::Run run = readBack(directory.path(), 1);
    ASSERT_EQ(run.ranks.size(), 1U);
    EXPECT_TRUE(test::sameRecords(run.ranks[0], rank));
    EXPECT_EQ(run.outcome, RunOutcome::Finished);
    EXPECT_EQ(run.notes.at("world"), "2");
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "rank-1.piper-wal"));
}

TEST(LiveRecorder, AFlushIsVisibleToAReaderAtOnce) {
    const test::TemporaryDirectory directory;
    auto recorder = LiveRecorder::create(optionsFor(directory.path(), 0));
    ASSERT_TRUE(recorder.ok());
    recordStep(**recorder, 0);
    EXPECT_TRUE(readBack(directory.path(), 0).ranks[0].events.empty());
    ASSERT_TRUE((*recorder)->flush().ok());
    const piper::Run run = readBack(directory.path(), 0);
    EXPECT_EQ(run.ranks[0].events.size(), 300U);
    EXPECT_EQ(run.outcome, RunOutcome::Running);
}

/// Child: records steps without end; tells the parent through a pipe of each committed one.
[[noreturn]] void recordUntilKilled(const std::filesystem::path& directory, int pipe) {
    auto recorder = LiveRecorder::create(optionsFor(directory, 0));
    if (!recorder.ok()) _exit(3);
    for (std::int32_t step = 0;; ++step) {
        recordStep(**recorder, step);
        if (!(*recorder)->flush().ok()) _exit(4);
        if (write(pipe, &step, sizeof step) != sizeof step) _exit(5);
    }
}

TEST(LiveRecorder, AKilledProcessLosesNothingThatWasFlushed) {
    std::mt19937 random(20);
    for (int round = 0; round < 20; ++round) {
        const test::TemporaryDirectory directory;
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) recordUntilKilled(directory.path(), ends[1]);
        close(ends[1]);
        std::int32_t committed = -1;
        const int wanted = static_cast<int>(random() % 8);
        while (committed < wanted && read(ends[0], &committed, sizeof committed) > 0) {
        }
        ASSERT_EQ(committed, wanted) << "the child ended by itself";
        usleep(static_cast<useconds_t>(random() % 4000));
        ASSERT_EQ(kill(child, SIGKILL), 0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        while (read(ends[0], &committed, sizeof committed) > 0) {
        }
        close(ends[0]);

        const piper::Run run = readBack(directory.path(), 0);
        ASSERT_EQ(run.ranks.size(), 1U);
        EXPECT_EQ(run.outcome, RunOutcome::Running);
        // At most the step after the last told one may be there too, and never in part.
        const auto steps = static_cast<std::int32_t>(run.ranks[0].steps.size());
        EXPECT_GE(steps, committed + 1);
        EXPECT_LE(steps, committed + 2);
        EXPECT_EQ(run.ranks[0].events.size(), 300U * run.ranks[0].steps.size());
    }
}

TEST(LiveRecorder, AFullDiskIsReportedAndKeepsWhatWasCommitted) {
    const test::TemporaryDirectory directory;
    const auto before = ::signal(SIGXFSZ, SIG_IGN);
    auto recorder = LiveRecorder::create(optionsFor(directory.path(), 0));
    ASSERT_TRUE(recorder.ok());
    recordStep(**recorder, 0);
    ASSERT_TRUE((*recorder)->flush().ok());

    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    rlimit small = old;
    small.rlim_cur = 512 << 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    std::int32_t step = 1;
    while ((*recorder)->status().ok() && step < 1000) {
        recordStep(**recorder, step++);
        (void)(*recorder)->flush();
    }
    recordStep(**recorder, step);
    const Status still = (*recorder)->flush();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    ::signal(SIGXFSZ, before);

    ASSERT_FALSE((*recorder)->status().ok());
    EXPECT_FALSE(still.ok());
    EXPECT_EQ((*recorder)->status().error().code, ErrorCode::Io);
    EXPECT_THAT((*recorder)->status().error().text(), HasSubstr("rank-0.piper"));
    EXPECT_EQ((*recorder)->lostRows(), 2 * 301);
    const Status finished = (*recorder)->finish(RunOutcome::Failed, "disk full");
    EXPECT_FALSE(finished.ok());  // the first fault is not forgotten
    const piper::Run run = readBack(directory.path(), 0);
    EXPECT_EQ(run.ranks[0].steps.size(), static_cast<std::size_t>(step) - 1);
    EXPECT_EQ(run.outcome, RunOutcome::Failed);
}

TEST(LiveRecorder, AFileThatCannotBeMadeIsAnError) {
    const test::TemporaryDirectory directory;
    const auto missing = LiveRecorder::create(optionsFor(directory.path() / "no" / "such", 3));
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::Io);
    EXPECT_THAT(missing.error().text(), HasSubstr("rank-3.piper"));
    EXPECT_THAT(missing.error().text(), HasSubstr("No such file"));
    if (geteuid() == 0) return;  // permissions do not bind root
    std::filesystem::permissions(
        directory.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    EXPECT_EQ(LiveRecorder::create(optionsFor(directory.path(), 0)).error().code, ErrorCode::Io);
}

TEST(LiveRecorder, ASecondAttemptReplacesTheFileOfTheFirst) {
    const test::TemporaryDirectory directory;
    for (int attempt = 0; attempt < 2; ++attempt) {
        auto recorder = LiveRecorder::create(optionsFor(directory.path(), 0));
        ASSERT_TRUE(recorder.ok()) << recorder.error().text();
        recordStep(**recorder, attempt);
        ASSERT_TRUE((*recorder)->finish(RunOutcome::Finished, "").ok());
    }
    const piper::Run run = readBack(directory.path(), 0);
    ASSERT_EQ(run.ranks[0].steps.size(), 1U);
    EXPECT_EQ(run.ranks[0].steps[0].step, 1);
}

}  // namespace
}  // namespace piper
