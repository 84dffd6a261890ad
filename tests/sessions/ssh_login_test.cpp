// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "sessions/local_connection.h"
#include "tests/sessions/ssh_server.h"

namespace piper {
namespace {

using test::SshServer;
using test::SshTest;
using ::testing::HasSubstr;

class SshLoginTest : public SshTest {
protected:
    /// An agent without keys, that of this process.
    Result<std::unique_ptr<RunningCommand>> startAgent() {
        const std::string socket = path("agent").string();
        auto agent = openLocalConnection()->start({"ssh-agent", "-D", "-a", socket}, "");
        for (int i = 0; i < 200 && ::access(socket.c_str(), F_OK) != 0; ++i) ::usleep(10000);
        ::setenv("SSH_AUTH_SOCK", socket.c_str(), 1);
        return agent;
    }
};

TEST_F(SshLoginTest, UnknownHostIsShownAndWrittenWhenAccepted) {
    const auto server = serverNamedHost();
    write("known_hosts", "");
    const auto refused = open("host");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::RuleBroken);
    ASSERT_EQ(m_prompter->keys.size(), 1U);
    EXPECT_THAT(m_prompter->keys[0].fingerprint, HasSubstr("SHA256:"));
    EXPECT_THAT(refused.error().text(), HasSubstr(m_prompter->keys[0].fingerprint));
    EXPECT_EQ(test::readText(path("known_hosts")), "");

    m_prompter->accept = true;
    ASSERT_TRUE(open("host").ok());
    m_prompter->accept = false;
    ASSERT_TRUE(open("host").ok());  // known by now
    EXPECT_EQ(m_prompter->keys.size(), 2U);
    // OpenSSH's own client agrees with the line.
    test::runProgram({"ssh", "-F", path("config").string(), "-o", "StrictHostKeyChecking=yes", "-o",
                      "BatchMode=yes", "host", "true"});
    struct stat info {};
    ASSERT_EQ(::stat(path("known_hosts").c_str(), &info), 0);
}

TEST_F(SshLoginTest, ChangedHostKeyIsRefusedWithBothFingerprintsAndNoQuestion) {
    const auto server = serverNamedHost();
    m_prompter->accept = true;
    server->stop();
    server->newHostKey();
    server->start();
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, ErrorCode::RuleBroken);
    const std::string text = opened.error().text();
    EXPECT_THAT(text, HasSubstr("has changed"));
    EXPECT_THAT(text, HasSubstr("offered: ssh-ed25519 SHA256:"));
    EXPECT_THAT(text, HasSubstr("known:   ssh-ed25519 SHA256:"));
    EXPECT_THAT(text, HasSubstr("ssh-keygen -f"));
    EXPECT_TRUE(m_prompter->keys.empty());
}

TEST_F(SshLoginTest, HashedAndRevokedEntriesAreUnderstood) {
    const auto server = serverNamedHost();
    test::runProgram({"ssh-keygen", "-q", "-H", "-f", path("known_hosts").string()});
    EXPECT_TRUE(open("host").ok());
    write("known_hosts", "@revoked " + server->knownHostsLine());
    m_prompter->accept = true;
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("@revoked"));
    EXPECT_TRUE(m_prompter->keys.empty());
}

TEST_F(SshLoginTest, KeysOfEveryKnownHostsFileCount) {
    // A host with keys of two types shows the one that is known, in whichever file.
    test::runProgram(
        {"ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", path("rsa_key").string()});
    const auto server = serverNamedHost("HostKey " + path("rsa_key").string() + "\n");
    const std::string line =
        "[127.0.0.1]:" + std::to_string(server->port()) + " " + test::readText(path("rsa_key.pub"));
    write("second", line);
    write("known_hosts", "");
    write("config", hostBlock("host", server->port(),
                              "  UserKnownHostsFile " + path("known_hosts").string() + " " +
                                  path("second").string() + "\n"));
    const auto opened = open("host");
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    // What one file revokes, no other one allows.
    write("known_hosts", line);
    EXPECT_TRUE(open("host").ok());
    write("second", "@revoked " + line);
    const auto revoked = open("host");
    ASSERT_FALSE(revoked.ok());
    EXPECT_THAT(revoked.error().message, HasSubstr("@revoked in " + path("second").string()));
    EXPECT_TRUE(m_prompter->keys.empty());
}

TEST_F(SshLoginTest, WrongKeySaysWhatWasTried) {
    const auto server = serverNamedHost();
    test::runProgram(
        {"ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", path("other").string()});
    std::filesystem::rename(path("other"), path("key"));
    std::filesystem::rename(path("other.pub"), path("key.pub"));
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(exitStatus(opened.error().code), 3);
    EXPECT_THAT(opened.error().text(), HasSubstr("it takes publickey"));
    EXPECT_THAT(opened.error().text(), HasSubstr("key " + path("key").string()));
    EXPECT_TRUE(m_prompter->asked.empty()) << "no passphrase is asked for a key the host refuses";
}

TEST_F(SshLoginTest, KeyThatOthersMayReadIsNotUsed) {
    const auto server = serverNamedHost();
    std::filesystem::permissions(path("key"), std::filesystem::perms(0644));
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().text(), HasSubstr("mode 0644; chmod 600"));
}

TEST_F(SshLoginTest, PassphraseIsAskedForAgainWhenWrong) {
    test::runProgram(
        {"ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", path("key").string()});
    const auto server = serverNamedHost();
    m_prompter->answers = {{"wrong"}, {"open sesame"}};
    const auto opened = open("host");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    ASSERT_EQ(m_prompter->asked.size(), 2U);
    EXPECT_THAT(m_prompter->asked[0].questions[0].text, HasSubstr(path("key").string()));
    EXPECT_FALSE(m_prompter->asked[0].questions[0].echo);

    m_prompter->answers = {};
    const auto given_up = open("host");
    ASSERT_FALSE(given_up.ok());
    EXPECT_EQ(given_up.error().code, ErrorCode::Cancelled);
}

TEST_F(SshLoginTest, AgentKeysAreUsed) {
    const auto server = serverNamedHost();
    auto agent = startAgent();
    ASSERT_TRUE(agent.ok());
    test::runProgram({"ssh-add", "-q", path("key").string()});
    std::filesystem::remove(path("key"));
    const auto opened = open("host");
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    ::unsetenv("SSH_AUTH_SOCK");
    const auto without = open("host");
    EXPECT_FALSE(without.ok());
    EXPECT_TRUE((*agent)->cancel(1000).ok());
}

TEST_F(SshLoginTest, IdentitiesOnlyTakesTheAgentsKeysThatAreNamed) {
    const auto server = serverNamedHost();
    auto agent = startAgent();
    ASSERT_TRUE(agent.ok());
    // Others come first in the agent: the host would have refused these often enough.
    for (int i = 0; i < 7; ++i) {
        const std::string other = path("other" + std::to_string(i)).string();
        test::runProgram({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other});
        test::runProgram({"ssh-add", "-q", other});
    }
    test::runProgram({"ssh-add", "-q", path("key").string()});
    std::filesystem::remove(path("key"));
    for (const char* named : {"key", "key.pub"}) {
        write("config", "Host host\n  HostName 127.0.0.1\n  Port " +
                            std::to_string(server->port()) + "\n  IdentitiesOnly yes\n" +
                            "  IdentityFile " + path(named).string() + "\n  UserKnownHostsFile " +
                            path("known_hosts").string() + "\n");
        const auto opened = open("host");
        EXPECT_TRUE(opened.ok()) << named << ": " << opened.error().text();
    }
    EXPECT_THAT(server->log(), ::testing::Not(HasSubstr("Failed publickey")));
    ::unsetenv("SSH_AUTH_SOCK");
    const auto without = open("host");
    ASSERT_FALSE(without.ok());
    EXPECT_THAT(without.error().text(), HasSubstr("key.pub (a public key, which only an agent"));
    EXPECT_TRUE((*agent)->cancel(1000).ok());
}

TEST_F(SshLoginTest, TwoHopsEachWithItsOwnKnownKey) {
    const SshServer jump(path("jump"), path("key")), inner(path("inner"), path("key"));
    write("config",
          hostBlock("jump", jump.port()) + hostBlock("inner", inner.port(), "  ProxyJump jump\n"));
    write("known_hosts", jump.knownHostsLine() + inner.knownHostsLine());
    const auto opened = open("inner");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    const auto r = (*opened)->run({"sh", "-c", "echo $SSH_CONNECTION"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_THAT(r->output, HasSubstr(" " + std::to_string(inner.port())));
    EXPECT_THAT(jump.log(), HasSubstr("Accepted publickey"));

    // A file over both hops, whole.
    const std::string content(3'000'000, 'x');
    write("big", content);
    ASSERT_TRUE((*opened)->fetch(path("big"), path("copy"), {}).ok());
    EXPECT_TRUE(test::readText(path("copy")) == content);

    // The inner key is checked too, and the jump's is named when that is the unknown one.
    write("known_hosts", jump.knownHostsLine());
    const auto unknown = open("inner");
    ASSERT_FALSE(unknown.ok());
    EXPECT_THAT(unknown.error().message, HasSubstr(":" + std::to_string(inner.port())));
    write("known_hosts", inner.knownHostsLine());
    const auto unknown_jump = open("inner");
    ASSERT_FALSE(unknown_jump.ok());
    EXPECT_THAT(unknown_jump.error().message, HasSubstr(":" + std::to_string(jump.port())));
}

TEST_F(SshLoginTest, JumpThatForwardsNothingOrNowhereIsNamed) {
    const SshServer jump(path("jump"), path("key"), "AllowTcpForwarding no\n");
    const int nobody = test::freePort();
    write("config",
          hostBlock("jump", jump.port()) + hostBlock("inner", nobody, "  ProxyJump jump\n"));
    write("known_hosts", jump.knownHostsLine());
    const auto opened = open("inner");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().text(), HasSubstr("does not pass on to 127.0.0.1"));
    EXPECT_THAT(opened.error().text(), HasSubstr("AllowTcpForwarding"));
}

TEST_F(SshLoginTest, NobodyListensIsSaidAtOnce) {
    write("config", hostBlock("host", test::freePort()));
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(exitStatus(opened.error().code), 3);
    EXPECT_THAT(opened.error().text(), HasSubstr("cannot connect to"));
    EXPECT_THAT(opened.error().text(), HasSubstr("ssh host true"));
}

/// Login shells: sshd gives the command to this shell as it would to the user's own.
class SshShellTest : public SshTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SshShellTest, CommandsAndFilesWorkWhateverTheShellPrints) {
    const std::string shell = GetParam();
    if (::access(shell.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << shell;
    write("login",
          "#!/bin/sh\n[ \"$SSH_ORIGINAL_COMMAND\" = /usr/lib/openssh/sftp-server ] "
          "&& exec /usr/lib/openssh/sftp-server\n"
          "printf '\\033[31mWelcome to the machine!\\033[0m\\nno newline'\n"
          "echo 'warning: quota' >&2\n"
          "exec " +
              shell + " -c \"$SSH_ORIGINAL_COMMAND\"\n");
    std::filesystem::permissions(path("login"), std::filesystem::perms(0700));
    const auto server = serverNamedHost("ForceCommand exec " + path("login").string() + "\n");
    const auto opened = open("host");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    const std::string nasty =
        "it's $HOME !x `id` \"q\" \\ ; & | < > %s\n#two " + std::string(3000, 'y');
    const auto r = (*opened)->run({"printf", "%s", nasty});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->exit_status, 0);
    EXPECT_TRUE(r->output == nasty) << r->output.substr(0, 200);
    EXPECT_EQ(r->error_output, "");
    const Status written = (*opened)->writeFile(path("w ' x"), "hello", false);
    ASSERT_TRUE(written.ok()) << written.error().text();
    EXPECT_EQ(test::readText(path("w ' x")), "hello");
}

INSTANTIATE_TEST_SUITE_P(Shells, SshShellTest,
                         ::testing::Values("/bin/bash", "/bin/dash", "/bin/bsd-csh",
                                           "/usr/bin/fish"),
                         [](const auto& info) {
                             std::string name = info.param;
                             name.erase(0, name.rfind('/') + 1);
                             return name == "bsd-csh" ? std::string("csh") : name;
                         });

TEST_F(SshLoginTest, AccountThatRunsNothingSaysWhatItPrinted) {
    const auto server = serverNamedHost("ForceCommand echo 'This account is closed.'\n");
    const auto opened = open("host");
    ASSERT_TRUE(opened.ok());
    const auto r = (*opened)->run({"true"});
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.error().text(), HasSubstr("This account is closed."));
}

}  // namespace
}  // namespace piper
