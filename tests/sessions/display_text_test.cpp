// SPDX-License-Identifier: Apache-2.0
#include "sessions/display_text.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(DisplayText, TakesOutWhatATerminalWouldObey) {
    EXPECT_EQ(displayText("a\033[31mred\033[0mb"), "aredb");
    EXPECT_EQ(displayText("\033]0;title\007x\033]52;c;ZXZpbA==\033\\y"), "xy");
    EXPECT_EQ(displayText("\033Pq#0\033\\z\033c!"), "z!");
    EXPECT_EQ(displayText(std::string_view("a\rb\bc\x7F\x00"
                                           "d",
                                           8)),
              "abcd");
    EXPECT_EQ(displayText("end\033"), "end");
    EXPECT_EQ(displayText("end\033["), "end");
    EXPECT_EQ(displayText("\xC2\x9B"
                          "31m"),
              "31m");  // the one-byte form of ESC [
}

TEST(DisplayText, KeepsTextAndMarksWhatIsNone) {
    EXPECT_EQ(displayText("\xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80\n\t"),
              "\xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80\n\t");
    EXPECT_EQ(displayText("\xFF\xC0\x80\xED\xA0\x80"),
              "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_EQ(displayText("file\xE2\x80\xAEgpj.exe"), "filegpj.exe");  // right-to-left override
}

TEST(DisplayText, LineIsOneShortLine) {
    EXPECT_EQ(displayLine(" a\n\n  b\t c \n"), "a b c");
    EXPECT_EQ(displayLine(std::string(1000, 'x'), 10), "xxxxxxxxxx...");
    EXPECT_EQ(displayLine("\xC3\xBC\xC3\xBC", 3), "\xC3\xBC...");
}

}  // namespace
}  // namespace piper
