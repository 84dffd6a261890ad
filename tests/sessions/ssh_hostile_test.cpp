// SPDX-License-Identifier: Apache-2.0
// Hosts that ask much, and hosts that answer what they should not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "sessions/ssh_sftp.h"
#include "tests/sessions/mini_ssh_server.h"
#include "tests/sessions/ssh_server.h"

namespace piper {
namespace {

using test::MiniSshServer;
using test::SshServer;
using test::SshTest;
using ::testing::HasSubstr;
using ::testing::Not;

class SshHostileTest : public SshTest {
protected:
    std::unique_ptr<Connection> connectTo(const MiniSshServer& server) {
        write("known_hosts", server.knownHostsLine());
        write("config", hostBlock("host", server.port()));
        auto opened = open("host");
        EXPECT_TRUE(opened.ok()) << opened.error().text();
        return opened.ok() ? std::move(opened).value() : nullptr;
    }
};

const std::vector<MiniSshServer::Round> kTwoFactors = {
    {"Cluster login",
     "Type \033[31mboth\033[0m:",
     {"Password: ", "Colour of the day?"},
     {"secret", "blue"}},
    {"Second factor", "", {"Code: "}, {"123456"}}};

TEST_F(SshHostileTest, SeveralQuestionsInSeveralRounds) {
    const MiniSshServer server(path("mini"), {kTwoFactors, {}, {}});
    m_prompter->answers = {{"secret", "blue"}, {"123456"}};
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    ASSERT_EQ(m_prompter->asked.size(), 2U);
    EXPECT_EQ(m_prompter->asked[0].title, "Cluster login");
    EXPECT_EQ(m_prompter->asked[0].instruction, "Type both:");
    ASSERT_EQ(m_prompter->asked[0].questions.size(), 2U);
    EXPECT_FALSE(m_prompter->asked[0].questions[0].echo);
    EXPECT_TRUE(m_prompter->asked[0].questions[1].echo);
    const auto r = host->run({"echo", "in"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->output, "in\n");
}

TEST_F(SshHostileTest, WrongAnswersAreRefused) {
    const MiniSshServer server(path("mini"), {kTwoFactors, {}, {}});
    write("known_hosts", server.knownHostsLine());
    write("config", hostBlock("host", server.port()));
    m_prompter->answers = {{"secret", "red"}};
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().text(), HasSubstr("it takes keyboard-interactive"));
    m_prompter = nullptr;
    const auto nobody = open("host");
    ASSERT_FALSE(nobody.ok());
    EXPECT_THAT(nobody.error().text(), HasSubstr("nobody can be asked"));
}

TEST_F(SshHostileTest, SecondFactorOnTheJumpHost) {
    const MiniSshServer jump(path("mini"), {kTwoFactors, {}, {}});
    const SshServer inner(path("inner"), path("key"));
    write("known_hosts", jump.knownHostsLine() + inner.knownHostsLine());
    write("config",
          hostBlock("jump", jump.port()) + hostBlock("inner", inner.port(), "  ProxyJump jump\n"));
    m_prompter->answers = {{"secret", "blue"}, {"123456"}};
    const auto opened = open("inner");
    ASSERT_TRUE(opened.ok()) << opened.error().text();
    EXPECT_THAT(m_prompter->asked[0].hop, HasSubstr(std::to_string(jump.port())));
    const auto r = (*opened)->run({"echo", "through"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->output, "through\n");
}

TEST_F(SshHostileTest, OutputWithoutEndBeforeTheCommandIsRefused) {
    const auto endless = [](ssh_channel channel, const std::string&) {
        const std::string text(32768, 'A');
        while (ssh_channel_write(channel, text.data(), 32768) > 0) {
        }
    };
    const MiniSshServer server(path("mini"), {{}, endless, {}});
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    const auto r = host->run({"true"});
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.error().message, HasSubstr("before the command began"));
}

TEST_F(SshHostileTest, EscapesOfAHostDoNotReachMessages) {
    const auto rude = [](ssh_channel channel, const std::string&) {
        const std::string text = "\033]0;owned\007\033[2Jno shell\xE2\x80\xAE for you";
        ssh_channel_write(channel, text.data(), static_cast<std::uint32_t>(text.size()));
        ssh_channel_send_eof(channel);
        ssh_channel_request_send_exit_status(channel, 1);
    };
    const MiniSshServer server(path("mini"), {{}, rude, {}});
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    const auto r = host->run({"true"});
    ASSERT_FALSE(r.ok());
    EXPECT_THAT(r.error().text(), HasSubstr("no shell for you"));
    EXPECT_THAT(r.error().text(), Not(HasSubstr("\033")));
    EXPECT_THAT(r.error().text(), Not(HasSubstr("owned")));
}

/// SFTP by hand: packets are a length, a type and a body.
class FakeSftp {
public:
    explicit FakeSftp(ssh_channel channel) : m_channel(channel) {}

    /// The next packet's body, its type first; empty at the end.
    std::string read() {
        const std::string length = readBytes(4);
        if (length.size() < 4) return {};
        return readBytes(number(length, 0));
    }
    void send(const std::string& body) {
        const std::string packet = text32(static_cast<std::uint32_t>(body.size())) + body;
        ssh_channel_write(m_channel, packet.data(), static_cast<std::uint32_t>(packet.size()));
    }
    void sendRaw(const std::string& bytes) {
        ssh_channel_write(m_channel, bytes.data(), static_cast<std::uint32_t>(bytes.size()));
    }
    static std::string text32(std::uint32_t v) {
        return {static_cast<char>(v >> 24U), static_cast<char>(v >> 16U),
                static_cast<char>(v >> 8U), static_cast<char>(v)};
    }
    static std::string text(const std::string& s) {
        return text32(static_cast<std::uint32_t>(s.size())) + s;
    }
    static std::uint32_t number(const std::string& s, std::size_t at) {
        std::uint32_t v = 0;
        for (std::size_t i = 0; i < 4; ++i) v = v << 8U | static_cast<unsigned char>(s[at + i]);
        return v;
    }

private:
    std::string readBytes(std::size_t count) {
        std::string out;
        std::array<char, 4096> buffer;
        while (out.size() < count) {
            const int n = ssh_channel_read(
                m_channel, buffer.data(),
                static_cast<std::uint32_t>(std::min(buffer.size(), count - out.size())), 0);
            if (n <= 0) return out;
            out.append(buffer.data(), static_cast<std::size_t>(n));
        }
        return out;
    }
    ssh_channel m_channel;
};

/// Answers every listing with one entry of this name.
std::function<void(ssh_channel)> listing(const std::string& name) {
    return [name](ssh_channel channel) {
        FakeSftp sftp(channel);
        bool listed = false;
        for (std::string packet; !(packet = sftp.read()).empty();) {
            const std::string id = packet.size() >= 5 ? packet.substr(1, 4) : std::string(4, '\0');
            switch (packet[0]) {
                case 1:
                    sftp.send("\x02" + FakeSftp::text32(3));
                    break;  // init -> version 3
                case 11:
                    sftp.send("\x66" + id + FakeSftp::text("handle"));
                    break;
                case 12:
                    if (!listed)
                        sftp.send("\x68" + id + FakeSftp::text32(1) + FakeSftp::text(name) +
                                  FakeSftp::text(name) + FakeSftp::text32(0));
                    else
                        sftp.send("\x65" + id + FakeSftp::text32(1) + FakeSftp::text("") +
                                  FakeSftp::text(""));
                    listed = true;
                    break;
                default:
                    sftp.send("\x65" + id + FakeSftp::text32(0) + FakeSftp::text("") +
                              FakeSftp::text(""));
            }
        }
    };
}

TEST_F(SshHostileTest, NamesThatLeaveTheDirectoryAreRefused) {
    for (const char* name : {"../../.ssh/authorized_keys", "a/b", "/etc/passwd"}) {
        const MiniSshServer server(path(std::string("mini") + std::to_string(name[0])),
                                   {{}, {}, listing(name)});
        const auto host = connectTo(server);
        ASSERT_NE(host, nullptr);
        const auto files = host->list("/jobs");
        ASSERT_FALSE(files.ok()) << name;
        EXPECT_THAT(files.error().message, HasSubstr("which is no file name"));
    }
    EXPECT_FALSE(isPlainFileName(".."));
    EXPECT_FALSE(isPlainFileName(""));
    EXPECT_FALSE(isPlainFileName(std::string_view("a\0b", 3)));
    EXPECT_TRUE(isPlainFileName("rank-0.piper"));
}

TEST_F(SshHostileTest, OversizedReplyIsAnErrorNotMemory) {
    const auto oversized = [](ssh_channel channel) {
        FakeSftp sftp(channel);
        (void)sftp.read();
        sftp.send("\x02" + FakeSftp::text32(3));
        (void)sftp.read();
        sftp.sendRaw("\xFF\xFF\xFF\xF0\x66" + std::string(1000, 'x'));
        (void)sftp.read();
    };
    const MiniSshServer server(path("mini"), {{}, {}, oversized});
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    const auto files = host->list("/jobs");
    ASSERT_FALSE(files.ok());
    EXPECT_EQ(exitStatus(files.error().code), 3);
}

}  // namespace
}  // namespace piper
