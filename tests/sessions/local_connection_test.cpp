// SPDX-License-Identifier: Apache-2.0
#include "sessions/local_connection.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "sessions/shell_quote.h"
#include "tests/support/paths.h"
#include "tests/support/processes.h"

namespace piper {
namespace {

TEST(LocalConnection, KeepsOutputErrorAndExitStatusApart) {
    const auto local = openLocalConnection();
    const Result<CommandResult> r = local->run({"sh", "-c", "echo out; echo err >&2; exit 7"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->exit_status, 7);
    EXPECT_EQ(r->output, "out\n");
    EXPECT_EQ(r->error_output, "err\n");
}

TEST(LocalConnection, ArgumentsReachTheProgramAsTheyAre) {
    const auto local = openLocalConnection();
    const std::string nasty = "a b'c\"d$HOME;*\\";
    const Result<CommandResult> r = local->run({"printf", "%s", nasty});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->output, nasty);
}

TEST(LocalConnection, QuotedWordsComeBackFromAShell) {
    const auto local = openLocalConnection();
    const std::string nasty = "it's $HOME `id` \"x\" \\ ; & | < >\tend";
    const Result<CommandResult> r = local->run({"sh", "-c", "printf %s " + shellQuote(nasty)});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->output, nasty);
}

TEST(LocalConnection, MissingProgramIsNamed) {
    const auto local = openLocalConnection();
    const Result<CommandResult> r = local->run({"no-such-program-here"});
    ASSERT_FALSE(r.ok());
    EXPECT_NE(r.error().message.find("no-such-program-here"), std::string::npos);
    EXPECT_EQ(exitStatus(r.error().code), 3);
}

TEST(LocalConnection, StopEndsTheWholeProcessGroup) {
    const auto local = openLocalConnection();
    std::stop_source stop;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        stop.request_stop();
    });
    const Result<CommandResult> r =
        local->run({"sh", "-c", "sleep 61.25 & sleep 61.25"}, stop.get_token());
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().code, ErrorCode::Cancelled);
    EXPECT_TRUE(test::processesNaming("61.25").empty());
}

TEST(LocalConnection, CancelKillsAProcessThatIgnoresTerm) {
    const auto local = openLocalConnection();
    auto started = local->start({"sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"}, "");
    ASSERT_TRUE(started.ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_TRUE((*started)->cancel(200).ok());
    const Result<std::optional<int>> status = (*started)->poll();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->value_or(-1), 128 + 9);
}

TEST(LocalConnection, WritesThroughATemporaryNameAndReadsBack) {
    const test::TemporaryDirectory dir;
    const auto local = openLocalConnection();
    const std::string job = (dir.path() / "a" / "b").string();
    ASSERT_TRUE(local->makeDirectory(job).ok());
    struct stat info {};
    ASSERT_EQ(::stat(job.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
    ASSERT_TRUE(local->writeFile(job + "/f", "hello", false).ok());
    const Result<std::string> text = local->readFile(job + "/f", 100);
    ASSERT_TRUE(text.ok());
    EXPECT_EQ(*text, "hello");
    const Result<std::vector<RemoteFile>> files = local->list(job);
    ASSERT_TRUE(files.ok());
    ASSERT_EQ(files->size(), 1U);
    EXPECT_EQ(files->front().name, "f");
    EXPECT_EQ(files->front().size_bytes, 5);
}

TEST(LocalConnection, FaultsNameThePath) {
    const auto local = openLocalConnection();
    const Result<std::string> missing = local->readFile("/nonexistent/x", 10);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_NE(missing.error().text().find("/nonexistent/x"), std::string::npos);
    const Status written = local->writeFile("/nonexistent/x", "y", false);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::Io);
}

TEST(LocalConnection, FetchCopiesWithProgress) {
    const test::TemporaryDirectory dir;
    const auto local = openLocalConnection();
    const std::string content(3'000'000, 'x');
    ASSERT_TRUE(local->writeFile((dir.path() / "big").string(), content, false).ok());
    std::int64_t last = 0;
    ASSERT_TRUE(local
                    ->fetch((dir.path() / "big").string(), dir.path() / "copy",
                            [&](std::int64_t done, std::int64_t total) {
                                EXPECT_GT(done, last);
                                EXPECT_EQ(total, 3'000'000);
                                last = done;
                            })
                    .ok());
    EXPECT_EQ(last, 3'000'000);
    EXPECT_EQ(test::readText(dir.path() / "copy"), content);
}

}  // namespace
}  // namespace piper
