// SPDX-License-Identifier: Apache-2.0
// Memberships worked out by hand.
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

std::vector<int> group(const ProcessGrid& grid, int rank, std::string_view dimension) {
    std::vector<int> out;
    for (const RankId r : grid.group(RankId(rank), dimension)) out.push_back(r.value);
    return out;
}

using Ranks = std::vector<int>;

TEST(Grid, TensorFastestPipelineSlowest) {
    // 16 ranks: tp 2, dp 4, pp 2; experts: etp 1, ep 4, edp 2.
    Layout l;
    l.tp = 2;
    l.pp = 2;
    l.dp = 4;
    l.ep = 4;
    const ProcessGrid grid(l);
    EXPECT_EQ(grid.world(), 16);
    EXPECT_EQ(group(grid, 5, "tp"), (Ranks{4, 5}));
    EXPECT_EQ(group(grid, 5, "dp"), (Ranks{1, 3, 5, 7}));
    EXPECT_EQ(group(grid, 5, "pp"), (Ranks{5, 13}));
    EXPECT_EQ(group(grid, 5, "ep"), (Ranks{4, 5, 6, 7}));
    EXPECT_EQ(group(grid, 5, "edp"), (Ranks{1, 5}));
    EXPECT_EQ(group(grid, 5, "etp"), (Ranks{5}));
    const RankCoordinates c = grid.coordinates(RankId(13));
    EXPECT_EQ(c.tp, 1);
    EXPECT_EQ(c.dp, 2);
    EXPECT_EQ(c.pp, 1);
    EXPECT_EQ(c.ep, 1);
    EXPECT_EQ(c.edp, 1);
}

TEST(Grid, ExpertTensorParallelism) {
    // 8 ranks of one stage: tp 4, dp 2; experts: etp 2, ep 2, edp 2.
    Layout l;
    l.tp = 4;
    l.dp = 2;
    l.etp = 2;
    l.ep = 2;
    const ProcessGrid grid(l);
    EXPECT_EQ(group(grid, 6, "etp"), (Ranks{6, 7}));
    EXPECT_EQ(group(grid, 6, "ep"), (Ranks{4, 6}));
    EXPECT_EQ(group(grid, 6, "edp"), (Ranks{2, 6}));
    EXPECT_EQ(group(grid, 6, "tp"), (Ranks{4, 5, 6, 7}));
    EXPECT_EQ(group(grid, 6, "dp"), (Ranks{2, 6}));
}

TEST(Grid, DataBeforeExpertsPacksReplicasOfAnExpert) {
    // DP-first: replicas of one expert are neighbours. 8 ranks, ep 4, edp 2.
    Layout l;
    l.dp = 8;
    l.ep = 4;
    const ProcessGrid ep_first(l, "tp-cp-ep-dp-pp");
    EXPECT_EQ(group(ep_first, 0, "ep"), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(group(ep_first, 0, "edp"), (Ranks{0, 4}));
    const ProcessGrid dp_first(l, "tp-cp-dp-ep-pp");
    EXPECT_EQ(group(dp_first, 0, "ep"), (Ranks{0, 2, 4, 6}));
    EXPECT_EQ(group(dp_first, 0, "edp"), (Ranks{0, 1}));
    EXPECT_EQ(group(dp_first, 3, "dp"), (Ranks{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Grid, ContextRanksLieInsideTheExpertGroups) {
    // 8 ranks: cp 2, dp 4; ep 8 runs over both.
    Layout l;
    l.cp = 2;
    l.dp = 4;
    l.ep = 8;
    const ProcessGrid grid(l);
    EXPECT_EQ(group(grid, 3, "cp"), (Ranks{2, 3}));
    EXPECT_EQ(group(grid, 3, "dp"), (Ranks{1, 3, 5, 7}));
    EXPECT_EQ(group(grid, 3, "ep").size(), 8u);
}

TEST(Grid, PipelineFastest) {
    Layout l;
    l.pp = 2;
    l.dp = 4;
    l.ep = 4;
    const ProcessGrid grid(l, "pp-tp-cp-ep-dp");
    EXPECT_EQ(group(grid, 2, "pp"), (Ranks{2, 3}));
    EXPECT_EQ(group(grid, 2, "ep"), (Ranks{0, 2, 4, 6}));
}

TEST(Grid, GroupsOfEveryDimensionPartitionTheWorld) {
    Layout l;
    l.tp = 2;
    l.cp = 2;
    l.pp = 3;
    l.dp = 4;
    l.ep = 8;
    l.etp = 2;
    for (const char* order : {"tp-cp-ep-dp-pp", "cp-tp-dp-ep-pp", "dp-ep-tp-cp-pp"}) {
        const ProcessGrid grid(l, order);
        for (const char* dimension : {"tp", "cp", "dp", "pp", "ep", "etp", "edp"}) {
            std::vector<int> seen(static_cast<std::size_t>(grid.world()), 0);
            for (std::int32_t r = 0; r < grid.world(); ++r) {
                const std::vector<RankId> members = grid.group(RankId(r), dimension);
                EXPECT_NE(std::find(members.begin(), members.end(), RankId(r)), members.end());
                if (members.front() == RankId(r))
                    for (const RankId m : members) ++seen[m.index()];
            }
            EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }))
                << order << " " << dimension;
        }
    }
}

TEST(Grid, RankOrderTokens) {
    EXPECT_TRUE(parseRankOrder("ep-dp-tp-cp-pp").ok());
    const auto message = [](std::string_view order) {
        const auto r = parseRankOrder(order);
        return r.ok() ? std::string() : r.error().message;
    };
    EXPECT_NE(message("tp-cp-ep-dp-px").find("'px'"), std::string::npos);
    EXPECT_NE(message("tp-cp-ep-dp").find("lacks 'pp'"), std::string::npos);
    EXPECT_NE(message("tp-cp-ep-tp-pp").find("'tp' twice"), std::string::npos);
    EXPECT_FALSE(message("").empty());
}

}  // namespace
}  // namespace piper
