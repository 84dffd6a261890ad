// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "tests/sessions/ssh_server.h"
#include "tests/support/processes.h"

namespace piper {
namespace {

using test::SshServer;
using test::SshTest;
using ::testing::HasSubstr;
using ::testing::Not;

class SshConnectionTest : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        m_server = serverNamedHost();
        connect();
    }
    void connect() {
        auto opened = open("host");
        ASSERT_TRUE(opened.ok()) << opened.error().text();
        m_host = std::move(opened).value();
    }
    std::string randomFile(const std::string& name, std::size_t bytes) {
        std::mt19937_64 random(bytes);
        std::string text(bytes, '\0');
        for (char& c : text) c = static_cast<char>(random());
        std::ofstream(path(name), std::ios::binary) << text;
        return text;
    }

    std::unique_ptr<SshServer> m_server;
    std::unique_ptr<Connection> m_host;
};

TEST_F(SshConnectionTest, KeepsOutputErrorAndExitStatusApart) {
    const auto r = m_host->run({"sh", "-c", "echo out; echo err >&2; exit 7"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->exit_status, 7);
    EXPECT_EQ(r->output, "out\n");
    EXPECT_EQ(r->error_output, "err\n");
}

TEST_F(SshConnectionTest, ArgumentsReachTheProgramAsTheyAre) {
    const std::string nasty = "a b'c\"d$HOME;*\\!`id` \xC3\xBC\n\ttwo";
    const auto r = m_host->run({"printf", "%s", nasty});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->output, nasty);
}

TEST_F(SshConnectionTest, MissingProgramEndsWith127) {
    const auto r = m_host->run({"no-such-program-here"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->exit_status, 127);
}

TEST_F(SshConnectionTest, StopEndsTheRemoteProcesses) {
    std::stop_source stop;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        stop.request_stop();
    });
    const auto r = m_host->run({"sh", "-c", "sleep 71.25 & sleep 71.25"}, stop.get_token());
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, ErrorCode::Cancelled);
    EXPECT_TRUE(test::processesNaming("71.25").empty());
}

TEST_F(SshConnectionTest, CancelKillsWhatIgnoresTerm) {
    auto started = m_host->start(
        {"sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.0531; done"}, "/tmp");
    ASSERT_TRUE(started.ok()) << started.error().text();
    std::string text;
    for (int i = 0; i < 200 && text.find("up") == std::string::npos; ++i) {
        auto more = (*started)->read();
        ASSERT_TRUE(more.ok()) << more.error().text();
        text += *more;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const Status cancelled = (*started)->cancel(200);
    ASSERT_TRUE(cancelled.ok()) << cancelled.error().text();
    const auto status = (*started)->poll();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->value_or(-1), 128 + 9);
    EXPECT_TRUE(test::processesNaming("0.0531").empty());
}

TEST_F(SshConnectionTest, EndlessOutputIsEnded) {
    const auto r = m_host->run({"yes", "endless-output-81"});
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.error().message, HasSubstr("had printed more than"));
    EXPECT_TRUE(test::processesNaming("endless-output-81").empty());
}

TEST_F(SshConnectionTest, WritesReadsListsAndMakesPrivateDirectories) {
    const std::string job = path("a b/c'd").string();
    ASSERT_TRUE(m_host->makeDirectory(job).ok());
    struct stat info {};
    ASSERT_EQ(::stat(job.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    const std::string content = randomFile("content", 300'000);
    const Status written = m_host->writeFile(job + "/f", content, true);
    ASSERT_TRUE(written.ok()) << written.error().text();
    ASSERT_EQ(::stat((job + "/f").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    const auto whole = m_host->readFile(job + "/f", 1 << 20);
    ASSERT_TRUE(whole.ok()) << whole.error().text();
    EXPECT_TRUE(*whole == content);
    const auto head = m_host->readFile(job + "/f", 70'000);
    ASSERT_TRUE(head.ok());
    EXPECT_TRUE(*head == content.substr(0, 70'000));
    const auto files = m_host->list(job);
    ASSERT_TRUE(files.ok());
    ASSERT_EQ(files->size(), 1U);
    EXPECT_EQ(files->front().name, "f");
    EXPECT_EQ(files->front().size_bytes, 300'000);
}

TEST_F(SshConnectionTest, ReadsFilesWithoutASize) {
    const auto text = m_host->readFile("/proc/meminfo", 1 << 16);
    ASSERT_TRUE(text.ok()) << text.error().text();
    EXPECT_THAT(*text, HasSubstr("MemTotal"));
}

TEST_F(SshConnectionTest, FaultsNameHostAndPath) {
    const auto missing = m_host->readFile("/nonexistent/x", 10);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_THAT(missing.error().text(), HasSubstr("host:/nonexistent/x"));
    const Status written = m_host->writeFile("/nonexistent/x", "y", false);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::Io);
    const auto list = m_host->list("/nonexistent");
    ASSERT_FALSE(list.ok());
    EXPECT_EQ(list.error().code, ErrorCode::NotFound);
}

TEST_F(SshConnectionTest, FullDiskIsNamedAndLeavesNothing) {
    std::filesystem::create_symlink("/dev/full", path("f.part"));
    const Status written = m_host->writeFile(path("f").string(), std::string(100'000, 'x'), false);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::Io);
    EXPECT_THAT(written.error().text(), HasSubstr("No space left on device"));
    EXPECT_FALSE(std::filesystem::exists(path("f")));
    EXPECT_FALSE(std::filesystem::exists(path("f.part")));

    randomFile("program", 300'000);
    std::filesystem::create_symlink("/dev/full", path("there.part"));
    const Status sent = m_host->send(path("program"), path("there").string(), false, {});
    ASSERT_FALSE(sent.ok());
    EXPECT_THAT(sent.error().text(), HasSubstr("No space left on device"));
    EXPECT_FALSE(std::filesystem::exists(path("there")));
}

TEST_F(SshConnectionTest, FullLocalDiskIsNamed) {
    randomFile("big", 300'000);
    std::filesystem::create_symlink("/dev/full", path("copy.part"));
    const Status fetched = m_host->fetch(path("big"), path("copy"), {});
    ASSERT_FALSE(fetched.ok());
    EXPECT_EQ(fetched.error().code, ErrorCode::Io);
    EXPECT_THAT(fetched.error().text(), HasSubstr("No space left on device"));
    EXPECT_THAT(fetched.error().text(), HasSubstr("copy.part"));
}

TEST_F(SshConnectionTest, FetchChecksRenamesAndReportsProgress) {
    const std::string content = randomFile("big", 5'000'001);
    std::int64_t last = 0;
    const Status fetched =
        m_host->fetch(path("big"), path("copy"), [&](std::int64_t done, std::int64_t total) {
            EXPECT_GT(done, last);
            EXPECT_EQ(total, 5'000'001);
            last = done;
        });
    ASSERT_TRUE(fetched.ok()) << fetched.error().text();
    EXPECT_EQ(last, 5'000'001);
    EXPECT_TRUE(test::readText(path("copy")) == content);
    EXPECT_FALSE(std::filesystem::exists(path("copy.part")));
}

TEST_F(SshConnectionTest, EmptyFilesComeAndGo) {
    randomFile("nothing", 0);
    ASSERT_TRUE(m_host->fetch(path("nothing"), path("copy"), {}).ok());
    EXPECT_EQ(std::filesystem::file_size(path("copy")), 0U);
    ASSERT_TRUE(m_host->send(path("nothing"), path("sent").string(), false, {}).ok());
    EXPECT_EQ(std::filesystem::file_size(path("sent")), 0U);
}

TEST_F(SshConnectionTest, FetchGoesOnWhereAnEarlierOneEnded) {
    const std::string content = randomFile("big", 3'000'000);
    std::ofstream(path("copy.part"), std::ios::binary) << content.substr(0, 1'234'567);
    std::int64_t first = 0;
    const Status fetched =
        m_host->fetch(path("big"), path("copy"), [&](std::int64_t done, std::int64_t) {
            if (first == 0) first = done;
        });
    ASSERT_TRUE(fetched.ok()) << fetched.error().text();
    EXPECT_GT(first, 1'234'567);
    EXPECT_TRUE(test::readText(path("copy")) == content);
}

TEST_F(SshConnectionTest, APartOfAnotherFileIsThrownAway) {
    const std::string content = randomFile("big", 1'000'000);
    std::ofstream(path("copy.part"), std::ios::binary) << std::string(500'000, 'z');
    const Status fetched = m_host->fetch(path("big"), path("copy"), {});
    ASSERT_TRUE(fetched.ok()) << fetched.error().text();
    EXPECT_TRUE(test::readText(path("copy")) == content);
}

TEST_F(SshConnectionTest, FetchSurvivesACutConnection) {
    const std::string content = randomFile("big", 40'000'000);
    int cuts = 0;
    std::int64_t last = 0;
    const Status fetched =
        m_host->fetch(path("big"), path("copy"), [&](std::int64_t done, std::int64_t) {
            EXPECT_GT(done, last);  // nothing is fetched twice
            last = done;
            if (cuts < 3 && done > (cuts + 1) * 10'000'000) {
                ++cuts;
                m_server->dropConnections();
            }
        });
    ASSERT_TRUE(fetched.ok()) << fetched.error().text();
    EXPECT_EQ(cuts, 3);
    EXPECT_TRUE(test::readText(path("copy")) == content);
}

TEST_F(SshConnectionTest, SendIsResumedCheckedAndPrivate) {
    const std::string content = randomFile("program", 2'000'000);
    std::ofstream(path("there.part"), std::ios::binary) << content.substr(0, 700'000);
    std::int64_t first = 0;
    const Status sent = m_host->send(path("program"), path("there").string(), true,
                                     [&](std::int64_t done, std::int64_t) {
                                         if (first == 0) first = done;
                                     });
    ASSERT_TRUE(sent.ok()) << sent.error().text();
    EXPECT_GT(first, 700'000);
    EXPECT_TRUE(test::readText(path("there")) == content);
    struct stat info {};
    ASSERT_EQ(::stat(path("there").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(SshConnectionTest, IsOpenedAgainWhenItWasCut) {
    m_server->dropConnections();
    const auto r = m_host->run({"echo", "again"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->output, "again\n");
    m_server->stop();
    std::jthread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
        m_server->start();
    });
    const auto text = m_host->readFile(path("config"), 100);
    EXPECT_TRUE(text.ok()) << text.error().text();
}

TEST_F(SshConnectionTest, SeveralThreadsShareIt) {
    std::vector<std::jthread> threads;
    std::atomic<int> good = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 5; ++i) {
                const std::string word = std::to_string(t) + "-" + std::to_string(i);
                const auto r = m_host->run({"echo", word});
                const auto f = m_host->readFile(path("config"), 1000);
                if (r.ok() && r->output == word + "\n" && f.ok()) ++good;
            }
        });
    threads.clear();
    EXPECT_EQ(good, 20);
}

}  // namespace
}  // namespace piper
