// SPDX-License-Identifier: Apache-2.0
#include "core/search/expert_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace piper {
namespace {

using testing::ElementsAre;

ExpertLoads randomLoads(std::mt19937& random, std::size_t experts) {
    ExpertLoads loads(experts);
    // A few hot experts, many cold ones.
    std::exponential_distribution<double> share(1.0);
    for (double& load : loads) load = 0.05 + share(random) * share(random);
    return loads;
}

double hottestSum(const std::vector<ExpertLoads>& rows, const ExpertLayout& layout,
                  std::int64_t ep) {
    double sum = 0.0;
    for (const ExpertLoads& row : rows) sum += loadImbalance(row, layout, ep);
    return sum;
}

/// Calls visit for every layout whose ranks hold as many copies as `like` does.
void forEachLayout(const ExpertLayout& like, std::int64_t ep,
                   const std::function<void(const ExpertLayout&)>& visit) {
    std::vector<std::int64_t> room = like.counts(ep);
    ExpertLayout layout;
    layout.ranks.resize(like.ranks.size());
    const std::function<void(std::size_t, std::size_t, std::int64_t)> fill =
        [&](std::size_t expert, std::size_t copy, std::int64_t from) {
            if (expert == like.ranks.size()) return visit(layout);
            if (copy == like.ranks[expert].size()) return fill(expert + 1, 0, 0);
            for (std::int64_t rank = from; rank < ep; ++rank) {
                if (room[static_cast<std::size_t>(rank)] == 0) continue;
                --room[static_cast<std::size_t>(rank)];
                layout.ranks[expert].push_back(rank);
                fill(expert, copy + 1, rank + 1);
                layout.ranks[expert].pop_back();
                ++room[static_cast<std::size_t>(rank)];
            }
        };
    fill(0, 0, 0);
}

/// The least sum of hottest ranks over every layout.
double bestOfAll(const std::vector<ExpertLoads>& rows, const ExpertLayout& like, std::int64_t ep) {
    double best = std::numeric_limits<double>::infinity();
    forEachLayout(like, ep, [&](const ExpertLayout& layout) {
        best = std::min(best, hottestSum(rows, layout, ep));
    });
    return best;
}

/// Calls visit for every layout one swap away.
void forEachNeighbour(const ExpertLayout& layout,
                      const std::function<void(const ExpertLayout&)>& visit) {
    for (std::size_t a = 0; a < layout.ranks.size(); ++a)
        for (std::size_t b = 0; b < layout.ranks.size(); ++b)
            for (const std::int64_t p : layout.ranks[a])
                for (const std::int64_t q : layout.ranks[b]) {
                    if (a == b || p == q || layout.holds(a, q) || layout.holds(b, p)) continue;
                    ExpertLayout next = layout;
                    std::ranges::replace(next.ranks[a], p, q);
                    std::ranges::replace(next.ranks[b], q, p);
                    std::ranges::sort(next.ranks[a]);
                    std::ranges::sort(next.ranks[b]);
                    visit(next);
                }
}

TEST(ExpertLayout, FollowsAPlansPlacementAndCounts) {
    const ExpertLayout in_order = ExpertLayout::of({}, 6, 3);
    EXPECT_THAT(in_order.counts(3), ElementsAre(2, 2, 2));
    EXPECT_TRUE(in_order.holds(3, 1));
    EXPECT_FALSE(in_order.holds(3, 0));
    const ExpertLayout placed = ExpertLayout::of({2, 2, 1, 1, 0, 0}, 6, 3);
    EXPECT_THAT(rankLoads({1, 2, 3, 4, 5, 6}, placed, 3), ElementsAre(11, 7, 3));
    EXPECT_DOUBLE_EQ(loadImbalance({1, 2, 3, 4, 5, 6}, placed, 3), 11.0 / 7.0);
}

TEST(Climb, OneRowEndsWhereNoSwapHelpsAndNearTheBestOfAll) {
    std::mt19937 random(11);
    int optimal = 0, trials = 0;
    double worst = 1.0;
    for (const auto& [experts, ep] : {std::pair{6, 2}, {6, 3}, {8, 4}, {8, 2}, {9, 3}})
        for (int trial = 0; trial < 60; ++trial) {
            const std::vector<ExpertLoads> rows{
                randomLoads(random, static_cast<std::size_t>(experts))};
            const ExpertLayout start = ExpertLayout::of({}, experts, ep);
            const ClimbResult result = climb(rows, start, ep, 100);
            EXPECT_EQ(result.layout.counts(ep), start.counts(ep));
            const double now = hottestSum(rows, result.layout, ep);
            EXPECT_LE(now, hottestSum(rows, start, ep) + 1e-12);
            forEachNeighbour(result.layout, [&](const ExpertLayout& next) {
                EXPECT_GE(hottestSum(rows, next, ep), now - 1e-9);
            });
            const double best = bestOfAll(rows, start, ep);
            EXPECT_GE(now, best - 1e-9);
            worst = std::max(worst, now / best);
            optimal += now < best + 1e-9 ? 1 : 0;
            ++trials;
        }
    EXPECT_GE(optimal * 3, trials * 2) << optimal << " of " << trials;
    EXPECT_LT(worst, 1.25);
}

TEST(Climb, SeveralRowsUnderOneLayoutLowerTheSumOfTheirHottestRanks) {
    std::mt19937 random(5);
    double before = 0.0, after = 0.0, best = 0.0;
    for (int trial = 0; trial < 60; ++trial) {
        std::vector<ExpertLoads> rows;
        for (int row = 0; row < 3; ++row) rows.push_back(randomLoads(random, 8));
        const ExpertLayout start = ExpertLayout::of({}, 8, 4);
        const ClimbResult result = climb(rows, start, 4, 100);
        const double now = hottestSum(rows, result.layout, 4);
        forEachNeighbour(result.layout, [&](const ExpertLayout& next) {
            EXPECT_GE(hottestSum(rows, next, 4), now - 1e-9) << trial;
        });
        before += hottestSum(rows, start, 4);
        after += now;
        best += bestOfAll(rows, start, 4);
    }
    EXPECT_GE(after, best - 1e-9);
    EXPECT_LT(after - best, 0.25 * (before - best)) << before << " " << after << " " << best;
}

TEST(Climb, StopsAtItsLimitAndLeavesABalancedLayout) {
    const ExpertLayout start = ExpertLayout::of({}, 4, 2);
    EXPECT_EQ(climb({{4, 3, 2, 1}}, start, 2, 0).layout, start);
    EXPECT_EQ(climb({{1, 1, 1, 1}}, start, 2, 10).swaps, 0);
    // 7 and 3: one swap of 3 and 1, or 4 and 2, makes 5 and 5.
    const ClimbResult one = climb({{4, 3, 2, 1}}, start, 2, 10);
    EXPECT_EQ(one.swaps, 1);
    EXPECT_DOUBLE_EQ(loadImbalance({4, 3, 2, 1}, one.layout, 2), 1.0);
    EXPECT_EQ(climb({}, start, 2, 10).layout, start);
    EXPECT_EQ(climb({{4, 3, 2, 1}}, ExpertLayout::of({}, 4, 1), 1, 10).swaps, 0);
}

TEST(Replicas, SplitTheHottestExpert) {
    // One expert takes six of ten rows: no swap helps, its second copy does.
    const ExpertLoads loads{6, 1, 1, 2};
    const ExpertLayout start = ExpertLayout::of({}, 4, 2);
    const ClimbResult alone = climb({loads}, start, 2, 10);
    EXPECT_DOUBLE_EQ(loadImbalance(loads, alone.layout, 2), 1.4);
    const ExpertLayout two = withReplicas({loads}, start, 2, 1);
    EXPECT_THAT(two.ranks[0], ElementsAre(0, 1));
    const ClimbResult climbed = climb({loads}, two, 2, 10);
    EXPECT_DOUBLE_EQ(loadImbalance(loads, climbed.layout, 2), 1.0);
    EXPECT_EQ(two.counts(2)[0] + two.counts(2)[1], 5);
}

TEST(Replicas, NeverTwiceOnARankAndEvenRoom) {
    std::mt19937 random(3);
    for (int trial = 0; trial < 50; ++trial) {
        const ExpertLoads loads = randomLoads(random, 8);
        const ExpertLayout start = ExpertLayout::of({}, 8, 4);
        for (const std::int64_t replicas : {1, 3, 4, 8, 24}) {
            const ExpertLayout layout = climbWithReplicas({loads}, start, 4, replicas, 100).layout;
            std::int64_t copies = 0;
            for (const std::vector<std::int64_t>& holders : layout.ranks) {
                EXPECT_TRUE(std::ranges::adjacent_find(holders) == holders.end());
                copies += static_cast<std::int64_t>(holders.size());
            }
            EXPECT_LE(copies, 8 + replicas);
            EXPECT_LE(std::ranges::max(layout.counts(4)), 2 + (replicas + 3) / 4);
            EXPECT_LE(loadImbalance(loads, layout, 4),
                      loadImbalance(loads, climb({loads}, start, 4, 100).layout, 4) + 1e-12);
        }
    }
}

TEST(Replicas, NearTheBestOfAllLayoutsOfTheSameCopies) {
    std::mt19937 random(9);
    double worst = 1.0;
    for (int trial = 0; trial < 40; ++trial) {
        const std::vector<ExpertLoads> rows{randomLoads(random, 6)};
        const ExpertLayout more = withReplicas(rows, ExpertLayout::of({}, 6, 3), 3, 3);
        const double now = hottestSum(rows, climb(rows, more, 3, 100).layout, 3);
        const double best = bestOfAll(rows, more, 3);
        EXPECT_GE(now, best - 1e-9) << trial;
        worst = std::max(worst, now / best);
    }
    EXPECT_LT(worst, 1.2);
}

}  // namespace
}  // namespace piper
