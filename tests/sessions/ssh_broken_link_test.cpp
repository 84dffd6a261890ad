// SPDX-License-Identifier: Apache-2.0
// A connection that is cut, or falls silent, at every step of the protocol: before each message
// that the server sends, from its greeting to the end of the last file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/sessions/slow_link.h"
#include "tests/sessions/ssh_server.h"

namespace piper {
namespace {

using test::SlowLink;
using test::SshServer;
using test::SshTest;
using ::testing::HasSubstr;

constexpr int kThreads = 16;  ///< most of them wait
constexpr const char* kKeyAlias = "server-behind-links";

/// What a session does over its connection, each once.
class Exchange {
public:
    Exchange(Connection& host, std::filesystem::path own, std::string content)
        : m_host(host), m_own(std::move(own)), m_content(std::move(content)) {
        std::filesystem::create_directories(m_own);
        std::ofstream(m_own / "here", std::ios::binary) << m_content;
    }

    /// One of these may fail, when the connection broke under it; then it is done again.
    Status changing(int step) {
        switch (step) {
            case 0:
                return status(m_host.run({"sh", "-c", "echo done >> \"$0\"", at("lines")}));
            case 1:
                return m_host.makeDirectory(at("d"));
            case 2:
                return m_host.writeFile(at("d/written"), m_content, false);
            default:
                return watched();
        }
    }
    static constexpr int kChanging = 4;

    /// These go on over another connection by themselves.
    Status reading() {
        PIPER_TRY(m_host.send(m_own / "here", at("d/sent"), true, {}));
        PIPER_ASSIGN(const std::string text, m_host.readFile(at("d/written"), 1 << 20));
        PIPER_ASSIGN(const std::vector<RemoteFile> files, m_host.list(at("d")));
        PIPER_TRY(m_host.fetch(at("d/sent"), m_own / "copy", {}));
        EXPECT_TRUE(text == m_content && test::readText(m_own / "copy") == m_content);
        EXPECT_EQ(files.size(), 2U);
        return {};
    }

    /// How often the command of step 0 has run.
    [[nodiscard]] std::ptrdiff_t runs() const {
        std::ifstream in(m_own / "lines");
        return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
    }

private:
    [[nodiscard]] std::string at(const std::string& name) const { return m_own / name; }

    static Status status(const Result<CommandResult>& r) {
        if (!r.ok()) return r.error();
        EXPECT_EQ(r->exit_status, 0) << r->error_output;
        return {};
    }
    /// A command whose output comes bit by bit.
    Status watched() {
        PIPER_ASSIGN(
            const auto command,
            m_host.start({"sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.05; done"}, ""));
        std::string output;
        for (std::optional<int> end; !end;) {
            PIPER_ASSIGN(end, command->poll());
            PIPER_ASSIGN(const std::string more, command->read());
            output += more;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        EXPECT_EQ(output, "1\n2\n3\n");
        return {};
    }

    Connection& m_host;
    std::filesystem::path m_own;
    std::string m_content;
};

class SshBrokenLink : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        m_server = std::make_unique<SshServer>(path("server"), path("key"));
        std::string known = m_server->knownHostsLine();
        write("known_hosts", kKeyAlias + known.substr(known.find(' ')));
        for (int i = 0; i < kThreads; ++i)
            m_links.push_back(std::make_unique<SlowLink>(m_server->port()));
        // A host that answers nothing for so long counts as lost.
        std::string config;
        for (int i = 0; i < kThreads; ++i)
            config += hostBlock(name(i), m_links[static_cast<std::size_t>(i)]->port(),
                                std::string("  HostKeyAlias ") + kKeyAlias +
                                    "\n  ServerAliveInterval 1\n  ConnectTimeout 6\n");
        write("config", config);
        m_content.assign(100'000, 'x');
    }

    static std::string name(int link) { return "link" + std::to_string(link); }

    /// All of it over one link that breaks before this piece. False when it never came to that.
    bool exchange(int number, std::int64_t piece, SlowLink::Break how) {
        SlowLink& link = *m_links[static_cast<std::size_t>(number)];
        const std::int64_t first = link.pieces();
        link.breakBefore(first + piece, how);
        const auto broke = [&] { return link.pieces() > first + piece; };
        int failed = 0;
        const auto mayFail = [&](const std::string& what, const Status& status) {
            if (status.ok()) return true;
            ++failed;
            EXPECT_TRUE(broke()) << what << ": " << status.error().text();
            EXPECT_THAT(status.error().text(),
                        ::testing::AnyOf(HasSubstr("127.0.0.1"), HasSubstr(name(number))))
                << what << " names no host";
            return false;
        };
        auto opened = open(name(number));
        if (!mayFail("connecting", opened.ok() ? Status() : Status(opened.error())))
            opened = open(name(number));
        if (!opened.ok()) {
            ADD_FAILURE() << "connecting once more: " << opened.error().text();
            return false;
        }
        Exchange all(**opened, path("work" + std::to_string(number) + "-" + std::to_string(piece)),
                     m_content);
        for (int step = 0; step < Exchange::kChanging; ++step) {
            const bool done = mayFail("step " + std::to_string(step), all.changing(step));
            if (step == 0) {
                EXPECT_LE(all.runs(), 1) << "a command was repeated";
            }
            if (done) continue;
            const Status again = all.changing(step);
            EXPECT_TRUE(again.ok()) << "step " << step << " once more: " << again.error().text();
        }
        const Status read = all.reading();
        EXPECT_TRUE(read.ok()) << "reading: " << read.error().text();
        EXPECT_LE(failed, 1);
        return broke();
    }

    /// Breaks before every piece, several links beside each other.
    void breakEverywhere(SlowLink::Break how) {
        std::atomic<std::int64_t> next = 0;
        std::atomic<bool> beyond = false;
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i)
            threads.emplace_back([&, i] {
                while (!beyond) {
                    const std::int64_t piece = next++;
                    SCOPED_TRACE("broken before piece " + std::to_string(piece));
                    if (!exchange(i, piece, how)) beyond = true;
                    if (::testing::Test::HasFailure()) beyond = true;
                }
            });
        threads.clear();
        const std::int64_t last_broken = next - kThreads;
        std::printf("broken before each of %lld messages of the server\n",
                    static_cast<long long>(last_broken));
        // Greeting, key exchange, log-in, then a few for each of ten exchanges.
        EXPECT_GT(last_broken, 30);
    }

    std::unique_ptr<SshServer> m_server;
    std::vector<std::unique_ptr<SlowLink>> m_links;
    std::string m_content;
};

TEST_F(SshBrokenLink, ACutAtAnyMessageIsSaidOrMended) {
    breakEverywhere(SlowLink::Break::Cut);
}

TEST_F(SshBrokenLink, SilenceFromAnyMessageOnIsNoticed) {
    breakEverywhere(SlowLink::Break::Silence);
}

}  // namespace
}  // namespace piper
