// SPDX-License-Identifier: Apache-2.0
// Hosts that ask much, and hosts that answer what they should not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <utility>

#include "sessions/job_directory.h"
#include "sessions/job_report.h"
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

TEST_F(SshHostileTest, APasswordIsAskedForUnlessTheConfigurationForbidsIt) {
    const MiniSshServer server(path("mini"), {{}, {}, {}, "open sesame"});
    m_prompter->answers = {{"open sesame"}};
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    ASSERT_EQ(m_prompter->asked.size(), 1U);
    EXPECT_FALSE(m_prompter->asked[0].questions[0].echo);
    m_prompter->answers = {{"sesame"}};
    const auto wrong = open("host");
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().text(), HasSubstr("it takes password; tried"));
    EXPECT_THAT(wrong.error().text(), Not(HasSubstr("sesame")));
    write("config", hostBlock("host", server.port(), "  PasswordAuthentication no\n"));
    EXPECT_FALSE(open("host").ok());
    EXPECT_EQ(m_prompter->asked.size(), 2U);
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

/// Answers any command as if it had printed this; the marker's halves stand in the command.
std::function<void(ssh_channel, const std::string&)> printing(const std::string& text) {
    return [text](ssh_channel channel, const std::string& command) {
        const std::string before = "\\0134n\\0047\\0040", blank = "\\0040";
        const std::size_t at = command.find(before);
        ASSERT_NE(at, std::string::npos) << command.substr(0, 400);
        const std::size_t first = at + before.size(), second = first + 16 + blank.size();
        const std::string said =
            command.substr(first, 16) + command.substr(second, 16) + ":1\n" + text;
        ssh_channel_write(channel, said.data(), static_cast<std::uint32_t>(said.size()));
        ssh_channel_send_eof(channel);
        ssh_channel_request_send_exit_status(channel, 0);
    };
}

TEST_F(SshHostileTest, JobsThatAreNoFileNamesAndJobsWithoutEndAreRefused) {
    for (const auto& [listed, said] :
         {std::pair<std::string, const char*>{"N ..\nE 0\n.\n", "lists a job named '..'"},
          {"N a/../../b\nE 0\n.\n", "lists a job named 'a/../../b'"},
          {[] {
               std::string text;
               for (int i = 0; i < 100'001; ++i) text += "N j\n.\n";
               return text;
           }(),
           "lists 100001 jobs"}}) {
        const MiniSshServer server(path("mini" + std::to_string(listed.size())),
                                   {{}, printing(listed), {}});
        const auto host = connectTo(server);
        ASSERT_NE(host, nullptr);
        const auto jobs = summarizeJobs(*host, "/jobs");
        ASSERT_FALSE(jobs.ok());
        EXPECT_THAT(jobs.error().text(), HasSubstr(said));
    }
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
        std::string out = text32(static_cast<std::uint32_t>(s.size()));
        out.append(s);
        return out;
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

constexpr char kInit = 1, kVersion = 2, kOpen = 3, kRead = 5, kOpenDirectory = 11,
               kReadDirectory = 12, kStat = 17;
constexpr char kStatusReply = 101, kHandle = 102, kData = 103, kNames = 104, kAttributes = 105;
constexpr std::uint32_t kOk = 0, kEndOfFile = 1;

std::string text64(std::uint64_t v) {
    return FakeSftp::text32(static_cast<std::uint32_t>(v >> 32U)) +
           FakeSftp::text32(static_cast<std::uint32_t>(v));
}
std::string statusReply(std::uint32_t code) {
    return FakeSftp::text32(code) + FakeSftp::text("") + FakeSftp::text("");
}
/// Names of a listing, each without attributes.
std::string names(std::uint32_t count, const std::function<std::string(std::uint32_t)>& name) {
    std::string out = FakeSftp::text32(count);
    for (std::uint32_t i = 0; i < count; ++i)
        out += FakeSftp::text(name(i)) + FakeSftp::text(name(i)) + FakeSftp::text32(0);
    return out;
}

/// A reply without its request's number: its type and what follows.
struct Reply {
    char type;
    std::string body;
};
using Answer = std::function<Reply(const std::string& packet)>;

/// An SFTP server that greets, opens what is asked for and answers some requests in its own way.
std::function<void(ssh_channel)> answering(std::map<char, Answer> own) {
    return [own = std::move(own)](ssh_channel channel) {
        FakeSftp sftp(channel);
        for (std::string packet; !(packet = sftp.read()).empty();) {
            const std::string id = packet.size() >= 5 ? packet.substr(1, 4) : std::string(4, '\0');
            Reply reply{kStatusReply, statusReply(kOk)};
            if (packet[0] == kInit) {
                sftp.send(kVersion + FakeSftp::text32(3));
                continue;
            }
            if (packet[0] == kOpen || packet[0] == kOpenDirectory)
                reply = {kHandle, FakeSftp::text("handle")};
            if (const auto found = own.find(packet[0]); found != own.end())
                reply = found->second(packet);
            sftp.send(reply.type + id + reply.body);
        }
    };
}

/// Answers a listing with one entry of this name.
std::function<void(ssh_channel)> listing(const std::string& name) {
    return answering({{kReadDirectory, [name, listed = false](const std::string&) mutable {
                           if (std::exchange(listed, true))
                               return Reply{kStatusReply, statusReply(kEndOfFile)};
                           return Reply{kNames, names(1, [&](std::uint32_t) { return name; })};
                       }}});
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

TEST_F(SshHostileTest, AListingWithoutEndIsRefused) {
    const MiniSshServer server(
        path("mini"), {{}, {}, answering({{kReadDirectory, [n = 0](const std::string&) mutable {
                                               ++n;
                                               return Reply{
                                                   kNames, names(1000, [&](std::uint32_t i) {
                                                       return fmt::format("file-{}-{}", n, i);
                                                   })};
                                           }}})});
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    const auto files = host->list("/jobs");
    ASSERT_FALSE(files.ok());
    EXPECT_THAT(files.error().message, HasSubstr("lists more than 200000 files"));
}

TEST_F(SshHostileTest, AFileLargerThanTheDiskOrThanAnyFileIsRefused) {
    for (const auto& [size, said] :
         {std::pair{std::uint64_t{1} << 62U, "and the disk here has"},
          std::pair{std::uint64_t{1} << 63U, "9223372036854775808 bytes: no file has"}}) {
        const std::string attributes = FakeSftp::text32(1) + text64(size);
        int reads = 0;
        {
            const MiniSshServer server(
                path(fmt::format("mini{}", size)),
                {{},
                 {},
                 answering({{kStat,
                             [&](const std::string&) {
                                 return Reply{kAttributes, attributes};
                             }},
                            {kRead, [&](const std::string&) {
                                 ++reads;
                                 return Reply{kData, FakeSftp::text(std::string(1000, 'x'))};
                             }}})});
            const auto host = connectTo(server);
            ASSERT_NE(host, nullptr);
            const Status fetched = host->fetch("/rank-0.piper", path("copy"), {});
            ASSERT_FALSE(fetched.ok());
            EXPECT_THAT(fetched.error().text(), HasSubstr(said));
        }
        EXPECT_EQ(reads, 0);
        EXPECT_FALSE(std::filesystem::exists(path("copy")));
        EXPECT_FALSE(std::filesystem::exists(path("copy.part")));
    }
}

TEST_F(SshHostileTest, MoreDataThanWasAskedForIsRefused) {
    const MiniSshServer server(
        path("mini"),
        {{}, {}, answering({{kRead, [](const std::string&) {
                                 return Reply{kData, FakeSftp::text(std::string(100'000, 'x'))};
                             }}})});
    const auto host = connectTo(server);
    ASSERT_NE(host, nullptr);
    const auto text = host->readFile("/status.json", 1000);
    ASSERT_FALSE(text.ok());
    EXPECT_THAT(text.error().text(), HasSubstr("status.json"));
}

TEST_F(SshHostileTest, QuestionsWithoutEndAreRefused) {
    const MiniSshServer server(
        path("mini"), {std::vector<MiniSshServer::Round>(1000, {"again", "", {}, {}}), {}, {}});
    write("known_hosts", server.knownHostsLine());
    write("config", hostBlock("host", server.port()));
    const auto opened = open("host");
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, HasSubstr("goes on asking after"));
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
