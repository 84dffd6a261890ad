// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "tests/app/worker/worker_process.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

class BadInput : public testing::Test {
protected:
    test::WorkerResult run(Plan plan, std::vector<std::string> arguments) {
        test::Launch launch;
        launch.plan = std::move(plan);
        launch.job = m_directory.path();
        launch.arguments = std::move(arguments);
        launch.mpi = false;
        return test::runWorkers(launch);
    }
    static void expectRefused(const test::WorkerResult& result, const char* text) {
        EXPECT_EQ(result.exit_status, 2) << result.output;
        EXPECT_NE(result.output.find(text), std::string::npos) << result.output;
    }
    test::TemporaryDirectory m_directory;
};

TEST_F(BadInput, UnknownOptionAndMissingPlan) {
    expectRefused(run(test::smallPlan(1, 1, 1), {"--stepz", "3"}), "--stepz");
    expectRefused(run(test::smallPlan(1, 1, 1), {"--steps", "0"}), "--steps");
    expectRefused(run(test::smallPlan(1, 1, 1), {"--plan", "/nonexistent.json"}), "--plan");
}

TEST_F(BadInput, PlanThatNeedsMoreRanks) {
    const test::WorkerResult result = run(test::smallPlan(2, 1, 1), {});
    expectRefused(result, "needs 2 ranks, 1 started");
    EXPECT_NE(result.status.find("\"failed\""), std::string::npos) << result.status;
}

TEST_F(BadInput, PlanTheWorkerDoesNotRun) {
    Plan plan = test::smallPlan(1, 1, 1);
    plan.model.dropout = 0.1;
    expectRefused(run(plan, {}), "dropout 0.1");
}

TEST_F(BadInput, PlanThatDropsSequences) {
    Plan plan = test::smallPlan(1, 1, 1);
    plan.global_batch_size = 7;
    expectRefused(run(plan, {}), "7");
}

TEST_F(BadInput, DataThatIsTooShort) {
    std::ofstream(m_directory.path() / "short.txt") << "too short";
    expectRefused(
        run(test::smallPlan(1, 1, 1), {"--data", (m_directory.path() / "short.txt").string()}),
        "short.txt");
}

TEST_F(BadInput, MissingRoutingTrace) {
    expectRefused(run(test::smallPlan(1, 1, 1), {"--replay-routing", "/nonexistent"}),
                  "/nonexistent");
}

TEST_F(BadInput, MemoryLimitIsAnOutsideFault) {
    const test::WorkerResult result =
        run(test::smallPlan(1, 1, 1), {"--memory-limit-bytes", "1000000"});
    EXPECT_EQ(result.exit_status, 3) << result.output;
    EXPECT_NE(result.output.find("1000000"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace piper
