// SPDX-License-Identifier: Apache-2.0
#include "core/search/sensitivity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/search/cluster_change.h"
#include "core/search/enumerate.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Two nodes; the ep degree and the replicas are open, so that experts may stay inside a node.
SearchSpace twoNodes() {
    SearchSpace space;
    space.base = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 2, 2048, 128);
    space.base.zero_stage = 1;
    space.fixed = {"tp",        "pp",      "micro_batch_size", "zero_stage", "schedule",
                   "recompute", "offload", "rank_order",       "chunks",     "algorithm",
                   "cp",        "etp"};
    space.base.micro_batch_size = 4;
    return space;
}

SensitivityCurve curveOf(const SearchSpace& space, SensitivityKnob knob,
                         std::vector<double> values) {
    Result<SensitivityCurve> out = sensitivity(space, {knob, "", std::move(values)}, {});
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

TEST(Sensitivity, ASlowNetworkTurnsExpertParallelIntoDataParallel) {
    SearchSpace space = twoNodes();
    // Replicating all experts on every node takes memory: with plenty of network the experts are
    // spread over both, for their gradients need not be reduced then.
    space.base.cluster.device.memory = gib(40);
    const std::vector<double> factors{16.0, 4.0, 1.0, 0.25, 0.0625, 0.015625};
    const SensitivityCurve curve = curveOf(space, SensitivityKnob::Link, factors);
    ASSERT_EQ(curve.points.size(), factors.size());
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
        const SensitivityPoint& p = curve.points[i];
        ASSERT_TRUE(p.best) << p.setting;
        // The point is what a search on that very cluster finds.
        SearchSpace there = space;
        there.base.cluster = withLinks(space.base.cluster, true, factors[i]);
        const SearchResult found = searchPlans(there, sequentialFor()).value();
        EXPECT_EQ(layoutText(found.plans.front().plan), layoutText(p.best->plan));
        ASSERT_TRUE(p.held_step);
        EXPECT_LE(p.best->prediction.step.value, p.held_step->value * (1.0 + 1e-9));
        if (i == 0) continue;
        EXPECT_GE(p.best->prediction.step.value,
                  curve.points[i - 1].best->prediction.step.value * (1.0 - 1e-9))
            << "a slower network never helps";
        EXPECT_LE(p.nodes_of_ep, curve.points[i - 1].nodes_of_ep);
    }
    EXPECT_GT(curve.points.front().nodes_of_ep, 1);
    EXPECT_EQ(curve.points.back().nodes_of_ep, 1);
    EXPECT_THAT(expertTurn(curve), HasSubstr("gives way to ep"));
    EXPECT_GT(curve.points.back().best->plan.layout.edp(), 1);
}

TEST(Sensitivity, SaysWhereTheTurnIs) {
    SensitivityCurve curve;
    for (const auto& [ep, nodes, share] :
         {std::tuple{16, 2, 0.3}, std::tuple{16, 2, 0.5}, std::tuple{8, 1, 0.1}}) {
        SensitivityPoint point;
        point.setting = fmt::format("ib {}", curve.points.size());
        point.best = RankedPlan{twoNodes().base, {}};
        point.best->plan.layout.dp = 16;
        point.best->plan.layout.ep = ep;
        point.nodes_of_ep = nodes;
        point.exposed_share = share;
        curve.points.push_back(std::move(point));
    }
    EXPECT_EQ(curve.turns(), (std::vector<std::size_t>{2}));
    EXPECT_EQ(expertTurn(curve),
              "at ib 2 ep 16 over 2 nodes gives way to ep 8 over 1 with edp 2 (was 1): the "
              "exchange stood 50 % of the step in sight before, 10 % after");
    curve.points.pop_back();
    EXPECT_TRUE(expertTurn(curve).empty());
    EXPECT_TRUE(sensitivityJson(curve).at("expert_parallel_turn").is_null());
}

TEST(Sensitivity, MemorySkewAndBatch) {
    const SearchSpace space = twoNodes();
    const SensitivityCurve memory = curveOf(space, SensitivityKnob::Memory, {1.0, 0.5, 0.02});
    EXPECT_TRUE(memory.points[0].best);
    EXPECT_FALSE(memory.points[2].best);
    EXPECT_FALSE(memory.points[2].held_step);
    EXPECT_EQ(memory.points[2].shortfall.rule, "memory");
    EXPECT_THAT(memory.points[1].setting, HasSubstr("40.0 GiB"));
    const SensitivityCurve skew = curveOf(space, SensitivityKnob::RoutingSkew, {0.0, 0.5, 1.0});
    EXPECT_LT(skew.points[0].best->prediction.step, skew.points[1].best->prediction.step);
    EXPECT_LE(skew.points[1].best->prediction.step, skew.points[2].best->prediction.step);
    EXPECT_LT(*skew.points[1].held_step, *skew.points[2].held_step);
    EXPECT_LT(skew.points[2].best->plan.layout.ep, skew.points[0].best->plan.layout.ep)
        << "fewer ranks share the hot experts";
    const SensitivityCurve batch = curveOf(space, SensitivityKnob::GlobalBatch, {0.5, 1.0, 2.0});
    EXPECT_EQ(batch.points[2].best->plan.global_batch_size, 256);
    EXPECT_EQ(batch.points[2].setting, "global batch 256");
    EXPECT_GE(batch.points[2].best->prediction.mfu, batch.points[0].best->prediction.mfu);
    EXPECT_EQ(sensitivityJson(batch).at("points").size(), 3U);
}

TEST(Sensitivity, RefusesWhatMakesNoSense) {
    const SearchSpace space = twoNodes();
    const auto error = [&](const SensitivityQuestion& question) {
        const Result<SensitivityCurve> out = sensitivity(space, question, {});
        return out.ok() ? std::string() : out.error().text();
    };
    EXPECT_THAT(error({SensitivityKnob::Link, "", {}}), HasSubstr("no values"));
    EXPECT_THAT(error({SensitivityKnob::Link, "", {0.0}}), HasSubstr("above 0"));
    EXPECT_THAT(error({SensitivityKnob::RoutingSkew, "", {-1.0}}), HasSubstr("0 or more"));
    EXPECT_THAT(error({SensitivityKnob::Link, "token ring", {1.0}}),
                HasSubstr("no link level 'token ring'"));
    EXPECT_THAT(error({SensitivityKnob::GlobalBatch, "", {0.001}}), HasSubstr("has none"));
}

TEST(Sensitivity, OneNodeHasNoNetworkToVary) {
    SearchSpace space = twoNodes();
    space.base.cluster = defaultCluster("H100 SXM", 1).value();
    const SensitivityQuestion network{SensitivityKnob::Link, "", {1.0, 0.5}};
    const std::string inside = space.base.cluster.levels.front().name;
    EXPECT_THAT(sensitivity(space, network, {}).error().text(),
                AllOf(HasSubstr("no link that joins nodes"), HasSubstr("--level): " + inside)));
    const SensitivityCurve curve =
        sensitivity(space, {SensitivityKnob::Link, inside, {1.0, 0.5}}, {}).value();
    EXPECT_EQ(curve.points[0].setting,
              inside + " " + humanBytesPerSecond(space.base.cluster.levels.front().bandwidth));
    EXPECT_NE(curve.points[0].setting, curve.points[1].setting);
    space.base.cluster.levels.clear();
    EXPECT_THAT(sensitivity(space, network, {}).error().text(),
                HasSubstr("no link that joins nodes"));
}

}  // namespace
}  // namespace piper
