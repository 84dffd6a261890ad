// SPDX-License-Identifier: Apache-2.0
// One constructed plan for each kind of bottleneck, in which that kind must be the largest loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/predict/predict.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

struct BottleneckCase {
    std::string name;
    BottleneckKind kind;
    std::function<Plan()> plan;
    std::string says;  ///< in its sentence
};

void links(Plan& plan, double bandwidth, Seconds latency) {
    for (LinkLevel& level : plan.cluster.levels) {
        level.bandwidth *= bandwidth;
        level.port_bandwidth *= bandwidth;
        level.latency = latency;
    }
}

/// 128 experts, top 8, on 8 nodes of 8 H100, one expert group over all of them.
Plan manyExperts(std::int64_t seq_len, std::int64_t batch) {
    Plan plan = test::h100Plan("configs/Qwen3-30B-A3B.json", 8, seq_len, batch);
    plan.layout.ep = 64;
    plan.layout.dp = 64;
    plan.zero_stage = 1;
    return plan;
}

/// Mixtral 8x7B on one node of 8 H100: experts spread, everything else replicated.
Plan oneNode(std::int64_t seq_len, std::int64_t batch) {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, seq_len, batch);
    plan.layout.ep = 8;
    plan.layout.dp = 8;
    return plan;
}

const BottleneckCase kCases[] = {
    {"ManySmallMessages", BottleneckKind::A2aLatency,
     [] {
         Plan plan = manyExperts(256, 64 * 16);
         links(plan, 10.0, microseconds(100));
         return plan;
     },
     "latency"},
    {"SlowLinks", BottleneckKind::A2aBandwidth,
     [] {
         Plan plan = manyExperts(4096, 64 * 16);
         links(plan, 0.1, microseconds(1));
         return plan;
     },
     "bytes of dispatch and combine"},
    {"TensorParallelOverSlowLinks", BottleneckKind::ExposedComm,
     [] {
         Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, 4096, 16);
         plan.layout.tp = 8;
         plan.layout.etp = 8;
         links(plan, 0.05, microseconds(1));
         return plan;
     },
     "no compute hides"},
    {"ThinExperts", BottleneckKind::SkinnyGemm,
     [] {
         // 1024 experts of width 64 with a row or two each.
         Plan plan = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 1024, 64);
         plan.cluster.devices_per_node = 1;
         plan.model.moe->num_experts = 1024;
         plan.model.moe->router_topk = 1;
         plan.model.moe->moe_ffn_hidden_size = 64;
         return plan;
     },
     "too small"},
    {"HotExperts", BottleneckKind::Imbalance,
     [] {
         Plan plan = oneNode(4096, 8 * 16);
         plan.routing_load.kind = RoutingLoadKind::Zipf;
         plan.routing_load.zipf_exponent = 2.0;
         links(plan, 4.0, microseconds(1));
         return plan;
     },
     "hottest"},
    {"OptimizerAfterEverySentence", BottleneckKind::Hbm,
     [] {
         Plan plan = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 512, 1);
         plan.cluster.devices_per_node = 1;
         plan.cluster.device.memory_bandwidth *= 0.25;
         return plan;
     },
     "memory-bound"},
    {"FewMicroBatches", BottleneckKind::Bubble,
     [] {
         Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, 4096, 2);
         plan.layout.pp = 8;
         return plan;
     },
     "bubble"},
    {"ExpertsAcrossNodesThoughReplicasCould", BottleneckKind::Placement,
     [] {
         Plan plan = test::h100Plan("configs/Qwen3-30B-A3B.json", 8, 4096, 64 * 16);
         plan.layout.ep = 8;
         plan.layout.dp = 64;
         plan.zero_stage = 1;
         plan.rank_order = "tp-cp-dp-ep-pp";
         links(plan, 1.0, microseconds(1));
         plan.cluster.levels.back().bandwidth *= 0.2;
         plan.cluster.levels.back().port_bandwidth *= 0.2;
         return plan;
     },
     "rank_order=tp-cp-ep-dp-pp"},
    {"LargeDenseGemms", BottleneckKind::Compute,
     [] {
         Plan plan = oneNode(4096, 8 * 32);
         plan.micro_batch_size = 4;
         links(plan, 4.0, microseconds(1));
         return plan;
     },
     "large GEMMs"},
};

class BottleneckCases : public ::testing::TestWithParam<BottleneckCase> {};

TEST_P(BottleneckCases, ComesFirst) {
    const BottleneckCase& c = GetParam();
    const Plan plan = c.plan();
    const Result<Prediction> p = predict(plan);
    ASSERT_TRUE(p.ok()) << p.error().text();
    ASSERT_EQ(p->bottlenecks.size(), 9u);
    std::string all;
    for (const Bottleneck& b : p->bottlenecks)
        all += fmt::format("{} {:.3f}\n", toText(b.kind), b.share_of_step);
    const Bottleneck& first = p->bottlenecks.front();
    EXPECT_EQ(first.kind, c.kind) << all;
    EXPECT_NE(first.sentence.find(c.says), std::string::npos) << first.sentence;
    for (const Bottleneck& b : p->bottlenecks) {
        EXPECT_GE(b.share_of_step, 0.0) << all;
        EXPECT_LE(b.share_of_step, 1.0) << all;
        EXPECT_NEAR(b.step_without_it.value, p->step.value * (1.0 - b.share_of_step),
                    1e-6 * p->step.value);
        EXPECT_EQ(b.remedy.empty(),
                  b.kind != BottleneckKind::Placement || c.kind != BottleneckKind::Placement)
            << b.sentence;
    }
    if (c.kind != BottleneckKind::Compute) {
        EXPECT_NE(p->bottleneck_sentence.find(c.says), std::string::npos);
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BottleneckCases, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<BottleneckCase>& info) {
                             return info.param.name;
                         });

TEST(BottleneckCases, TheOfferedRankOrderIsAsFastAsSaid) {
    const Plan plan = kCases[7].plan();
    const Result<Prediction> p = predict(plan);
    ASSERT_TRUE(p.ok()) << p.error().text();
    const Bottleneck& first = p->bottlenecks.front();
    Plan moved = plan;
    moved.rank_order = first.remedy.substr(first.remedy.find('=') + 1);
    const Result<Prediction> after = predict(moved);
    ASSERT_TRUE(after.ok()) << after.error().text();
    EXPECT_NEAR(after->step.value, first.step_without_it.value, 0.02 * p->step.value);
    const auto left =
        std::ranges::find(after->bottlenecks, BottleneckKind::Placement, &Bottleneck::kind);
    EXPECT_LT(left->share_of_step, 0.01);
}

}  // namespace
}  // namespace piper
