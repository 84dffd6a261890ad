// SPDX-License-Identifier: Apache-2.0
// A connection that is cut again and again while jobs are launched, watched and fetched: no job is
// lost, no file is damaged, no process is left that nobody lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "sessions/job_directory.h"
#include "sessions/job_report.h"
#include "sessions/launchers.h"
#include "tests/sessions/ssh_server.h"
#include "tests/support/example_plans.h"
#include "tests/support/processes.h"

namespace piper {
namespace {

using std::chrono::milliseconds;
using test::SshServer;
using test::SshTest;

constexpr int kCuts = 100;

/// Stands for piper-worker: its command line, its files, half a second of work.
constexpr const char* kWorker = R"sh(#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --job ] && d=$2; shift; done
head -c 400000 /dev/urandom > "$d/rank-0.piper"
st() { printf '{"format_version": 1, "state": "%s", "step": %s, "steps": 5, "loss": 1,
 "tokens_per_second": 1, "message": ""}' "$1" "$2" > "$d/status.new"; mv "$d/status.new" "$d/status.json"; }
for i in 1 2 3 4 5; do st running $i; sleep 0.1; done
st finished 5
)sh";

class SshStorm : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        write("worker", kWorker);
        std::filesystem::permissions(path("worker"), std::filesystem::perms(0700));
        m_server = serverNamedHost();
        auto opened = open("host");
        ASSERT_TRUE(opened.ok()) << opened.error().text();
        m_host = std::move(opened).value();
    }

    [[nodiscard]] std::string jobs() const { return path("jobs").string(); }

    std::string launch(int number) {
        LaunchRequest request;
        request.plan = test::tinyPlan(1, 1, 1, 1);
        request.job_directory = jobs() + "/" + newJobName("storm" + std::to_string(number));
        request.worker = path("worker").string();
        const auto launcher = makeLauncher("mpirun", *m_host, {});
        if (launcher.ok() && (*launcher)->launch(request).ok()) ++m_launched;
        return request.job_directory;
    }

    /// The job's last state, as one who opens the session anew and waits for it finds it.
    JobState waitForEnd(const std::string& directory) {
        for (int attempt = 0; attempt < 20; ++attempt) {
            auto job = openJob(*m_host, directory);
            if (!job.ok() && job.error().code == ErrorCode::NotFound) return JobState::Queued;
            for (int i = 0; job.ok() && i < 600; ++i) {
                const auto status = (*job)->status();
                if (!status.ok()) break;
                if (isFinal(status->state)) return status->state;
                std::this_thread::sleep_for(milliseconds(20));
            }
        }
        return JobState::Running;
    }

    std::unique_ptr<SshServer> m_server;
    std::unique_ptr<Connection> m_host;
    int m_launched = 0;
};

TEST_F(SshStorm, NoRunIsLostNoFileDamagedNoProcessLeft) {
    std::mt19937 random(7);
    std::vector<std::string> directories;
    int finished = 0, fetched = 0;
    for (int i = 0; i < kCuts; ++i) {
        const milliseconds after(random() % 1500);
        std::jthread cutter([this, after] {
            std::this_thread::sleep_for(after);
            m_server->dropConnections();
        });
        const std::string directory = launch(i);
        directories.push_back(directory);
        const JobState state = waitForEnd(directory);
        ASSERT_NE(state, JobState::Running) << directory << " does not end";
        if (state != JobState::Finished) continue;
        ++finished;
        const auto copy = path("copy" + std::to_string(i));
        const Status got = m_host->fetch(directory + "/rank-0.piper", copy, {});
        ASSERT_TRUE(got.ok()) << got.error().text();
        ASSERT_TRUE(test::readText(copy) == test::readText(directory + "/rank-0.piper"));
        ++fetched;
    }
    EXPECT_EQ(fetched, finished);
    EXPECT_GE(finished, m_launched) << "a job whose launch was confirmed did not finish";
    EXPECT_GT(m_launched, kCuts / 4);
    // Whatever lives belongs to a job that is listed, and no job that has ended has a process.
    const auto listed = summarizeJobs(*m_host, jobs());
    ASSERT_TRUE(listed.ok()) << listed.error().text();
    for (const std::string& directory : directories) {
        const bool lives = !test::processesNaming(directory + "/plan.json").empty() ||
                           !test::processesNaming(directory + "/launch.sh").empty();
        const bool known = std::any_of(listed->begin(), listed->end(), [&](const JobSummary& j) {
            return j.directory == directory && !isFinal(j.status.state);
        });
        EXPECT_TRUE(!lives || known) << directory;
    }
}

}  // namespace
}  // namespace piper
