// SPDX-License-Identifier: Apache-2.0
#include "sessions/remote_shell.h"

#include <gtest/gtest.h>

#include "sessions/local_connection.h"

namespace piper {
namespace {

TEST(RemoteShell, CommandHoldsNothingAShellCouldTakeAmiss) {
    const RemoteScript s = wrapScript("echo 'a!b' \\ \n printf \"$HOME\" `x`\n");
    EXPECT_EQ(s.command.find('!'), std::string::npos);
    EXPECT_EQ(s.command.find('\n'), std::string::npos);
    EXPECT_EQ(s.command.find('`'), std::string::npos);
    EXPECT_EQ(s.command.find(s.marker), std::string::npos);  // an echo of it is no marker
    // Cut into words the Berkeley csh takes, never behind a backslash (fish).
    const RemoteScript cut = wrapScript(std::string(5000, '%') + std::string(5000, '"'));
    EXPECT_EQ(cut.command.find("\\'"), std::string::npos);
    for (std::size_t at = 0, next = 0; next != std::string::npos; at = next + 1) {
        next = cut.command.find(' ', at);
        EXPECT_LT(std::min(next, cut.command.size()) - at, 1000U);
    }
}

TEST(RemoteShell, ScriptRunsAfterItsMarker) {
    const RemoteScript s = wrapScript("echo \"it's $((6*7))\" \"$#\"; exit 5\n");
    const auto r = openLocalConnection()->run({"sh", "-c", "echo banner; " + s.command});
    ASSERT_TRUE(r.ok());
    EXPECT_EQ(r->exit_status, 5);
    MarkerFilter filter(s.marker);
    std::string out;
    for (const char c : r->output) ASSERT_TRUE(filter.feed({&c, 1}, out).ok());  // byte by byte
    EXPECT_EQ(out, "it's 42 0\n");
    EXPECT_EQ(filter.preamble(), "banner\n");
    EXPECT_GT(filter.pid(), 1);
}

TEST(RemoteShell, EndlessStartUpOutputIsRefused) {
    MarkerFilter filter("marker");
    std::string out;
    Status status;
    for (int i = 0; i < 100 && status.ok(); ++i) status = filter.feed(std::string(65536, 'z'), out);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace piper
