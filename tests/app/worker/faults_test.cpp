// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "collectors/live/collect.h"
#include "collectors/live/live_recorder.h"
#include "kernels/pipeline/liveness.h"
#include "tests/app/worker/worker_process.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

class Faults : public testing::Test {
protected:
    test::Launch launchOf(Plan plan) {
        test::Launch launch;
        launch.plan = std::move(plan);
        launch.job = m_directory.path();
        launch.arguments = {"--steps", "100000"};
        return launch;
    }
    Result<CollectedRun> collect() {
        Result<Workspace> workspace = Workspace::create((m_directory.path() / "all.piper"));
        if (!workspace.ok()) return std::move(workspace).error();
        return collectJob(m_directory.path(), *workspace, "run");
    }
    test::TemporaryDirectory m_directory;
};

TEST_F(Faults, AKilledRankIsNamedByTheOthers) {
    test::WorkerProcess workers(launchOf(test::smallPlan(2, 2, 2)));
    ASSERT_TRUE(workers.awaitStep(3)) << workers.output();
    const std::int64_t victim = Liveness::processOf(m_directory.path(), 2);
    ASSERT_GT(victim, 0);
    ASSERT_EQ(::kill(static_cast<pid_t>(victim), SIGKILL), 0);
    const auto killed_at = std::chrono::steady_clock::now();
    EXPECT_NE(workers.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - killed_at, std::chrono::seconds(60));
    EXPECT_EQ(workers.rankExit(2), 128 + SIGKILL);
    for (const std::int64_t rank : {0, 1, 3}) EXPECT_EQ(workers.rankExit(rank), 3) << rank;
    const std::string status = workers.statusText();
    EXPECT_NE(status.find("\"failed\""), std::string::npos) << status;
    EXPECT_NE(status.find("rank 2 died; its last operation: step"), std::string::npos) << status;
    const Result<CollectedRun> run = collect();
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->ranks, 4);
    EXPECT_EQ(run->outcome, RunOutcome::Failed);
    EXPECT_NE(run->outcome_reason.find("rank 2"), std::string::npos) << run->outcome_reason;
}

TEST_F(Faults, KilledRankZeroIsNamedToo) {
    test::WorkerProcess workers(launchOf(test::smallPlan(1, 2, 2)));
    ASSERT_TRUE(workers.awaitStep(2)) << workers.output();
    ASSERT_EQ(::kill(static_cast<pid_t>(Liveness::processOf(m_directory.path(), 0)), SIGKILL), 0);
    EXPECT_NE(workers.wait(), 0);
    EXPECT_EQ(workers.rankExit(1), 3) << workers.output();
    EXPECT_NE(workers.statusText().find("rank 0 died; its last operation: step"), std::string::npos)
        << workers.statusText();
}

TEST_F(Faults, AStoppedRankIsNamedByTheOthers) {
    test::WorkerProcess workers(launchOf(test::smallPlan(2, 1, 1)));
    ASSERT_TRUE(workers.awaitStep(2)) << workers.output();
    const auto victim = static_cast<pid_t>(Liveness::processOf(m_directory.path(), 1));
    ASSERT_GT(victim, 0);
    ASSERT_EQ(::kill(victim, SIGSTOP), 0);
    EXPECT_NE(workers.wait(), 0);
    EXPECT_EQ(workers.rankExit(0), 3) << workers.output();
    EXPECT_NE(workers.statusText().find("rank 1 hangs; its last operation: step"),
              std::string::npos)
        << workers.statusText();
    const Result<CollectedRun> run = collect();
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->outcome, RunOutcome::Failed);
}

TEST_F(Faults, ATerminatedLauncherCancelsTheRun) {
    test::WorkerProcess workers(launchOf(test::smallPlan(2, 1, 1)));
    ASSERT_TRUE(workers.awaitStep(2)) << workers.output();
    ASSERT_EQ(::kill(workers.process(), SIGINT), 0);
    (void)workers.wait();
    for (const std::int64_t rank : {0, 1}) EXPECT_EQ(workers.rankExit(rank), 130) << rank;
    EXPECT_NE(workers.statusText().find("\"cancelled\""), std::string::npos)
        << workers.statusText();
    const Result<CollectedRun> run = collect();
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->outcome, RunOutcome::Cancelled);
}

TEST_F(Faults, AnInterruptedSingleRankIsCancelled) {
    test::Launch launch = launchOf(test::smallPlan(1, 1, 1));
    launch.mpi = false;
    test::WorkerProcess workers(launch);
    ASSERT_TRUE(workers.awaitStep(2)) << workers.output();
    ASSERT_EQ(::kill(static_cast<pid_t>(Liveness::processOf(m_directory.path(), 0)), SIGINT), 0);
    EXPECT_EQ(workers.wait(), 130);
    EXPECT_NE(workers.statusText().find("\"cancelled\""), std::string::npos);
}

TEST_F(Faults, AFullDiskEndsTheRun) {
    // A limit on the size of a file stands for the disk: writes beyond it fail.
    test::Launch launch = launchOf(test::smallPlan(1, 1, 1));
    launch.mpi = false;
    launch.prelude = "trap '' XFSZ; ulimit -f 1200;";
    const test::WorkerResult result = test::runWorkers(launch);
    EXPECT_EQ(result.exit_status, 3) << result.output;
    EXPECT_NE(result.status.find("\"failed\""), std::string::npos) << result.status;
    const Result<CollectedRun> run = collect();
    ASSERT_TRUE(run.ok()) << run.error().text();
}

TEST_F(Faults, AnInfiniteLossNamesLayerAndStep) {
    test::Launch launch = launchOf(test::smallPlan(2, 1, 1));
    launch.arguments.insert(launch.arguments.end(), {"--learning-rate", "1e30"});
    test::WorkerProcess workers(launch);
    EXPECT_NE(workers.wait(), 0);
    for (const std::int64_t rank : {0, 1}) EXPECT_EQ(workers.rankExit(rank), 3) << workers.output();
    const std::string status = workers.statusText();
    EXPECT_NE(status.find("not finite"), std::string::npos) << status;
    EXPECT_NE(status.find("layer"), std::string::npos) << status;
    EXPECT_NE(status.find("step 1"), std::string::npos) << status;
}

}  // namespace
}  // namespace piper
