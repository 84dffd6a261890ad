// SPDX-License-Identifier: Apache-2.0
// A connection that is cut again and again while jobs are launched, watched and collected, each at
// a random moment: no run is lost, no file is damaged, no process is left that nobody lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "collectors/store/workspace.h"
#include "sessions/job_directory.h"
#include "sessions/job_report.h"
#include "sessions/plan_run.h"
#include "tests/sessions/ssh_server.h"
#include "tests/support/example_plans.h"
#include "tests/support/processes.h"

namespace piper {
namespace {

using test::SshServer;
using test::SshTest;
using Clock = std::chrono::steady_clock;

constexpr int kCuts = 100;
constexpr std::int64_t kSteps = 10;
constexpr std::int64_t kRanks = 2;
constexpr auto kOrphanAfter = std::chrono::seconds(10);
constexpr auto kLongestRun = std::chrono::seconds(120);

enum Phase : std::size_t { Launching, Running, Fetching };
constexpr std::array kPhaseNames = {"launch", "run", "fetch"};

/// Real ranks of the real worker behind a real sshd.
class SshStorm : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        m_plan = test::tinyPlan(1, kRanks, kRanks, 1);
        m_plan.seq_len = 64;
        m_plan.precision = Precision::Fp32;
        const std::string cluster = "packaging/examples/clusters/local-cpu.json";
        Result<ClusterSpec> here =
            readClusterText(test::readText(test::sourceDir() / cluster), cluster);
        ASSERT_TRUE(here.ok()) << here.error().text();
        m_plan.cluster = std::move(here).value();
        m_server = serverNamedHost();
        m_host = connect();
        ASSERT_NE(m_host, nullptr);
    }
    void TearDown() override {
        for (const pid_t pid : test::processesNaming(jobs())) ::kill(pid, SIGKILL);
    }

    [[nodiscard]] std::string jobs() const { return path("jobs").string(); }
    [[nodiscard]] std::filesystem::path workspace() const { return path("runs.piper"); }

    std::unique_ptr<Connection> connect() {
        auto opened = open("host");
        EXPECT_TRUE(opened.ok()) << opened.error().text();
        return opened.ok() ? std::move(opened).value() : nullptr;
    }

    /// Does `work`, a phase of a run, and cuts the connection meanwhile when that is asked for: at
    /// any moment within the time that the phase took without a cut.
    template <class Work>
    auto during(Phase phase, std::optional<Phase> cut_in, const Work& work) {
        const Clock::time_point begin = Clock::now();
        std::jthread cutter;
        if (cut_in == phase) {
            const auto after = m_usual[phase] * std::uniform_real_distribution<>()(m_random);
            cutter = std::jthread([this, after] {
                std::this_thread::sleep_for(after);
                m_server->dropConnections();
            });
        }
        auto result = work();
        if (!cut_in) m_usual[phase] = Clock::now() - begin;
        return result;
    }

    /// The run to its end as who watches it does: what a cut interrupts is asked for again.
    JobState watch(const std::string& directory) {
        const Clock::time_point until = Clock::now() + kLongestRun;
        while (Clock::now() < until) {
            Result<PlanRun> run = PlanRun::attach(*m_host, directory);
            while (run.ok() && Clock::now() < until) {
                const Result<JobStatus> status = run->status();
                if (!status.ok()) break;
                if (isFinal(status->state)) return status->state;
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
            if (!run.ok() && run.error().code == ErrorCode::NotFound) return JobState::Queued;
        }
        return JobState::Running;
    }

    /// Launches, watches and collects one run, with at most one cut.
    void cycle(int number, std::optional<Phase> cut_in) {
        PlanRunOptions options;
        options.worker = test::program("piper-worker");
        options.job_directory = jobs() + "/" + newJobName("storm" + std::to_string(number));
        options.steps = kSteps;
        const bool confirmed = during(
            Launching, cut_in, [&] { return PlanRun::start(*m_host, m_plan, options).ok(); });
        const std::string& job = options.job_directory;
        const JobState state = during(Running, cut_in, [&] { return watch(job); });
        // Without an answer the job may have started all the same: then it is one like any other.
        const bool started = confirmed || std::filesystem::exists(job + "/launcher.pid");
        ++(started ? m_started : m_not_started);
        if (!started) return;
        ASSERT_EQ(toText(state), toText(JobState::Finished))
            << job << ": a run was lost; its log:\n"
            << test::readText(job + "/log.txt");
        const auto stored = during(Fetching, cut_in, [&] {
            Result<PlanRun> run = PlanRun::attach(*m_host, job);
            return run.ok() ? run->collect(workspace(), jobName(job)) : run.error();
        });
        if (!stored.ok() && cut_in == Fetching) {  // a cut while it was looked up
            Result<PlanRun> again = PlanRun::attach(*m_host, job);
            ASSERT_TRUE(again.ok()) << again.error().text();
            const auto second = again->collect(workspace(), jobName(job));
            ASSERT_TRUE(second.ok()) << stored.error().text() << "\nthen " << second.error().text();
        } else {
            ASSERT_TRUE(stored.ok()) << stored.error().text();
        }
        compareWithHost(job);
    }

    /// The run as it was collected holds what each rank's own file holds.
    void compareWithHost(const std::string& job) {
        auto file = Workspace::open(workspace());
        ASSERT_TRUE(file.ok()) << file.error().text();
        const auto run = file->readRun(jobName(job));
        ASSERT_TRUE(run.ok()) << run.error().text();
        EXPECT_TRUE(file->damage().empty()) << file->damage().front();
        EXPECT_EQ(run->outcome, RunOutcome::Finished);
        ASSERT_EQ(std::ssize(run->ranks), kRanks);
        for (std::int64_t r = 0; r < kRanks; ++r) {
            const RankTimeline& rank = run->ranks[static_cast<std::size_t>(r)];
            EXPECT_EQ(std::ssize(rank.steps), kSteps) << job;
            auto own = Workspace::open(job + "/rank-" + std::to_string(r) + ".piper");
            ASSERT_TRUE(own.ok()) << own.error().text();
            const auto runs = own->runs();
            ASSERT_TRUE(runs.ok() && runs->size() == 1);
            EXPECT_EQ(std::ssize(rank.events), runs->front().events) << job;
        }
        EXPECT_FALSE(std::filesystem::exists(workspace().string() + ".job"));
        ++m_compared;
    }

    /// A session opened anew lists every job that has a process; the rest has ended 10 s later.
    void expectNoOrphan() {
        m_host = connect();
        std::this_thread::sleep_for(kOrphanAfter);
        const auto listed = summarizeJobs(*m_host, jobs());
        ASSERT_TRUE(listed.ok()) << listed.error().text();
        std::map<std::string, JobState> states;
        for (const JobSummary& job : *listed) states[job.directory] = job.status.state;
        for (const auto& entry : std::filesystem::directory_iterator(path("jobs"))) {
            const std::string job = entry.path().string();
            if (test::processesNaming(job + "/").empty() &&
                test::processesNaming("--job " + job).empty())
                continue;
            ASSERT_TRUE(states.contains(job)) << job << " has a process and is not listed";
            EXPECT_FALSE(isFinal(states[job])) << job << " has ended, but for a process";
        }
    }

    Plan m_plan;
    std::unique_ptr<SshServer> m_server;
    std::unique_ptr<Connection> m_host;
    std::mt19937 m_random{7};
    std::array<std::chrono::duration<double>, 3> m_usual{};
    int m_started = 0, m_not_started = 0, m_compared = 0;
};

TEST_F(SshStorm, NoRunIsLostNoFileDamagedNoProcessLeft) {
    cycle(0, std::nullopt);
    ASSERT_FALSE(HasFatalFailure());
    std::array<int, 3> cuts{};
    for (int i = 1; i <= kCuts; ++i) {
        const Phase phase = static_cast<Phase>(m_random() % 3);
        ++cuts[phase];
        cycle(i, phase);
        ASSERT_FALSE(HasFatalFailure()) << "cut " << i << " in " << kPhaseNames[phase];
    }
    expectNoOrphan();
    std::printf(
        "%d cuts in launches, %d in runs, %d in fetches; %d runs, %d launches that a cut "
        "ended before anything had started, %d runs collected whole\n",
        cuts[Launching], cuts[Running], cuts[Fetching], m_started, m_not_started, m_compared);
    EXPECT_GE(m_compared, kCuts - cuts[Launching]);
}

}  // namespace
}  // namespace piper
