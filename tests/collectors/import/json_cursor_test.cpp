// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/json_cursor.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/run/name_table.h"

namespace piper {
namespace {

/// The wide loads may look behind the end.
std::string padded(std::string_view text) {
    return std::string(text) + std::string(64, '\0');
}

std::optional<std::int64_t> nanoseconds(std::string_view text) {
    std::int64_t value = 0;
    return parseMicroseconds(text, value) ? std::optional(value) : std::nullopt;
}

TEST(Microseconds, AreExactInDecimal) {
    EXPECT_EQ(nanoseconds("1712195495519689.047"), 1712195495519689047);
    EXPECT_EQ(nanoseconds("1623142623460111"), 1623142623460111000);
    EXPECT_EQ(nanoseconds("0.0005"), 1);  // half up
    EXPECT_EQ(nanoseconds("0.0004999"), 0);
    EXPECT_EQ(nanoseconds("-0.0015"), -2);
    EXPECT_EQ(nanoseconds("1712195495519689.0475"), 1712195495519689048);
    EXPECT_EQ(nanoseconds("1712195495519689.04749"), 1712195495519689047);
    EXPECT_EQ(nanoseconds("2.5e3"), 2500000);
    EXPECT_EQ(nanoseconds("1.5E-3"), 2);
    EXPECT_EQ(nanoseconds("12."), 12000);
    EXPECT_EQ(nanoseconds("0.000000000000000000000001"), 0);
    EXPECT_EQ(nanoseconds("0e999"), 0);
}

TEST(Microseconds, RefuseWhatIsNoNumberOrDoesNotFit) {
    for (const char* text : {"", ".", "-", "abc", "1.2.3", "1e", "12us", "1e400",
                             "99999999999999999", "NaN", "Infinity"})
        EXPECT_EQ(nanoseconds(text), std::nullopt) << text;
}

TEST(WholeNumber, DecimalHexadecimalAndTrailingZeros) {
    std::int64_t value = 0;
    EXPECT_TRUE(parseWholeNumber("-7", value) && value == -7);
    EXPECT_TRUE(parseWholeNumber("0x1F", value) && value == 31);
    EXPECT_TRUE(parseWholeNumber("4.0", value) && value == 4);
    for (const char* text : {"", "4.5", "4a", "0x", "99999999999999999999"})
        EXPECT_FALSE(parseWholeNumber(text, value)) << text;
}

TEST(JsonText, EscapesAndBrokenEscapes) {
    std::string scratch;
    EXPECT_EQ(decodeJsonText(R"(plain)", scratch), "plain");
    EXPECT_EQ(decodeJsonText(R"(a\"b\\c\n\u00e4\ud83d\ude00)", scratch), "a\"b\\c\nä😀");
    EXPECT_EQ(decodeJsonText(R"(\ud83d!)", scratch), "\xEF\xBF\xBD!");
    EXPECT_EQ(decodeJsonText(R"(\u12)", scratch), "\xEF\xBF\xBD");
}

TEST(JsonCursor, EveryPrefixIsIncompleteNotBroken) {
    const std::string document =
        R"({"a\"" : [1, {"b": "x]}"}, null], "c": -1.5e3, "long string of more than sixteen": "y"})";
    for (std::size_t size = 0; size < document.size(); ++size) {
        const std::string text = padded(std::string_view(document).substr(0, size));
        JsonCursor in(text.data(), text.data() + size, false);
        EXPECT_FALSE(in.skip()) << size;
        EXPECT_TRUE(in.incomplete()) << size;
    }
    const std::string text = padded(document);
    JsonCursor in(text.data(), text.data() + document.size(), false);
    EXPECT_TRUE(in.skip());
}

TEST(JsonCursor, ControlCharactersInStringsAreCountedAndKept) {
    const std::string text = padded("\"a\nb\tc\"");
    JsonCursor in(text.data(), text.data() + 7, true);
    std::string_view raw;
    ASSERT_TRUE(in.rawString(raw));
    EXPECT_EQ(raw, "a\nb\tc");
    EXPECT_EQ(in.controlCharacters(), 2);
}

TEST(NameTable, TheSameTextHasTheSameNumber) {
    NameTable names;
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < 5000; ++i) EXPECT_EQ(names.intern("name " + std::to_string(i)), i);
    EXPECT_EQ(names.intern(""), 5000);
    EXPECT_EQ(names[4999], "name 4999");
    EXPECT_EQ(names.take().size(), 5001U);
    EXPECT_EQ(names.intern("again"), 0);
}

}  // namespace
}  // namespace piper
