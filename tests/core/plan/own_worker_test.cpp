// SPDX-License-Identifier: Apache-2.0
#include "core/plan/own_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/plan/plans.h"

namespace piper {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Eight ep ranks on `nodes` nodes, sixteen experts, top-4.
Plan spread(std::int64_t nodes) {
    Plan plan = test::plan("olmoe-tiny");
    plan.model.moe->num_experts = 16;
    plan.model.moe->router_topk = 4;
    plan.layout = {};
    plan.layout.dp = plan.layout.ep = 8;
    plan.cluster.nodes = nodes;
    plan.cluster.devices_per_node = 8 / nodes;
    return plan;
}

TEST(OwnWorker, ANodeLimitCountsTheExpertsOfNodesNotOfRanks) {
    Plan plan = spread(1);
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
    plan.all_to_all.node_limit = 1;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty()) << "one node: no limit";
    plan = spread(2);
    plan.all_to_all.node_limit = 1;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty()) << "eight experts a node";
    plan = spread(8);
    plan.all_to_all.node_limit = 1;
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("1 nodes may hold 2 experts only")));
    plan.all_to_all.node_limit = 2;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
}

TEST(OwnWorker, ANodeLimitGoesByTheNodesWithFewestExperts) {
    Plan plan = spread(2);
    plan.all_to_all.node_limit = 1;
    plan.model.moe->router_topk = 9;
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("hold 8 experts only")));
    // ep outside dp: its ranks are four apart, two of them on each of the two nodes.
    plan.layout.ep = 2;
    plan.rank_order = "tp-cp-dp-ep-pp";
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("hold 8 experts only")));
    // Inside dp both lie on one node.
    plan.rank_order = "tp-cp-ep-dp-pp";
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
}

TEST(OwnWorker, BrokenPlansAreJudgedToo) {
    Plan plan = spread(8);
    plan.all_to_all.node_limit = 1;
    plan.rank_order = "tp-cp";
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
    plan = spread(8);
    plan.all_to_all.node_limit = 1;
    plan.expert_placement.assign(16, 9);
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("expert_placement")));
}

TEST(OwnWorker, ANodeLimitAndGroupsTogetherAreRefused) {
    Plan plan = spread(2);
    plan.model.moe->num_groups = 4;
    plan.model.moe->topk_groups = 2;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
    plan.all_to_all.node_limit = 1;
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("2 of 4 groups")));
    plan.model.moe->topk_groups = 4;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty()) << "all groups: no limit";
}

TEST(OwnWorker, AVocabularyBelowTheBytesIsRefused) {
    Plan plan = spread(1);
    plan.model.vocab_size = 255;
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("vocab_size 255")));
    plan.model.vocab_size = 256;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
}

TEST(OwnWorker, ASequenceBeyondTheLearnedPositionsIsRefused) {
    Plan plan = spread(1);
    plan.model.position = PositionKind::Learned;
    plan.model.max_position_embeddings = plan.seq_len;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
    plan.model.max_position_embeddings = plan.seq_len - 1;
    EXPECT_THAT(unsupportedParts(plan), ElementsAre(HasSubstr("max_position_embeddings")));
    plan.model.position = PositionKind::Rotary;
    EXPECT_THAT(unsupportedParts(plan), IsEmpty());
}

}  // namespace
}  // namespace piper
