// SPDX-License-Identifier: Apache-2.0
// Real ranks under mpirun, launched by the real program: what a run leaves behind, also when a
// rank, the program or the disk fails in the middle of it.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "collectors/store/workspace.h"
#include "sessions/process.h"
#include "tests/app/piperctl/piperctl.h"
#include "tests/support/processes.h"

namespace piper::test {
namespace {

using std::chrono::milliseconds;

class PiperctlRun : public ::testing::Test {
protected:
    void SetUp() override { ::setenv("PIPER_JOBS", jobs().c_str(), 1); }

    void TearDown() override {
        for (const pid_t pid : processesNaming(jobs())) ::kill(pid, SIGKILL);
    }

    [[nodiscard]] std::string jobs() const { return (m_dir.path() / "jobs").string(); }
    [[nodiscard]] std::string workspace() const { return (m_dir.path() / "run.piper").string(); }

    /// Starts `piperctl run` of the small example and returns once it has done `steps` steps.
    void startAndWaitFor(int steps) {
        Result<ChildProcess> started =
            ChildProcess::start({program("piperctl"), "run", example("plans/olmoe-tiny.json"),
                                 "--steps", "4000", "-o", workspace()},
                                m_dir.path().string());
        ASSERT_TRUE(started.ok()) << started.error().text();
        m_program.emplace(std::move(started).value());
        for (int i = 0; i < 1200; ++i) {
            m_program->readAvailable(m_output, m_output);
            if (m_output.find(fmt::format("step {}/", steps)) != std::string::npos) return;
            if (m_program->poll()) break;
            std::this_thread::sleep_for(milliseconds(50));
        }
        FAIL() << "no step " << steps << " seen:\n" << m_output;
    }

    /// Exit status within 60 s, -1 when it goes on.
    int waitForEnd() {
        for (int i = 0; i < 1200; ++i) {
            m_program->readAvailable(m_output, m_output);
            if (const auto status = m_program->poll()) return *status;
            std::this_thread::sleep_for(milliseconds(50));
        }
        return -1;
    }

    /// Process ids of the ranks of this test's jobs.
    [[nodiscard]] std::vector<pid_t> ranks() const {
        std::vector<pid_t> found;
        for (const pid_t pid : processesNaming(jobs())) found.push_back(pid);
        std::erase_if(found, [](pid_t pid) {
            std::error_code gone;
            return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), gone)
                       .filename() != "piper-worker";
        });
        return found;
    }

    void expectSteps(const std::string& run_name, RunOutcome outcome, std::size_t at_least) {
        Result<Workspace> file = Workspace::open(workspace());
        ASSERT_TRUE(file.ok()) << file.error().text() << m_output;
        const Result<piper::Run> run = file->readRun(run_name);
        ASSERT_TRUE(run.ok()) << run.error().text();
        EXPECT_EQ(run->outcome, outcome) << run->outcome_reason;
        const auto problems = run->notes.find("problems");
        ASSERT_EQ(run->ranks.size(), 4U)
            << (problems == run->notes.end() ? "" : problems->second) << m_output;
        std::size_t most = 0;
        for (const RankTimeline& rank : run->ranks) {
            most = std::max(most, rank.steps.size());
            EXPECT_FALSE(rank.events.empty());
        }
        EXPECT_GE(most, at_least);
    }

    TemporaryDirectory m_dir;
    std::optional<ChildProcess> m_program;
    std::string m_output;
};

TEST_F(PiperctlRun, StoresMeasuredBesideModelledAndCompares) {
    const CommandResult run = piperctl(
        {"run", example("plans/olmoe-tiny.json"), "--steps", "4", "-o", workspace(), "--json"});
    ASSERT_EQ(run.exit_status, 0) << run.error_output;
    const Json json = document(run);
    EXPECT_EQ(json.at("outcome").get<std::string>(), "finished");
    EXPECT_EQ(json.at("measured").get<std::string>(), "measured");
    EXPECT_EQ(json.at("predicted").get<std::string>(), "modelled");
    expectSteps("measured", RunOutcome::Finished, 4);

    const CommandResult compared =
        piperctl({"compare", workspace(), "modelled", "measured", "--json"});
    ASSERT_EQ(compared.exit_status, 0) << compared.error_output;
    const Json comparison = document(compared);
    EXPECT_FALSE(comparison.at("phases").empty());
    EXPECT_EQ(comparison.at("ranks").size(), 4U);
    const CommandResult stats = piperctl({"stats", workspace(), "--json"});
    ASSERT_EQ(stats.exit_status, 0);
    EXPECT_EQ(document(stats).at("runs").size(), 3U);  // and for the measured routing
}

TEST_F(PiperctlRun, BenchOfTheWorkerHoldsItBesideItsLimits) {
    const CommandResult measured = piperctl({"bench", "worker", "--quick", "--json"});
    ASSERT_EQ(measured.exit_status, 0) << measured.error_output;
    const Json bench = document(measured);
    std::set<std::string> rows;
    for (const Json& row : bench.at("experts").at("rows")) {
        rows.insert(fmt::format("{} {}", row.at("pass").get<std::string>(),
                                row.at("peer").get<std::string>()));
        EXPECT_GT(row.at("flops_per_second").get<double>(), 0.0);
        EXPECT_GT(row.at("against_itself").at("n").get<int>(), 0);
    }
    EXPECT_EQ(rows, (std::set<std::string>{"forward packed", "forward loop", "input_grad packed",
                                           "weight_grad packed"}));
    // 2 layers of 15 operations and more a micro-batch, head and embedding.
    EXPECT_GT(bench.at("collecting").at("events_per_step").get<double>(), 100.0);
    EXPECT_GT(bench.at("step").at("of_best_gemm").get<double>(), 0.0);
    EXPECT_EQ(piperctl({"bench", "worker", "--quick"}).exit_status, 0);
}

TEST_F(PiperctlRun, CalibrationTimesCallsAloneAndOperationsInAStep) {
    const std::string file = (m_dir.path() / "cluster.json").string();
    const CommandResult measured =
        piperctl({"calibrate", "--quick", "--ranks", "2", "-o", file, "--json"});
    ASSERT_EQ(measured.exit_status, 0) << measured.error_output;
    Json cluster = document(measured);
    std::set<std::string> in_step;
    for (const Json& point : cluster.at("curves").at("operation")) {
        in_step.insert(point.at("operation").get<std::string>() + " " +
                       point.at("kind").get<std::string>());
        EXPECT_GT(point.at("ratio").get<double>(), 0.02) << point;
        EXPECT_LT(point.at("ratio").get<double>(), 50.0) << point;
    }
    for (const char* operation :
         {"attention forward", "attention input_grad", "attention weight_grad", "router forward",
          "expert forward", "expert input_grad", "expert weight_grad", "head_loss weight_grad",
          "embedding weight_grad", "dispatch dispatch", "combine combine", "optimizer optimizer"})
        EXPECT_TRUE(in_step.contains(operation)) << operation;

    const auto step = [&](const std::string& cluster_file) {
        return document(piperctl({"predict", "--model", example("models/olmoe-tiny.json"),
                                  "--cluster", cluster_file, "--layout", "dp=2",
                                  "--global-batch-size", "16", "--seq-len", "128", "--json"}))
            .at("step_seconds")
            .get<double>();
    };
    cluster.at("curves").erase("operation");
    const std::string alone = (m_dir.path() / "alone.json").string();
    write(alone, cluster.dump());
    EXPECT_NE(step(file), step(alone));
}

TEST_F(PiperctlRun, AKilledRankStopsTheRunAndKeepsWhatItRecorded) {
    ASSERT_NO_FATAL_FAILURE(startAndWaitFor(3));
    const std::vector<pid_t> workers = ranks();
    ASSERT_EQ(workers.size(), 4U);
    ::kill(workers[2], SIGKILL);
    EXPECT_EQ(waitForEnd(), 3) << m_output;
    EXPECT_NE(m_output.find("failed"), std::string::npos) << m_output;
    expectSteps("measured", RunOutcome::Failed, 2);
    EXPECT_TRUE(ranks().empty());
}

TEST_F(PiperctlRun, AKilledProgramLeavesTheRunGoingAndItIsFoundAgain) {
    ASSERT_NO_FATAL_FAILURE(startAndWaitFor(2));
    ::kill(m_program->pid(), SIGKILL);
    EXPECT_EQ(waitForEnd(), 128 + SIGKILL);
    EXPECT_EQ(ranks().size(), 4U);
    const CommandResult listed = piperctl({"jobs", "--json"});
    ASSERT_EQ(listed.exit_status, 0) << listed.error_output;
    const Json all = document(listed);
    ASSERT_EQ(all.at("jobs").size(), 1U);
    EXPECT_EQ(all.at("jobs").at(0).at("state").get<std::string>(), "running");
    const std::string job = all.at("jobs").at(0).at("directory").get<std::string>();

    EXPECT_EQ(piperctl({"cancel", job}).exit_status, 0);
    EXPECT_TRUE(ranks().empty());
    const CommandResult fetched = piperctl({"fetch", job, "-o", workspace(), "--name", "measured"});
    EXPECT_EQ(fetched.exit_status, 130) << fetched.error_output;
    expectSteps("measured", RunOutcome::Cancelled, 2);
}

TEST_F(PiperctlRun, CtrlCStopsEveryRankAndKeepsTheRun) {
    ASSERT_NO_FATAL_FAILURE(startAndWaitFor(2));
    ::kill(m_program->pid(), SIGINT);
    EXPECT_EQ(waitForEnd(), 130) << m_output;
    expectSteps("measured", RunOutcome::Cancelled, 2);
    EXPECT_TRUE(ranks().empty());
}

TEST_F(PiperctlRun, AFullDiskIsNamedAndTheCommittedPartIsKept) {
    ASSERT_EQ(::geteuid(), 0U) << "needs root to mount a small disk";
    const std::string disk = jobs();
    std::filesystem::create_directories(disk);
    ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=3m"), 0);
    const CommandResult run =
        piperctl({"run", example("plans/olmoe-tiny.json"), "--steps", "400", "-o", workspace()});
    EXPECT_EQ(run.exit_status, 3) << run.error_output;
    EXPECT_TRUE(run.error_output.find("full") != std::string::npos ||
                run.error_output.find("space") != std::string::npos)
        << run.error_output;
    expectSteps("measured", RunOutcome::Failed, 1);
    EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace piper::test
