// SPDX-License-Identifier: Apache-2.0
#include "core/predict/roofline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/cost/roof.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

Plan folded() {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 8, 4096, 512);
    plan.layout.tp = 2;
    plan.layout.sp = true;
    plan.layout.pp = 4;
    plan.layout.ep = 8;
    plan.layout.dp = 8;
    return plan;
}

TEST(Roofline, EveryGemmStandsBelowItsRoof) {
    const Result<Roofline> found = roofline(folded());
    ASSERT_TRUE(found.ok()) << found.error().text();
    ASSERT_GT(found->gemms.size(), 10U);
    for (const GemmRoof& g : found->gemms) {
        EXPECT_LE(g.rate.value, g.roof.value * 1.0001) << g.work.m << ' ' << g.work.n;
        EXPECT_LE(g.roof.value, g.peak.value);
        EXPECT_NEAR(g.rate.value * g.time.value, g.flops.value, 1e-6 * g.flops.value);
        EXPECT_EQ(g.memoryBound(), g.intensity() * found->memory_bandwidth.value < g.peak.value);
    }
}

TEST(Roofline, IntensityIsThatOfTheThreeMatricesOnce) {
    const Result<Roofline> found = roofline(folded());
    ASSERT_TRUE(found.ok());
    const auto forward = std::ranges::find_if(found->gemms, [](const GemmRoof& g) {
        return g.key.phase == Phase::Expert && g.key.kind == OperationKind::Forward;
    });
    ASSERT_NE(forward, found->gemms.end());
    const GemmWork& w = forward->work;
    const double m = static_cast<double>(w.m), n = static_cast<double>(w.n),
                 k = static_cast<double>(w.k);
    EXPECT_NEAR(forward->intensity(), 2 * m * n * k / (2 * (m * k + k * n + m * n)),
                1e-9 * forward->intensity());
}

TEST(Roofline, EveryGroupOfMoreThanOneRankHasItsLinks) {
    const Plan plan = folded();
    const Result<Roofline> found = roofline(plan);
    ASSERT_TRUE(found.ok());
    for (const char* dimension : {"ep", "tp", "pp", "dp"}) {
        const auto link = std::ranges::find(found->links, dimension, &LinkRoof::dimension);
        ASSERT_NE(link, found->links.end()) << dimension;
        EXPECT_GT(link->rate.value, 0.0) << dimension;
        EXPECT_FALSE(link->level.empty()) << dimension;
    }
    Plan alone = plan;
    alone.layout.tp = 1;
    alone.layout.sp = false;
    alone.layout.dp = 16;
    const Result<Roofline> without = roofline(alone);
    ASSERT_TRUE(without.ok());
    EXPECT_EQ(std::ranges::find(without->links, "tp", &LinkRoof::dimension), without->links.end());
}

TEST(Roofline, TheRoofOfAGroupIsThatOfItsRanksWhereTheyAreConsecutive) {
    const Plan plan = folded();
    for (const CollectiveKind kind : {CollectiveKind::AllToAll, CollectiveKind::AllReduce}) {
        const GroupSpread spread =
            spreadOver(plan.cluster, groupAxes(plan.layout, plan.rank_order, "tp"));
        const auto by_group = collectiveRoof(plan.cluster, kind, spread);
        const auto by_count = collectiveRoof(plan.cluster, kind, std::int64_t{2});
        ASSERT_TRUE(by_group.ok() && by_count.ok());
        EXPECT_DOUBLE_EQ(by_group->algbw.value, by_count->algbw.value);
    }
}

TEST(Roofline, APlanThatBreaksARuleHasNone) {
    Plan plan = folded();
    plan.layout.ep = 7;
    const Result<Roofline> found = roofline(plan);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().code, ErrorCode::RuleBroken);
}

}  // namespace
}  // namespace piper
