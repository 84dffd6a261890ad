// SPDX-License-Identifier: Apache-2.0
#include "sessions/session_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "sessions/launchers.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

class SessionStoreTest : public ::testing::Test {
protected:
    static SessionConfig session(const std::string& name, const std::string& host) {
        SessionConfig s;
        s.name = name;
        s.host = host;
        return s;
    }
    test::TemporaryDirectory m_directory;
    SessionStore m_store{m_directory.path() / "conf" / "sessions.json"};
};

TEST_F(SessionStoreTest, KeepsWhatWasAddedAndForgetsIt) {
    SessionConfig s = session("cluster", "me@login.example:2222");
    s.directory = "~/piper";
    s.launcher = "sbatch";
    s.launch.partition = "gpu";
    s.launch.time_limit = "1-00:00:00";
    s.launch.extra_lines = {"#SBATCH --gres=gpu:8", "module load \"cuda/12\""};
    ASSERT_TRUE(m_store.add(s).ok());
    SessionConfig other = session("other", "b");
    other.launch.hosts = {"n1:4", "n2"};
    ASSERT_TRUE(m_store.add(other).ok());
    const auto found = m_store.find("cluster");
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_EQ(found->host, s.host);
    EXPECT_EQ(m_store.find("other")->launch.hosts, other.launch.hosts);
    EXPECT_EQ(found->launch.extra_lines, s.launch.extra_lines);
    EXPECT_EQ(found->launch.time_limit, "1-00:00:00");
    struct stat info {};
    ASSERT_EQ(::stat((m_directory.path() / "conf/sessions.json").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);

    ASSERT_TRUE(m_store.forget("cluster").ok());
    const auto gone = m_store.find("cluster");
    ASSERT_FALSE(gone.ok());
    EXPECT_EQ(gone.error().code, ErrorCode::NotFound);
    EXPECT_THAT(gone.error().text(), HasSubstr("known: local, other"));
    EXPECT_TRUE(m_store.find("local")->isLocal());
}

TEST_F(SessionStoreTest, RefusesWhatCouldNotWork) {
    EXPECT_FALSE(m_store.add(session("local", "a")).ok());
    EXPECT_FALSE(m_store.add(session("", "a")).ok());
    EXPECT_FALSE(m_store.add(session("../x", "a")).ok());
    EXPECT_FALSE(m_store.add(session("a", "")).ok());
    EXPECT_FALSE(m_store.add(session("a", "-oProxyCommand=evil")).ok());
    SessionConfig s = session("a", "b");
    s.launcher = "pbs";
    EXPECT_THAT(m_store.add(s).error().message, HasSubstr("mpirun, srun and sbatch"));
    s.launcher = "mpirun";
    s.launch.hosts = {"node;rm -rf"};
    EXPECT_FALSE(m_store.add(s).ok());
    s.launch.hosts = {"node:x"};
    EXPECT_FALSE(m_store.add(s).ok());
    s.launch.hosts = {};
    s.launch.partition = "gpu\n#SBATCH --uid=0";
    EXPECT_FALSE(m_store.add(s).ok());
    EXPECT_FALSE(m_store.forget("local").ok());
    EXPECT_FALSE(m_store.forget("nobody").ok());
    ASSERT_TRUE(m_store.add(session("a", "b")).ok());
    EXPECT_THAT(m_store.add(session("a", "c")).error().text(), HasSubstr("session forget a"));
}

TEST_F(SessionStoreTest, WhatCouldNotWorkIsNamedWithItsRule) {
    const auto refused = [&](const std::function<void(SessionConfig&)>& change) {
        SessionConfig s = session("a", "b");
        change(s);
        const Status added = m_store.add(s);
        return added.ok() ? std::string("taken") : added.error().text();
    };
    using S = SessionConfig;
    EXPECT_THAT(refused([](S& s) { s.host = "a b"; }), HasSubstr("'a b' names no host"));
    EXPECT_THAT(refused([](S& s) { s.host = "a:99999"; }),
                HasSubstr("'99999' is no number from 1"));
    EXPECT_THAT(refused([](S& s) { s.directory = "there"; }), HasSubstr("'there' of session 'a'"));
    EXPECT_THAT(refused([](S& s) { s.worker = "~/worker"; }), HasSubstr("must begin with /"));
    EXPECT_THAT(refused([](S& s) { s.ssh_config = "/nowhere/config"; }),
                HasSubstr("configuration '/nowhere/config' of session 'a' is not there"));
    EXPECT_THAT(refused([](S& s) { s.launch.hosts = {"n1:0"}; }), HasSubstr("'n1:0' must be HOST"));
    EXPECT_THAT(refused([](S& s) { s.launch.partition = "gpu"; }),
                HasSubstr("partition of session 'a' is for srun and sbatch"));
    EXPECT_THAT(refused([](S& s) { s.launcher = "sbatch", s.launch.allocation = "7"; }),
                HasSubstr("allocation of session 'a' is for srun, and its launcher is sbatch"));
    const auto within = [](const char* time_limit) {
        LauncherOptions options;
        options.time_limit = time_limit;
        return checkLauncher("sbatch", options);
    };
    for (const char* good :
         {"", "30", "10:00", "3:00:00", "1-0", "1-12:30", "2-00:00:00", "UNLIMITED"})
        EXPECT_TRUE(within(good).ok()) << good;
    for (const char* bad : {"ten", "1:2:3:4", "1-", ":30", "1-2-3", "1:2-3", "1h"}) {
        const Status limit = within(bad);
        ASSERT_FALSE(limit.ok()) << bad;
        EXPECT_THAT(limit.error().message, HasSubstr("must be MINUTES, MM:SS, HH:MM:SS"));
    }
}

TEST_F(SessionStoreTest, ADamagedFileIsNamedNotOverwritten) {
    std::filesystem::create_directories(m_directory.path() / "conf");
    const std::filesystem::path file = m_directory.path() / "conf/sessions.json";
    for (const char* text :
         {"{", R"({"format_version": 99, "sessions": []})",
          R"({"format_version": 1, "sessions": [{"name": "x", "hots": "y"}]})"}) {
        std::ofstream(file, std::ios::trunc) << text;
        const auto list = m_store.list();
        ASSERT_FALSE(list.ok()) << text;
        EXPECT_THAT(list.error().text(), HasSubstr("sessions.json"));
        EXPECT_FALSE(m_store.add(session("new", "h")).ok());
        EXPECT_EQ(test::readText(file), text);
    }
}

}  // namespace
}  // namespace piper
