// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "collectors/live/collect.h"
#include "core/run/job_status.h"
#include "core/run/statistics.h"
#include "tests/app/worker/worker_process.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

constexpr std::int64_t kSteps = 20;

/// The one-rank run that every layout is compared with, and its routing.
class Layouts : public testing::Test {
protected:
    static void SetUpTestSuite() {
        s_directory = new test::TemporaryDirectory;
        test::Launch launch = launchOf(test::smallPlan(1, 1, 1), "one");
        launch.mpi = false;
        launch.arguments.insert(launch.arguments.end(), {"--record-routing", routing()});
        const test::WorkerResult one = test::runWorkers(launch);
        ASSERT_EQ(one.exit_status, 0) << one.output;
        s_losses = new std::vector<double>(one.losses);
        ASSERT_EQ(s_losses->size(), static_cast<std::size_t>(kSteps));
    }
    static void TearDownTestSuite() {
        delete s_losses;
        delete s_directory;
    }

    static std::string routing() { return (s_directory->path() / "routing").string(); }

    static test::Launch launchOf(Plan plan, const std::string& name) {
        test::Launch launch;
        launch.plan = std::move(plan);
        launch.job = s_directory->path() / name;
        std::filesystem::create_directories(launch.job);
        launch.arguments = {"--steps", std::to_string(kSteps), "--seed",
                            "5",       "--learning-rate",      "3e-3"};
        return launch;
    }

    /// The same losses as one rank to 1e-5, with its routing.
    static void expectSameLosses(Plan plan, const std::string& name,
                                 const std::string& nodes = "") {
        test::Launch launch = launchOf(std::move(plan), name);
        launch.nodes = nodes;
        launch.arguments.insert(launch.arguments.end(), {"--replay-routing", routing()});
        const test::WorkerResult result = test::runWorkers(launch);
        ASSERT_EQ(result.exit_status, 0) << result.output;
        ASSERT_EQ(result.losses.size(), s_losses->size()) << result.output;
        for (std::size_t i = 0; i < s_losses->size(); ++i)
            EXPECT_NEAR(result.losses[i], (*s_losses)[i], 1e-5 * (*s_losses)[i])
                << name << ", step " << i;
    }

    static test::TemporaryDirectory* s_directory;
    static std::vector<double>* s_losses;
};

test::TemporaryDirectory* Layouts::s_directory = nullptr;
std::vector<double>* Layouts::s_losses = nullptr;

TEST_F(Layouts, LossFallsOnRealText) {
    EXPECT_NEAR(s_losses->front(), std::log(256.0), 0.1);
    EXPECT_LT(s_losses->back(), s_losses->front() - 1.0);
}

TEST_F(Layouts, TheStatusSaysWhatAllRanksRecorded) {
    const Plan plan = test::smallPlan(2, 2, 2);
    const test::Launch launch = launchOf(plan, "status");
    const test::WorkerResult result = test::runWorkers(launch);
    ASSERT_EQ(result.exit_status, 0) << result.output;
    const Result<JobStatus> status = parseJobStatus(result.status, "status.json");
    ASSERT_TRUE(status.ok()) << status.error().text();
    Result<Workspace> file = Workspace::create(launch.job / "all.piper");
    ASSERT_TRUE(file.ok() && collectJob(launch.job, *file, "run").ok());
    const Result<piper::Run> run = file->readWithoutEvents("run");
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(status->load, lastStepLoad(*run));
    ASSERT_EQ(status->load.layers.size(), 2U) << "the two MoE layers are on one stage each";
    std::int64_t routed = 0;
    for (const std::int64_t tokens : status->load.tokens) routed += tokens;
    EXPECT_EQ(routed, 2 * plan.global_batch_size * plan.seq_len * plan.model.moe->router_topk);
    EXPECT_EQ(status->rank_peak_bytes, computeStatistics(*run).rank_peak_bytes);
}

TEST_F(Layouts, TwoStages) {
    expectSameLosses(test::smallPlan(2, 1, 1), "pp2");
}

TEST_F(Layouts, TwoExpertRanks) {
    expectSameLosses(test::smallPlan(1, 2, 2), "ep2");
}

TEST_F(Layouts, TwoReplicas) {
    expectSameLosses(test::smallPlan(1, 2, 1), "dp2");
}

TEST_F(Layouts, TwoStagesOfTwoExpertRanks) {
    expectSameLosses(test::smallPlan(2, 2, 2), "pp2-ep2");
}

TEST_F(Layouts, ExpertReplicasInChunks) {
    Plan plan = test::smallPlan(1, 4, 2);
    plan.all_to_all.chunks = 2;
    expectSameLosses(plan, "ep2-edp2-chunks");
}

TEST_F(Layouts, NodeStagedExchangeWithPlacement) {
    Plan plan = test::smallPlan(1, 4, 4);
    plan.all_to_all.algorithm = AllToAllAlgorithm::Node;
    plan.all_to_all.chunks = 2;
    plan.expert_placement = {3, 2, 1, 0, 3, 2, 1, 0};
    expectSameLosses(plan, "node", "0,0,1,1");
}

}  // namespace
}  // namespace piper
