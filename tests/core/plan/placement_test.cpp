// SPDX-License-Identifier: Apache-2.0
#include "core/plan/placement.h"

#include <gtest/gtest.h>

#include "tests/core/cost/groups.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

/// Layouts whose groups do not fit nodes of 6, 7 or 8 evenly, and groups that span many nodes.
const std::vector<Layout> kUneven = {{.tp = 3, .pp = 4, .dp = 4},
                                     {.tp = 2, .ep = 6, .etp = 1, .dp = 9},
                                     {.tp = 6, .pp = 2, .ep = 12, .etp = 1, .dp = 4},
                                     {.pp = 5, .ep = 3, .dp = 9},
                                     {.tp = 2, .cp = 3, .pp = 2, .dp = 5},
                                     {.tp = 16, .pp = 2, .ep = 16, .etp = 2, .dp = 4},
                                     {.ep = 24, .dp = 48}};

TEST(Placement, TheWorstGroupOfUnevenLayouts) {
    for (const std::int64_t per_node : {1, 4, 6, 7, 8, 72})
        for (const Layout& layout : kUneven) {
            const ProcessGrid grid(layout, "tp-cp-ep-dp-pp");
            for (const char* dimension : {"tp", "cp", "pp", "ep", "etp", "edp"}) {
                const GroupAxes axes = groupAxes(layout, "tp-cp-ep-dp-pp", dimension);
                const DomainSplit split = splitOver(axes, per_node);
                const test::WorstGroup worst =
                    test::worstGroup(grid, layout, dimension, static_cast<std::int32_t>(per_node));
                EXPECT_EQ(split.domains, worst.nodes)
                    << dimension << " on nodes of " << per_node << ", tp " << layout.tp << " ep "
                    << layout.ep;
                EXPECT_EQ(split.members, worst.ranks_per_node)
                    << dimension << " on nodes of " << per_node << ", tp " << layout.tp << " ep "
                    << layout.ep;
            }
        }
}

TEST(Placement, SixRanksOnNodesOfEightStraddle) {
    // Ranks 0-5 sit in one node, 6-11 two and four on two.
    Plan plan = test::smallPlan({.ep = 6, .dp = 48});
    plan.model.moe->num_experts = 12;
    const GroupSpread spread =
        spreadOver(plan.cluster, groupAxes(plan.layout, plan.rank_order, "ep"));
    EXPECT_EQ(spread.size, 6);
    EXPECT_EQ(spread.nodes, 2);
    EXPECT_EQ(spread.ranks_per_node, 2);
    EXPECT_EQ(spread.members, (std::vector<std::int64_t>{2, 6}));
}

TEST(Placement, GradientsSkipThePipelineBetweenCpAndDp) {
    // tp 2, cp 2, then pp 4, then dp 4: a dp group is two pairs of ranks 16 apart.
    const Layout layout{.tp = 2, .cp = 2, .pp = 4, .dp = 4};
    const GroupAxes axes = groupAxes(layout, "tp-cp-ep-pp-dp", "dp");
    ASSERT_EQ(axes.count, 2U);
    EXPECT_EQ(axes.size(), 8);
    const DomainSplit split = splitOver(axes, 8);
    EXPECT_EQ(split.members, 2);
    EXPECT_EQ(split.domains, 4);
    // Without a pipeline between them they are one axis.
    EXPECT_EQ(groupAxes(layout, "tp-cp-ep-dp-pp", "dp").count, 1U);
}

TEST(Placement, ALevelNeverHoldsFewerThanTheOneInside) {
    Plan plan = test::smallPlan({.tp = 3, .dp = 8});
    LinkLevel rack = plan.cluster.levels[0];
    rack.name = "nvlink";
    rack.domain_devices = 32;
    plan.cluster.levels.insert(plan.cluster.levels.begin() + 1, rack);
    for (const char* dimension : {"tp", "dp"}) {
        const GroupSpread spread =
            spreadOver(plan.cluster, groupAxes(plan.layout, plan.rank_order, dimension));
        EXPECT_TRUE(std::is_sorted(spread.members.begin(), spread.members.end()));
        EXPECT_EQ(spread.members.back(), spread.size);
    }
}

}  // namespace
}  // namespace piper
