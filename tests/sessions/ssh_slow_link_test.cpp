// SPDX-License-Identifier: Apache-2.0
// A session over a link that is slow and far: what is sent over it is counted, never timed.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <stop_token>

#include "tests/sessions/slow_link.h"
#include "tests/sessions/ssh_server.h"

namespace piper {
namespace {

using test::SlowLink;
using test::SshServer;
using test::SshTest;

constexpr double kRate = 1e6;  ///< bytes/s; any core packs faster
constexpr std::size_t kSize = 12U << 20;

class SshSlowLink : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        m_server = serverNamedHost();
        m_link = std::make_unique<SlowLink>(m_server->port(), kRate, std::chrono::milliseconds(20));
        std::string known = m_server->knownHostsLine();
        known.replace(known.find(':') + 1, known.find(' ') - known.find(':') - 1,
                      std::to_string(m_link->port()));
        write("known_hosts", known);
        write("config", hostBlock("host", m_link->port()));
        auto opened = open("host");
        ASSERT_TRUE(opened.ok()) << opened.error().text();
        m_host = std::move(opened).value();
    }
    /// Of that many different bytes: 256 do not shrink, 4 do by more than half.
    std::string makeFile(const std::string& name, unsigned letters) {
        std::mt19937_64 random(letters);
        std::string text(kSize, '\0');
        for (char& c : text) c = static_cast<char>(random() % letters);
        std::ofstream(path(name), std::ios::binary) << text;
        return text;
    }
    /// Fetches it; bytes that came for it.
    std::int64_t fetch(const std::string& name, const std::string& text) {
        const std::int64_t before = m_link->received();
        const Status got = m_host->fetch(path(name).string(), path("copy"), {});
        EXPECT_TRUE(got.ok()) << got.error().text();
        EXPECT_TRUE(test::readText(path("copy")) == text);
        return m_link->received() - before;
    }

    std::unique_ptr<SshServer> m_server;
    std::unique_ptr<SlowLink> m_link;
    std::unique_ptr<Connection> m_host;
};

TEST_F(SshSlowLink, AFileIsPackedWhereItShrinks) {
    const std::string text = makeFile("letters", 4);
    EXPECT_LT(fetch("letters", text), static_cast<std::int64_t>(kSize) * 2 / 3);
}

TEST_F(SshSlowLink, AFileThatDoesNotShrinkComesAsItIs) {
    const std::string noise = makeFile("noise", 256);
    const std::int64_t came = fetch("noise", noise);
    EXPECT_GE(came, static_cast<std::int64_t>(kSize));
    EXPECT_LT(came, static_cast<std::int64_t>(kSize) * 11 / 10);
}

TEST_F(SshSlowLink, APackedFileGoesOnWhereItWasWhenItIsCutOrStopped) {
    const std::string text = makeFile("letters", 4);
    std::stop_source stop;
    std::int64_t reached = 0;
    const Status stopped = m_host->fetch(
        path("letters").string(), path("copy"),
        [&](std::int64_t done, std::int64_t total) {
            reached = done;
            if (done > total / 2) stop.request_stop();
        },
        stop.get_token());
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::Cancelled);
    EXPECT_EQ(std::filesystem::file_size(path("copy.part")), static_cast<std::uintmax_t>(reached));
    bool cut = false;
    const std::int64_t before = m_link->received();
    const Status got = m_host->fetch(path("letters").string(), path("copy"),
                                     [&](std::int64_t done, std::int64_t total) {
                                         if (cut || done < total * 3 / 4) return;
                                         cut = true;
                                         m_server->dropConnections();
                                     });
    ASSERT_TRUE(got.ok()) << got.error().text();
    EXPECT_TRUE(cut);
    EXPECT_TRUE(test::readText(path("copy")) == text);
    EXPECT_LT(m_link->received() - before, static_cast<std::int64_t>(kSize) / 2);
}

TEST_F(SshSlowLink, CommandsFilesAndListsWork) {
    const auto r = m_host->run({"sh", "-c", "seq 1 100000 | tail -n 1; exit 3"});
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->output, "100000\n");
    EXPECT_EQ(r->exit_status, 3);
    ASSERT_TRUE(m_host->makeDirectory(path("d").string()).ok());
    const std::string content(1U << 20, 'x');
    ASSERT_TRUE(m_host->writeFile(path("d/file").string(), content, false).ok());
    const auto read = m_host->readFile(path("d/file").string(), 2 << 20);
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(*read == content);
    const auto files = m_host->list(path("d").string());
    ASSERT_TRUE(files.ok());
    ASSERT_EQ(files->size(), 1U);
    EXPECT_EQ(files->front().size_bytes, std::ssize(content));
}

}  // namespace
}  // namespace piper
