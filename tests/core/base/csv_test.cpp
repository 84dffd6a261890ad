// SPDX-License-Identifier: Apache-2.0
#include "core/base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace piper {
namespace {

using testing::HasSubstr;

TEST(Csv, ReadsQuotesLineBreaksAndBlankLines) {
    const Result<CsvTable> table = CsvTable::parse(
        "\xEF\xBB\xBF"
        "name, note\r\na,\"x, \"\"y\"\"\nz\"\n\n b ,\n",
        "t");
    ASSERT_TRUE(table.ok()) << table.error().text();
    ASSERT_EQ(table->size(), 2u);
    EXPECT_EQ(table->at(0, "note"), "x, \"y\"\nz");
    EXPECT_EQ(table->at(1, "name"), "b");
    EXPECT_EQ(table->at(1, "note"), "");
    EXPECT_EQ(table->at(1, "other"), "");
    EXPECT_EQ(table->line(0), 2u);
    EXPECT_EQ(table->line(1), 5u);
}

TEST(Csv, NamesLineAndFault) {
    EXPECT_THAT(CsvTable::parse("a,b\n1\n", "t").error().text(), HasSubstr("line 2 has 1 cells"));
    EXPECT_THAT(CsvTable::parse("a,a\n", "t").error().text(), HasSubstr("'a' is there twice"));
    EXPECT_THAT(CsvTable::parse("a\n\"x\n", "t").error().text(), HasSubstr("line 2 does not end"));
    EXPECT_FALSE(CsvTable::parse("", "t").ok());
}

TEST(Csv, MissingColumnsAreNamedTogether) {
    const Status status = CsvTable::parse("a,b\n", "t")->require({"a", "c", "d"});
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().text(), HasSubstr("missing columns: c, d"));
}

TEST(Csv, NumbersAreTheWholeText) {
    EXPECT_EQ(*parseNumber("1.5e3"), 1500.0);
    EXPECT_EQ(*parseWhole("4.0"), 4);
    for (const char* bad : {"", "4x", "nan", "inf", "1,000"}) EXPECT_FALSE(parseNumber(bad).ok());
    EXPECT_FALSE(parseWhole("4.5").ok());
    EXPECT_FALSE(parseWhole("1e300").ok());
}

}  // namespace
}  // namespace piper
