// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_labels.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

using Tags = std::vector<std::string>;

TEST(RunLabels, TagsStandBetweenCommas) {
    EXPECT_EQ(parseTags(" fp8 ,baseline,, fp8,two words ").value(),
              (Tags{"baseline", "fp8", "two words"}));
    EXPECT_EQ(tagsText({"baseline", "fp8"}), "baseline, fp8");
    EXPECT_TRUE(parseTags(" , ").value().empty());
}

TEST(RunLabels, AnOddTagIsNamed) {
    const auto hash = parseTags("a, #b");
    ASSERT_FALSE(hash.ok());
    EXPECT_NE(hash.error().message.find("'#b'"), std::string::npos) << hash.error().text();
    const auto longer = parseTags(std::string(61, 'x'));
    ASSERT_FALSE(longer.ok());
    EXPECT_NE(longer.error().message.find("61 bytes; 60"), std::string::npos);
    EXPECT_TRUE(parseTags(std::string(60, 'x')).ok());
    EXPECT_FALSE(parseTags("a\x01").ok());
}

TEST(RunLabels, AreAmongTheNotesOfARun) {
    piper::Run run;
    EXPECT_EQ(labelsOf(run), RunLabels());
    run.notes = {{"user.note", "slow disk"}, {"user.tags", "b,a"}, {"world", "2"}};
    EXPECT_EQ(labelsOf(run), (RunLabels{"slow disk", {"a", "b"}}));
    run.notes["user.tags"] = "#";
    EXPECT_TRUE(labelsOf(run).tags.empty());
}

}  // namespace
}  // namespace piper
