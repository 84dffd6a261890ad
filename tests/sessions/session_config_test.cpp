// SPDX-License-Identifier: Apache-2.0
#include "sessions/session_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

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
    s.launch.hosts = {"n1:4", "n2"};
    s.launch.partition = "gpu";
    s.launch.time_limit = "1-00:00:00";
    s.launch.extra_lines = {"#SBATCH --gres=gpu:8", "module load \"cuda/12\""};
    ASSERT_TRUE(m_store.add(s).ok());
    ASSERT_TRUE(m_store.add(session("other", "b")).ok());
    const auto found = m_store.find("cluster");
    ASSERT_TRUE(found.ok()) << found.error().text();
    EXPECT_EQ(found->host, s.host);
    EXPECT_EQ(found->launch.hosts, s.launch.hosts);
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
