// SPDX-License-Identifier: Apache-2.0
#include "core/validate/frontier.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(Frontier, PlansKeepTheRulesOfTheirSource) {
    const Result<FrontierComparison> c = compareFrontier();
    ASSERT_TRUE(c.ok()) << c.error().text();
    ASSERT_EQ(c->rows.size(), 9u);
    for (const FrontierRow& row : c->rows) {
        const Layout& l = row.plan.layout;
        if (row.source.find("2605.05049") == std::string::npos) continue;
        EXPECT_EQ(l.pp * l.ep, l.world()) << row.name;
        EXPECT_LE(l.ep, 32) << row.name;
        EXPECT_EQ(l.tp, 1);
        EXPECT_NE(row.prediction.memory.verdict, FitVerdict::DoesNotFit) << row.name;
        EXPECT_EQ(row.plan.global_batch_size % (row.plan.micro_batch_size * l.dp), 0);
        EXPECT_GT(row.prediction.mfu, 0.05) << row.name;
        EXPECT_LT(row.prediction.mfu, 0.8) << row.name;
    }
}

TEST(Frontier, EightTimesTheExpertsRunSlower) {
    const Result<FrontierComparison> c = compareFrontier();
    ASSERT_TRUE(c.ok());
    EXPECT_GT(c->small_ratio, 1.0);
    // The same layers with eight times the experts on eight times the devices.
    EXPECT_GT(c->rows[2].prediction.mfu, c->rows[3].prediction.mfu);
}

}  // namespace
}  // namespace piper
