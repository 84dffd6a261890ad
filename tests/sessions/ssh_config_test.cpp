// SPDX-License-Identifier: Apache-2.0
#include "sessions/ssh_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/paths.h"

namespace piper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SshConfigTest : public ::testing::Test {
protected:
    void config(const std::string& text, const std::string& name = "config") const {
        std::ofstream(m_directory.path() / name) << text;
    }
    [[nodiscard]] SshConfigFiles files() const {
        return {{m_directory.path() / "config", m_directory.path() / "system"},
                m_directory.path(),
                "me"};
    }
    [[nodiscard]] SshHostConfig resolve(const std::string& alias) const {
        const Result<SshHostConfig> host = resolveSshHost(files(), alias);
        EXPECT_TRUE(host.ok()) << host.error().text();
        return host.ok() ? *host : SshHostConfig{};
    }
    test::TemporaryDirectory m_directory;
};

TEST_F(SshConfigTest, NothingConfiguredTakesTheUsual) {
    const SshHostConfig host = resolve("node.example");
    EXPECT_EQ(host.host_name, "node.example");
    EXPECT_EQ(host.user, "me");
    EXPECT_EQ(host.port, 22);
    const std::string ssh = m_directory.path() / ".ssh/";
    EXPECT_THAT(host.known_hosts, ElementsAre(ssh + "known_hosts", ssh + "known_hosts2"));
    EXPECT_EQ(host.knownHostsName(), "node.example");
    EXPECT_TRUE(host.identity_files.empty());
    EXPECT_TRUE(host.remarks.empty());
}

TEST_F(SshConfigTest, FirstValueWinsAndPatternsMayExclude) {
    config(
        "User early\n"
        "Host *.cluster !login.cluster\n  Port 2222\n  User late\n"
        "Host login.cluster\n\tPort=2200\n"
        "Host *\n  Port 1\n  IdentityFile \"~/keys/a b\"\n  IdentityFile %d/%r-%h\n");
    EXPECT_EQ(resolve("n1.cluster").port, 2222);
    EXPECT_EQ(resolve("n1.cluster").user, "early");
    EXPECT_EQ(resolve("login.cluster").port, 2200);
    EXPECT_EQ(resolve("other").port, 1);
    const std::string home = m_directory.path().string();
    EXPECT_THAT(resolve("other").identity_files,
                ElementsAre(home + "/keys/a b", home + "/early-other"));
    EXPECT_EQ(resolve("n1.cluster").knownHostsName(), "[n1.cluster]:2222");
}

TEST_F(SshConfigTest, IncludesAndHostNamesAreExpanded) {
    std::filesystem::create_directory(m_directory.path() / "conf.d");
    config("Include conf.d/*.conf\nHost a\n  HostName %h.example\n");
    config("Host a\n  User included\n", "conf.d/one.conf");
    config("Host *\n  Port 77\n", "system");
    const SshHostConfig host = resolve("a");
    EXPECT_EQ(host.host_name, "a.example");
    EXPECT_EQ(host.user, "included");
    EXPECT_EQ(host.port, 77);
}

TEST_F(SshConfigTest, IncludeInABlockHoldsForItsHostsOnly) {
    config("Host a\n  Include more\n  User after\nHost *\n  Port 5\n");
    config("User inner\nHost b\n  Port 9\n", "more");
    EXPECT_EQ(resolve("a").user, "inner");
    EXPECT_EQ(resolve("b").user, "me");
    EXPECT_EQ(resolve("b").port, 5);
    EXPECT_EQ(resolve("a").port, 5);
}

TEST_F(SshConfigTest, MatchIsFollowedAsFarAsItRunsNothing) {
    config(
        "Host gate\n  HostName gate.example\n"
        "Match host *.example user me\n  Port 3\n"
        "Match exec \"touch /tmp/never-made-by-a-test\"\n  User evil\n"
        "Match !originalhost gate\n  User notgate\n"
        "Match all\n  Compression yes\n");
    const SshHostConfig host = resolve("gate");
    EXPECT_EQ(host.port, 3);
    EXPECT_EQ(host.user, "me");
    EXPECT_TRUE(host.compression);
    EXPECT_THAT(host.remarks, ElementsAre(HasSubstr("'Match exec' is not followed")));
    EXPECT_FALSE(std::filesystem::exists("/tmp/never-made-by-a-test"));
    EXPECT_EQ(resolve("x").user, "notgate");
}

TEST_F(SshConfigTest, WhatIsNotFollowedIsSaidWithItsLine) {
    config(
        "Host a\n  GSSAPIAuthentication yes\n  PKCS11Provider /lib/p11.so\n"
        "  StrictHostKeyChecking no\n  Ciphers +3des-cbc\n");
    EXPECT_THAT(resolve("a").remarks,
                ElementsAre(HasSubstr("config:3: PKCS11Provider is not followed"),
                            HasSubstr("config:4: 'no' is not followed"),
                            HasSubstr("config:5: a list that starts with '+'")));
}

TEST_F(SshConfigTest, TokensVariablesAndHomesAreExpanded) {
    ::setenv("PIPER_TEST_KEYS", "/keys", 1);
    config(
        "Host a\n  HostName %h.example\n  HostKeyAlias box\n  Port 77\n"
        "  IdentityFile ~root/.ssh/%h-%n-%p-%r-%u-%i-%k-%%\n  IdentityFile ${PIPER_TEST_KEYS}/%L\n"
        "  UserKnownHostsFile ~/hosts/%k '/b c'\n  GlobalKnownHostsFile none\n"
        "  ProxyJump %r@gate-%n\n"
        "Match host a.example\n  Compression yes\n");
    const SshHostConfig host = resolve("a");
    const std::string home = m_directory.path().string(), uid = std::to_string(::getuid());
    ASSERT_EQ(host.identity_files.size(), 2U);
    EXPECT_THAT(host.identity_files[0],
                ::testing::EndsWith("/.ssh/a.example-a-77-me-me-" + uid + "-box-%"));
    EXPECT_THAT(host.identity_files[0], ::testing::Not(::testing::StartsWith("~")));
    EXPECT_THAT(host.identity_files[1], ::testing::StartsWith("/keys/"));
    EXPECT_THAT(host.known_hosts, ElementsAre(home + "/hosts/box", "/b c"));
    EXPECT_THAT(host.global_known_hosts, ElementsAre("/dev/null"));
    EXPECT_THAT(host.jumps, ElementsAre("me@gate-a"));
    EXPECT_TRUE(host.compression);
    // What the user types stands before what files say, also in tokens.
    const auto typed = resolveSshRoute(files(), "you@a");
    ASSERT_TRUE(typed.ok()) << typed.error().text();
    EXPECT_THAT(typed->back().identity_files[0], HasSubstr("-77-you-me-"));
    EXPECT_EQ(typed->front().user, "you");
}

TEST_F(SshConfigTest, WhatCannotBeExpandedIsNamed) {
    for (const auto& [line, said] :
         {std::pair{"IdentityFile ~/%C", "'~/%C': '%C' is not followed; %% %d %h"},
          std::pair{"IdentityFile ~/50%", "'%' is not followed"},
          std::pair{"IdentityFile ${PIPER_TEST_NONE}/x", "no variable 'PIPER_TEST_NONE'"},
          std::pair{"IdentityFile ${open", "no variable ''"},
          std::pair{"IdentityFile ~nobody-here/x", "no user 'nobody-here'"}}) {
        config(std::string("Host a\n") + line + "\n");
        const auto r = resolveSshHost(files(), "a");
        ASSERT_FALSE(r.ok()) << line;
        EXPECT_THAT(r.error().text(), HasSubstr("IdentityFile of host 'a'"));
        EXPECT_THAT(r.error().text(), HasSubstr(said));
    }
}

TEST_F(SshConfigTest, NoIdentityFileIsAnAnswerToo) {
    std::filesystem::create_directory(m_directory.path() / ".ssh");
    config("", ".ssh/id_ed25519");
    EXPECT_EQ(resolve("a").identity_files.size(), 1U);
    config("IdentityFile none\n");
    EXPECT_TRUE(resolve("a").identity_files.empty());
}

TEST_F(SshConfigTest, AFileThatCannotBeReadOrThatOthersMayWriteIsNamed) {
    SshConfigFiles files = this->files();
    std::filesystem::create_directory(m_directory.path() / "folder");
    files.files = {m_directory.path() / "folder"};
    const auto folder = resolveSshHost(files, "a");
    ASSERT_FALSE(folder.ok());
    EXPECT_EQ(folder.error().code, ErrorCode::Io);
    EXPECT_THAT(folder.error().text(), HasSubstr("folder: the configuration cannot be read"));

    config("Port 7\n");
    std::filesystem::permissions(m_directory.path() / "config", std::filesystem::perms(0664));
    EXPECT_EQ(resolve("a").port, 7);  // named by the user, as with ssh -F
    files = this->files();
    files.must_be_private = true;
    const auto open = resolveSshHost(files, "a");
    ASSERT_FALSE(open.ok());
    EXPECT_EQ(open.error().code, ErrorCode::RuleBroken);
    EXPECT_THAT(open.error().text(), HasSubstr("others may write this configuration"));
    EXPECT_THAT(open.error().text(), HasSubstr("mode 0664"));
    EXPECT_THAT(open.error().text(), HasSubstr("chmod go-w"));
    std::filesystem::permissions(m_directory.path() / "config", std::filesystem::perms(0644));
    EXPECT_TRUE(resolveSshHost(files, "a").ok());
}

TEST_F(SshConfigTest, ProxyCommandIsRefusedWithAWayOut) {
    config(
        "Host a\n  ProxyCommand nc %h %p\nHost b\n  ProxyJump gate\n  ProxyCommand nc %h %p\n"
        "Host c\n  ProxyCommand none\n");
    const auto refused = resolveSshHost(files(), "a");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(refused.error().text(), HasSubstr("config:2"));
    EXPECT_THAT(refused.error().text(), HasSubstr("ProxyJump"));
    EXPECT_THAT(resolve("b").jumps, ElementsAre("gate"));  // the first of the two wins
    EXPECT_TRUE(resolve("c").jumps.empty());
    // Going on without these would take keys that must not be taken any more.
    config("Host a\n  RevokedHostKeys /etc/revoked\nHost b\n  RevokedHostKeys none\n");
    const auto revoked = resolveSshHost(files(), "a");
    ASSERT_FALSE(revoked.ok());
    EXPECT_THAT(revoked.error().text(), HasSubstr("config:2: host 'a' has RevokedHostKeys"));
    EXPECT_THAT(revoked.error().text(), HasSubstr("@revoked"));
    EXPECT_TRUE(resolveSshHost(files(), "b").ok());
}

TEST_F(SshConfigTest, BadValuesAreRefusedWithTheirLine) {
    for (const char* bad :
         {"Port 0", "Port 70000", "Port x", "Port", "Compression maybe", "User \"open",
          "ConnectTimeout -1", "User 'open", "IdentityFile ~/my key", "Port 22 23"}) {
        config(std::string("Host a\n") + bad + "\n");
        const auto r = resolveSshHost(files(), "a");
        ASSERT_FALSE(r.ok()) << bad;
        EXPECT_EQ(r.error().code, ErrorCode::InvalidInput);
        EXPECT_THAT(r.error().text(), HasSubstr("config:2")) << bad;
    }
}

TEST_F(SshConfigTest, RoutesFollowJumpsOfTheFirstHop) {
    config(
        "Host inner\n  ProxyJump gate,you@mid:2022\n"
        "Host gate\n  User guard\n  ProxyJump outer\n"
        "Host mid\n  HostName mid.example\n  ProxyJump nowhere\n");
    const auto route = resolveSshRoute(files(), "inner");
    ASSERT_TRUE(route.ok()) << route.error().text();
    std::vector<std::string> addresses;
    for (const SshHostConfig& hop : *route) addresses.push_back(hop.address());
    EXPECT_THAT(addresses,
                ElementsAre("me@outer:22", "guard@gate:22", "you@mid.example:2022", "me@inner:22"));
    const auto typed = resolveSshRoute(files(), "root@[::1]:5000");
    ASSERT_TRUE(typed.ok());
    EXPECT_EQ(typed->back().address(), "root@::1:5000");
}

TEST_F(SshConfigTest, LoopsOfJumpsAndHostilesNamesAreRefused) {
    config("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n");
    const auto loop = resolveSshRoute(files(), "a");
    ASSERT_FALSE(loop.ok());
    EXPECT_THAT(loop.error().message, HasSubstr("loop"));
    EXPECT_FALSE(resolveSshRoute(files(), "-oProxyCommand=x").ok());
    EXPECT_FALSE(resolveSshRoute(files(), "[::1").ok());
    EXPECT_FALSE(resolveSshRoute(files(), "user@").ok());
}

}  // namespace
}  // namespace piper
