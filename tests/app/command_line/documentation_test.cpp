// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/documentation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/command_line/command_line.h"

namespace piper::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A program with a command, whose texts hold what the formats must escape.
class Documentation : public testing::Test {
protected:
    Documentation() {
        m_app.add_option("--rate", m_rate, ".5 of it's [a:b] rate");
        CLI::App* run = m_app.add_subcommand("run", "Starts it");
        run->add_option("plan", m_plan, "Plan file")->required();
        run->add_option("-t,--to", m_to, "Target")->check(oneOf({"csv", "json"}));
        run->add_flag("--secret", m_secret, "Not for users")->group("");
        completeCommandLine(m_app);
    }

    CLI::App m_app{"Does it.", "piper-demo"};
    double m_rate = 0.0;
    std::string m_plan, m_to;
    bool m_secret = false;
};

TEST_F(Documentation, OutlineHoldsWhatHelpShows) {
    const CommandOutline program = outlineOf(m_app);
    ASSERT_EQ(program.commands.size(), 1u);
    const CommandOutline& run = program.commands.front();
    EXPECT_EQ(run.path, "piper-demo run");
    EXPECT_EQ(usageOf(run), "piper-demo run [OPTIONS] plan");
    ASSERT_EQ(run.arguments.size(), 1u);
    EXPECT_EQ(run.arguments[0].kind, ValueKind::File);
    ASSERT_EQ(run.options.size(), 2u);  // --help and --to
    EXPECT_EQ(run.options[0].kind, ValueKind::None);
    EXPECT_THAT(run.options[1].names, ElementsAre("-t", "--to"));
    EXPECT_THAT(run.options[1].choices, ElementsAre("csv", "json"));
    for (const OptionOutline& option : program.options)
        EXPECT_THAT(option.names, Not(testing::Contains("--print-documentation")));
}

TEST_F(Documentation, ManualPageIsSafeForTroff) {
    const std::string page = manualPage(outlineOf(m_app));
    EXPECT_THAT(page, HasSubstr("piper\\-demo \\- does it\n"));
    EXPECT_THAT(page, HasSubstr("\n\\&.5 of it's [a:b] rate\n"));
    EXPECT_THAT(page, HasSubstr(".SS piper\\-demo run [OPTIONS] plan\n"));
    EXPECT_THAT(page, HasSubstr("\\fB\\-t\\fR, \\fB\\-\\-to\\fR"));
}

TEST_F(Documentation, ShellsGetTheirOwnQuotes) {
    const CommandOutline program = outlineOf(m_app);
    EXPECT_THAT(zshCompletion(program),
                HasSubstr("--rate='[.5 of it'\\''s \\[a\\:b\\] rate]:value: '"));
    EXPECT_THAT(fishCompletion(program), HasSubstr("-l rate -x -d '.5 of it\\'s [a:b] rate'"));
    EXPECT_THAT(bashCompletion(program),
                HasSubstr("complete -o default -F _piper_demo piper-demo"));
}

TEST_F(Documentation, IsPrintedByTheHiddenOption) {
    for (const std::string& format : documentationFormats()) {
        testing::internal::CaptureStdout();
        const char* arguments[] = {"piper-demo", "--print-documentation", format.c_str()};
        EXPECT_EQ(readCommandLine(m_app, 3, arguments), 0);
        EXPECT_EQ(testing::internal::GetCapturedStdout(),
                  *printDocumentation(outlineOf(m_app), format) + "\n");
    }
    EXPECT_FALSE(printDocumentation(outlineOf(m_app), "html").ok());
}

TEST_F(Documentation, WrongWordsAreAnsweredWithTheNearest) {
    testing::internal::CaptureStderr();
    const char* arguments[] = {"piper-demo", "run", "plan.json", "--to", "jsn"};
    EXPECT_EQ(readCommandLine(m_app, 5, arguments), 2);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("unknown 'jsn'; nearest known: 'json' (legal values: csv, json)"));
}

TEST_F(Documentation, VersionNamesTheProgram) {
    testing::internal::CaptureStdout();
    const char* arguments[] = {"piper-demo", "--version"};
    EXPECT_EQ(readCommandLine(m_app, 2, arguments), 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "piper-demo " + programVersion() + "\n");
}

}  // namespace
}  // namespace piper::app
