// SPDX-License-Identifier: Apache-2.0
// The scripts that watch, list and end jobs, run for real in job directories made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "sessions/job.h"
#include "sessions/job_report.h"
#include "sessions/launchers.h"
#include "sessions/local_connection.h"
#include "sessions/process.h"
#include "tests/support/paths.h"
#include "tests/support/processes.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

class JobScripts : public ::testing::Test {
protected:
    std::string job(const std::string& name) {
        const auto directory = m_directory.path() / name;
        std::filesystem::create_directories(directory);
        write(name, "plan.json", "{}");
        return directory.string();
    }
    void write(const std::string& job, const std::string& file, const std::string& text) const {
        std::ofstream(m_directory.path() / job / file) << text;
    }
    /// A process that carries the job's directory as mpirun and its ranks do.
    std::string launchStub(const std::string& name, const std::string& body) {
        const std::string directory = job(name);
        write(name, "launch.sh", "echo $$ > launcher.pid\n" + body);
        return directory;
    }
    Result<ChildProcess> startStub(const std::string& directory) {
        return ChildProcess::start({"sh", directory + "/launch.sh", "--job", directory, "--end"},
                                   directory);
    }

    test::TemporaryDirectory m_directory;
    std::unique_ptr<Connection> m_local = openLocalConnection();
};

constexpr const char* kStatus =
    "{\"format_version\": 1, \"state\": \"running\", \"step\": 3,\n \"steps\": 9, \"loss\": 1.5, "
    "\"tokens_per_second\": 10, \"message\": \"\"}";

TEST_F(JobScripts, ListTellsEveryStateInOneExchange) {
    job("a");
    write("a", "exit_status", "0       \n");
    write("a", "status.json", kStatus);
    job("b");
    write("b", "exit_status", "3\n");
    job("c");
    write("c", "launcher.pid", "999999999\n");
    job("d");
    write("d", "launcher.pid", std::to_string(::getpid()));
    write("d", "status.json", kStatus);
    job("e");
    write("e", "launcher.pid", "999999999\n");
    write("e", "cancelled", "");
    std::filesystem::create_directories(m_directory.path() / "no job");
    const auto jobs = summarizeJobs(*m_local, m_directory.path().string());
    ASSERT_TRUE(jobs.ok()) << jobs.error().text();
    ASSERT_EQ(jobs->size(), 5U);
    std::map<char, JobState> states;
    for (const JobSummary& j : *jobs) states[j.directory.back()] = j.status.state;
    EXPECT_EQ(states['a'], JobState::Finished);
    EXPECT_EQ(states['b'], JobState::Failed);
    EXPECT_EQ(states['c'], JobState::Failed);
    EXPECT_EQ(states['d'], JobState::Running);
    EXPECT_EQ(states['e'], JobState::Cancelled);
    EXPECT_EQ(jobs->at(1).status.step, 3);  // newest first: e d c b a
    EXPECT_TRUE(summarizeJobs(*m_local, "/nonexistent/jobs")->empty());
}

TEST_F(JobScripts, WatchReportsChangesAndEndsWithTheJob) {
    const std::string directory = job("w");
    write("w", "launcher.pid", std::to_string(::getpid()));
    auto watch = m_local->start({"sh", "-c", watchScript(directory, {})}, "");
    ASSERT_TRUE(watch.ok());
    JobReportReader reader;
    std::vector<JobReport> reports;
    const auto waitFor = [&](std::size_t count) {
        for (int i = 0; i < 500 && reports.size() < count; ++i) {
            auto text = (*watch)->read();
            ASSERT_TRUE(text.ok());
            for (JobReport& r : reader.feed(*text)) reports.push_back(std::move(r));
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ASSERT_EQ(reports.size(), count);
    };
    waitFor(1);
    EXPECT_EQ(statusOf(reports[0], "")->state, JobState::Starting);
    write("w", "status.json.new", kStatus);
    std::filesystem::rename(directory + "/status.json.new", directory + "/status.json");
    waitFor(2);
    EXPECT_EQ(statusOf(reports[1], "")->step, 3);
    write("w", "exit_status.new", "0       \n");
    std::filesystem::rename(directory + "/exit_status.new", directory + "/exit_status");
    waitFor(3);
    EXPECT_EQ(statusOf(reports[2], "")->state, JobState::Finished);
    for (int i = 0; i < 200 && !(*watch)->poll()->has_value(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ((*watch)->poll()->value_or(-1), 0);
}

TEST_F(JobScripts, CancelEndsEvenWhatIgnoresTermAndNothingElse) {
    const std::string stubborn =
        launchStub("one", "trap '' TERM\nwhile :; do sleep 0.0517; done\n");
    const std::string other = launchStub("one-more", "while :; do sleep 0.0518; done\n");
    auto a = startStub(stubborn), b = startStub(other);
    ASSERT_TRUE(a.ok() && b.ok());
    const auto job = openJob(*m_local, stubborn);
    ASSERT_TRUE(job.ok()) << job.error().text();
    const Status cancelled = (*job)->cancel();
    EXPECT_TRUE(cancelled.ok()) << cancelled.error().text();
    EXPECT_TRUE(test::processesNaming(stubborn + "/launch.sh").empty() || a->poll());
    EXPECT_FALSE(b->poll()) << "a job whose name only begins alike was ended";
    EXPECT_TRUE(b->cancel(1000).ok());
    EXPECT_EQ((*job)->status()->state, JobState::Cancelled);
}

TEST_F(JobScripts, AHostThatCannotEndProcessesSaysSo) {
    const std::string programs = (m_directory.path() / "programs").string();
    std::filesystem::create_directories(programs);
    for (const char* name : {"sh", "date", "sleep", "hostname"})
        std::filesystem::create_symlink("/bin/" + std::string(name), programs + "/" + name);
    auto running = startStub(launchStub("one", "while :; do sleep 0.0516; done\n"));
    ASSERT_TRUE(running.ok());
    const auto job = openJob(*m_local, (m_directory.path() / "one").string());
    ASSERT_TRUE(job.ok()) << job.error().text();
    const std::string before = std::getenv("PATH");
    ::setenv("PATH", programs.c_str(), 1);
    const Status cancelled = (*job)->cancel();
    ::setenv("PATH", before.c_str(), 1);
    ASSERT_FALSE(cancelled.ok());
    EXPECT_THAT(cancelled.error().text(), HasSubstr("no pgrep and pkill (Debian: procps)"));
    EXPECT_EQ((*job)->status()->state, JobState::Starting) << "it goes on, and is said to";
    EXPECT_TRUE((*job)->cancel().ok());
    EXPECT_TRUE(running->poll());
}

TEST_F(JobScripts, AJobThatHasEndedIsNoCancelledOne) {
    for (const auto& [name, code, state] : {std::tuple{"done", "0       \n", JobState::Finished},
                                            {"broken", "3       \n", JobState::Failed}}) {
        const std::string directory = launchStub(name, "exit 0\n");
        write(name, "launcher.pid", "999999999\n");
        write(name, "exit_status", code);
        write(name, "log.txt", "piper-worker: it broke\n");
        // What a launcher that was killed left alive is ended, too.
        auto left = ChildProcess::start(
            {"sh", "-c", "while :; do sleep 0.0519; done", "--job", directory, "--end"}, "");
        ASSERT_TRUE(left.ok());
        const auto job = openJob(*m_local, directory);
        ASSERT_TRUE(job.ok()) << job.error().text();
        const Status cancelled = (*job)->cancel();
        EXPECT_TRUE(cancelled.ok()) << cancelled.error().text();
        EXPECT_TRUE(left->poll()) << "a process of the job was left";
        EXPECT_EQ((*job)->status()->state, state);
    }
    // Ranks that had all ended when they were told to.
    JobReport report;
    report.cancelled = true, report.exit_status = "0";
    EXPECT_EQ(statusOf(report, "")->state, JobState::Finished);
    report.exit_status = "137";
    EXPECT_EQ(statusOf(report, "")->state, JobState::Cancelled);
}

TEST_F(JobScripts, LostNodeAndTheWorkersOwnWordsAreTheReason) {
    EXPECT_EQ(failureReason("x\nORTE has lost communication with a remote daemon.\n\n"
                            "  HNP daemon   : [[1,0],0] on node node0\n"
                            "  Remote daemon: [[1,0],2] on node node2\n\nfoo\n"),
              "node node2 was lost");
    EXPECT_EQ(failureReason("a\npiper-worker: rank 1 died\nmpirun: banner\n"),
              "piper-worker: rank 1 died");
    EXPECT_EQ(failureReason("rank 0 cannot be reached: no\npiper: node9 cannot be reached: Host "
                            "key verification failed.\nORTE\n"),
              "node9 cannot be reached: Host key verification failed.");
    EXPECT_EQ(failureReason("only\nlast line\n\n"), "last line");
    EXPECT_EQ(failureReason("\n"), "the log is empty");
}

TEST_F(JobScripts, WhatEndedAJobFromOutsideIsItsReasonInLists) {
    job("limit");
    write("limit", "exit_status", "130\n");
    write("limit", "log.txt",
          "slurmstepd: error: *** JOB 4 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***\n");
    job("lost");
    write("lost", "launcher.json", jobRecordText({"sbatch", {}, "4711"}));
    write("lost", "slurm_end", "NODE_FAIL 01:00:00 n1 n3 \n");
    job("scancelled");
    write("scancelled", "launcher.json", jobRecordText({"sbatch", {}, "4712"}));
    write("scancelled", "slurm_end", "CANCELLED - \n");
    const auto jobs = summarizeJobs(*m_local, m_directory.path().string());
    ASSERT_TRUE(jobs.ok()) << jobs.error().text();
    ASSERT_EQ(jobs->size(), 3U);
    EXPECT_EQ(jobs->at(0).status.state, JobState::Cancelled);
    EXPECT_EQ(jobs->at(0).status.message, "the job was cancelled in Slurm");
    EXPECT_EQ(jobs->at(1).status.state, JobState::Failed);
    EXPECT_EQ(jobs->at(1).status.message, "nodes n1 n3 were lost");
    EXPECT_EQ(jobs->at(2).status.state, JobState::Failed);
    EXPECT_EQ(jobs->at(2).status.message, "Slurm ended the job at its time limit");
}

TEST_F(JobScripts, WhoWaitsLearnsItsPlaceAndWhetherWaitingHelps) {
    JobReport report;
    report.queue = "PENDING (Resources)", report.place = "2", report.expected_start = "N/A";
    EXPECT_EQ(statusOf(report, "")->state, JobState::Queued);
    EXPECT_EQ(statusOf(report, "")->message, "PENDING (Resources), place 2");
    report.queue = "PENDING (PartitionTimeLimit)";
    EXPECT_THAT(statusOf(report, "")->message, HasSubstr("will not start"));
    report.status = kStatus;  // newer than what the queue said
    EXPECT_EQ(statusOf(report, "")->state, JobState::Running);
}

TEST_F(JobScripts, ReportsWithoutEndTakeNoMemoryWithoutEnd) {
    JobReportReader reader;
    std::string lines;
    for (int i = 0; i < 1000; ++i) lines += "L " + std::string(1000, 'x') + "\n";
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(reader.feed(lines).empty());
    const std::vector<JobReport> reports = reader.feed("N a\nE 3\n.\n");
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_LE(reports[0].ending.size(), std::size_t{2} << 20U);
    EXPECT_EQ(reports[0].exit_status, "3");
}

TEST_F(JobScripts, RecordsOfAHostAreNotTrusted) {
    EXPECT_TRUE(readJobRecord(jobRecordText({"mpirun", {"n1"}, ""}), "r").ok());
    EXPECT_EQ(readJobRecord(jobRecordText({"sbatch", {}, "123"}), "r")->slurm_job, "123");
    EXPECT_FALSE(readJobRecord(jobRecordText({"mpirun", {"-oProxyCommand=x"}, ""}), "r").ok());
    EXPECT_FALSE(readJobRecord(jobRecordText({"sbatch", {}, "1; rm"}), "r").ok());
    EXPECT_FALSE(readJobRecord("[]", "r").ok());
}

}  // namespace
}  // namespace piper
