// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/options.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <thread>

#include "app/workbench/own_runs.h"
#include "tests/support/paths.h"

namespace piper::app {
namespace {

ParsedOptions parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "piper-workbench");
    return parseOptions(static_cast<int>(arguments.size()), arguments.data());
}

TEST(WorkbenchOptions, ReadsEverything) {
    const ParsedOptions parsed =
        parse({"a.piper", "--page", "compare", "--runs", "x,y", "--size", "1280x720", "--scale",
               "2", "--theme", "dark", "--screenshot", "s.png"});
    ASSERT_FALSE(parsed.exit_status);
    const Options& o = parsed.options;
    EXPECT_EQ(o.workspace, QStringLiteral("a.piper"));
    EXPECT_EQ(o.page, ui::PageId::Compare);
    EXPECT_EQ(o.run_a, QStringLiteral("x"));
    EXPECT_EQ(o.run_b, QStringLiteral("y"));
    EXPECT_EQ(o.size, QSize(1280, 720));
    EXPECT_DOUBLE_EQ(o.scale, 2.0);
    EXPECT_EQ(o.theme, ui::Theme::Dark);
    EXPECT_EQ(o.screenshot, QStringLiteral("s.png"));
}

TEST(WorkbenchOptions, CommandsAreDoneInTheirOrderAndTakeNoFile) {
    const ParsedOptions parsed =
        parse({"--do", "Plan: Undo", "--do", "Go to: Export", "a.piper", "--report", "out"});
    ASSERT_FALSE(parsed.exit_status);
    EXPECT_EQ(parsed.options.commands,
              (QStringList{QStringLiteral("Plan: Undo"), QStringLiteral("Go to: Export")}));
    EXPECT_EQ(parsed.options.workspace, QStringLiteral("a.piper"));
    EXPECT_EQ(parsed.options.report, QStringLiteral("out"));
    EXPECT_FALSE(parsed.options.theme) << "as last chosen";
}

TEST(WorkbenchOptions, OneRunIsShownBesideItsModel) {
    const ParsedOptions parsed = parse({"--runs", "x"});
    ASSERT_FALSE(parsed.exit_status);
    EXPECT_TRUE(parsed.options.run_a.isEmpty());
    EXPECT_EQ(parsed.options.run_b, QStringLiteral("x"));
}

TEST(WorkbenchOptions, BadValuesAreNamedWithTheLegalOnes) {
    const std::vector<std::pair<std::vector<const char*>, std::string>> cases = {
        {{"--page", "plam"}, "nearest known: 'plan'"},
        {{"--size", "10x10"}, "10x10"},
        {{"--scale", "9"}, "from 0.5 to 4"},
        {{"--scale", "nan"}, "from 0.5 to 4"},
        {{"--theme", "drak"}, "nearest known: 'dark'"},
        {{"--runs", "a,b,c"}, "3 are given"},
        {{"--bench", "x"}, "legal values: slider"},
        {{"--nonsense"}, "nonsense"},
        {{"a.piper", "b.piper"}, "b.piper"}};
    for (const auto& [arguments, part] : cases) {
        testing::internal::CaptureStderr();
        const ParsedOptions parsed = parse(arguments);
        const std::string printed = testing::internal::GetCapturedStderr();
        EXPECT_EQ(parsed.exit_status, 2) << part;
        EXPECT_NE(printed.find(part), std::string::npos) << printed;
    }
}

TEST(OwnRuns, OfWindowsThatStartAtOnceOneMakesTheFile) {
    constexpr int kWindows = 8;
    const piper::test::TemporaryDirectory directory;
    const std::filesystem::path example = directory.path() / "example",
                                own = directory.path() / "own";
    std::ofstream(example) << std::string(1 << 20, 'x');
    std::latch begin(kWindows);
    std::atomic<int> made = 0;
    {
        std::vector<std::jthread> windows;
        for (int i = 0; i < kWindows; ++i)
            windows.emplace_back([&] {
                begin.arrive_and_wait();
                const Result<bool> mine = startOwnRuns(example, own);
                ASSERT_TRUE(mine.ok()) << mine.error().text();
                made += *mine ? 1 : 0;
            });
    }
    EXPECT_EQ(made, 1);
    EXPECT_EQ(std::filesystem::file_size(own), std::filesystem::file_size(example));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 2);
}

}  // namespace
}  // namespace piper::app
