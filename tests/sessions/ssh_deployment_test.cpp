// SPDX-License-Identifier: Apache-2.0
// Workers sent to hosts that keep something else, or say so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "sessions/deployment.h"
#include "sessions/sha256.h"
#include "tests/sessions/ssh_server.h"

namespace piper {
namespace {

using test::SshTest;
using ::testing::HasSubstr;

class SshDeployment : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        program("piper-worker", "touch " + path("started").string());
        const Result<std::string> hash = sha256OfFile(path("piper-worker"));
        ASSERT_TRUE(hash.ok()) << hash.error().text();
        m_hash = *hash;
    }
    void program(const std::string& name, const std::string& script) const {
        std::filesystem::create_directories(path(name).parent_path());
        write(name, "#!/bin/sh\n" + script + "\n");
        std::filesystem::permissions(path(name), std::filesystem::perms(0700));
    }
    /// Connects to a host whose programs of the directory "programs" come before the usual ones.
    void connect() {
        m_server = serverNamedHost("SetEnv HOME=" + path("server").string() +
                                   " PATH=" + path("programs").string() + ":/usr/bin:/bin\n");
        auto opened = open("host");
        ASSERT_TRUE(opened.ok()) << opened.error().text();
        m_host = std::move(opened).value();
    }
    Result<Deployment> deploy() {
        return deployWorker(*m_host, path("there").string(), path("piper-worker"),
                            [&](std::int64_t done, std::int64_t total) {
                                if (done == total) ++m_sent;
                            });
    }
    [[nodiscard]] std::filesystem::path deployed() const {
        return path("there") / "worker" / m_hash.substr(0, 16) / "piper-worker";
    }
    void expectRefused() {
        const Result<Deployment> deployment = deploy();
        ASSERT_FALSE(deployment.ok());
        EXPECT_EQ(deployment.error().code, ErrorCode::External);
        const std::string text = deployment.error().text();
        EXPECT_THAT(text, HasSubstr("SHA-256 " + m_hash + " here"));
        EXPECT_THAT(text, HasSubstr(deployed().string()));
        EXPECT_THAT(text, HasSubstr("ask its administrator"));
        EXPECT_EQ(m_sent, 1) << "sent once, not again and again";
        EXPECT_FALSE(std::filesystem::exists(path("started")));
        EXPECT_FALSE(std::filesystem::exists(deployed()));
    }

    std::string m_hash;
    std::unique_ptr<test::SshServer> m_server;
    std::unique_ptr<Connection> m_host;
    int m_sent = 0;
};

TEST_F(SshDeployment, AHostWhoseHashesLieGetsNothingStarted) {
    const std::string lie(64, '7');
    program("programs/openssl", "cat > /dev/null; echo '" + lie + " *stdin'");
    connect();
    expectRefused();
    EXPECT_THAT(deploy().error().text(), HasSubstr(lie + " there"));
}

TEST_F(SshDeployment, AFileSystemThatChangesFilesGetsNothingStarted) {
    program("programs/mv", "/bin/mv \"$@\"; for f; do :; done; echo changed >> \"$f\"");
    connect();
    expectRefused();
}

TEST_F(SshDeployment, AFileInTheWorkersPlaceIsReplacedBeforeItIsStarted) {
    connect();
    const std::string place = std::filesystem::relative(deployed(), path("")).string();
    program(place, "touch " + path("another").string());
    const Result<Deployment> deployment = deploy();
    ASSERT_TRUE(deployment.ok()) << deployment.error().text();
    EXPECT_TRUE(deployment->sent);
    EXPECT_TRUE(std::filesystem::exists(path("started")));
    EXPECT_FALSE(std::filesystem::exists(path("another")));
}

TEST_F(SshDeployment, AWorkerThatMayNotBeRunIsNoBrokenOne) {
    // As on a file system that is mounted noexec: whole, and nobody may start it.
    program("programs/chmod",
            "[ ! -d \"$3\" ] || exec /bin/chmod \"$@\"\n"
            "[ \"$2\" != -- ] || exec /bin/chmod 600 -- \"$3\"");
    std::filesystem::create_directories(deployed().parent_path());
    connect();
    const Result<Deployment> deployment = deploy();
    ASSERT_FALSE(deployment.ok());
    EXPECT_EQ(m_sent, 1);
    EXPECT_THAT(deployment.error().text(), HasSubstr("may not be run"));
    EXPECT_THAT(deployment.error().text(), HasSubstr("noexec"));
    EXPECT_FALSE(deploy().ok());
    EXPECT_EQ(m_sent, 1) << "what is there is not sent again";
}

TEST_F(SshDeployment, AHostWithoutAProgramForHashesIsTold) {
    program("programs/openssl", "exit 1");
    connect();
    const Result<Deployment> deployment = deploy();
    ASSERT_FALSE(deployment.ok());
    EXPECT_THAT(deployment.error().text(), HasSubstr("cannot give the SHA-256"));
    EXPECT_THAT(deployment.error().text(), HasSubstr("needs openssl or sha256sum"));
    EXPECT_FALSE(std::filesystem::exists(path("started")));
}

}  // namespace
}  // namespace piper
