// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/options.h"

#include <gtest/gtest.h>

namespace piper::app {
namespace {

Result<Options> parse(QStringList arguments) {
    arguments.prepend(QStringLiteral("piper-workbench"));
    return parseOptions(arguments);
}

TEST(WorkbenchOptions, ReadsEverything) {
    const Result<Options> o =
        parse({QStringLiteral("a.piper"), QStringLiteral("--page"), QStringLiteral("compare"),
               QStringLiteral("--runs"), QStringLiteral("x,y"), QStringLiteral("--size"),
               QStringLiteral("1280x720"), QStringLiteral("--scale"), QStringLiteral("2"),
               QStringLiteral("--theme"), QStringLiteral("dark"), QStringLiteral("--screenshot"),
               QStringLiteral("s.png")});
    ASSERT_TRUE(o.ok()) << o.error().text();
    EXPECT_EQ(o->workspace, QStringLiteral("a.piper"));
    EXPECT_EQ(o->page, ui::PageId::Compare);
    EXPECT_EQ(o->run_a, QStringLiteral("x"));
    EXPECT_EQ(o->run_b, QStringLiteral("y"));
    EXPECT_EQ(o->size, QSize(1280, 720));
    EXPECT_DOUBLE_EQ(o->scale, 2.0);
    EXPECT_EQ(o->theme, ui::Theme::Dark);
}

TEST(WorkbenchOptions, OneRunIsShownBesideItsModel) {
    const Result<Options> o = parse({QStringLiteral("--runs"), QStringLiteral("x")});
    ASSERT_TRUE(o.ok());
    EXPECT_TRUE(o->run_a.isEmpty());
    EXPECT_EQ(o->run_b, QStringLiteral("x"));
}

TEST(WorkbenchOptions, BadValuesAreNamedWithTheLegalOnes) {
    const std::vector<std::pair<QStringList, std::string>> cases = {
        {{QStringLiteral("--page"), QStringLiteral("plam")}, "nearest known: 'plan'"},
        {{QStringLiteral("--size"), QStringLiteral("10x10")}, "10x10"},
        {{QStringLiteral("--scale"), QStringLiteral("9")}, "from 0.5 to 4"},
        {{QStringLiteral("--theme"), QStringLiteral("drak")}, "nearest known: 'dark'"},
        {{QStringLiteral("--runs"), QStringLiteral("a,b,c")}, "3 are given"},
        {{QStringLiteral("--bench"), QStringLiteral("x")}, "legal values: slider"},
        {{QStringLiteral("--nonsense")}, "nonsense"},
        {{QStringLiteral("a.piper"), QStringLiteral("b.piper")}, "2 are given"}};
    for (const auto& [arguments, part] : cases) {
        const Result<Options> o = parse(arguments);
        ASSERT_FALSE(o.ok()) << part;
        EXPECT_EQ(exitStatus(o.error().code), 2);
        EXPECT_NE(o.error().text().find(part), std::string::npos) << o.error().text();
    }
}

}  // namespace
}  // namespace piper::app
