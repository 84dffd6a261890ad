// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

using ::testing::HasSubstr;

class Runs : public ::testing::Test {
protected:
    void SetUp() override {
        std::filesystem::copy_file(example("runs/olmoe-tiny.piper"), file());
        const Json runs = document(piperctl({"runs", file(), "--json"}))["runs"];
        ASSERT_GE(runs.size(), 2U);
        m_run = runs[0]["name"].get<std::string>();
        EXPECT_EQ(runs[0]["tags"], Json::array());
    }
    [[nodiscard]] std::string file() const { return (m_dir.path() / "runs.piper").string(); }

    TemporaryDirectory m_dir;
    std::string m_run;
};

TEST_F(Runs, ANoteAndTagsStayInTheFile) {
    const CommandResult labelled = piperctl(
        {"label", file(), m_run, "--note", "first try", "--tag", "fp32", "--tag", "tiny, fp32"});
    ASSERT_EQ(labelled.exit_status, 0) << labelled.error_output;
    Json runs = document(piperctl({"runs", file(), "--json", "--tag", "tiny"}))["runs"];
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0]["name"], m_run);
    EXPECT_EQ(runs[0]["tags"], Json::parse(R"(["fp32", "tiny"])"));
    EXPECT_EQ(runs[0]["note"], "first try");
    EXPECT_THAT(piperctl({"runs", file()}).output, HasSubstr("fp32, tiny"));
    ASSERT_EQ(piperctl({"label", file(), m_run, "--untag", "tiny", "--note", ""}).exit_status, 0);
    runs = document(piperctl({"runs", file(), "--json", "--tag", "fp32"}))["runs"];
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_EQ(runs[0]["note"], "");
    EXPECT_TRUE(document(piperctl({"runs", file(), "--json", "--tag", "tiny"}))["runs"].empty());
}

TEST_F(Runs, WhatCannotBeDoneIsNamed) {
    const CommandResult none = piperctl({"label", file(), "nothing", "--tag", "a"});
    EXPECT_EQ(none.exit_status, 2);
    EXPECT_THAT(none.error_output, HasSubstr(m_run)) << "names those there are";
    const CommandResult odd = piperctl({"label", file(), m_run, "--tag", "a#b"});
    EXPECT_EQ(odd.exit_status, 2);
    EXPECT_THAT(odd.error_output, HasSubstr("'a#b'"));
}

}  // namespace
}  // namespace piper::test
