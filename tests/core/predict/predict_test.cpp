// SPDX-License-Identifier: Apache-2.0
#include "core/predict/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/json.h"
#include "core/run/run.h"
#include "core/schedule/schedule.h"
#include "core/schedule/simulate.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::HasSubstr;

/// Mixtral 8x7B on 8 nodes of 8 H100: pp 4, ep 8, dp 16.
Plan mixtral() {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 8, 4096, 512);
    plan.layout.pp = 4;
    plan.layout.ep = 8;
    plan.layout.dp = 16;
    plan.zero_stage = 1;
    return plan;
}

Prediction predicted(const Plan& plan, PredictMode mode = PredictMode::Simulated) {
    Result<Prediction> out = predict(plan, mode);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

double shareOf(const Prediction& p, BottleneckKind kind) {
    return std::ranges::find(p.bottlenecks, kind, &Bottleneck::kind)->share_of_step;
}

TEST(Predict, MfuIsModelFlopsOverDevicesPeakAndStep) {
    const Plan plan = mixtral();
    const Prediction p = predicted(plan);
    const double flops = modelFlopsPerToken(plan.model, 4096).total().value * 512 * 4096;
    EXPECT_NEAR(p.mfu,
                flops / (p.step.value * 64 * plan.cluster.device.peak.at(Precision::Bf16).value),
                1e-12);
    EXPECT_NEAR(p.tokens_per_second_per_device, 512 * 4096 / p.step.value / 64, 1e-6);
    EXPECT_GT(p.mfu, 0.15);
    EXPECT_LT(p.mfu, 0.65);
    EXPECT_DOUBLE_EQ(p.hfu, p.mfu);
}

TEST(Predict, WithPostValidationAStepIsTheLongestRanksOwnSpan) {
    Plan plan = mixtral();
    plan.schedule = ScheduleKind::ZbH2;
    const Prediction waits = predicted(plan);
    const Prediction waits_closed = predicted(plan, PredictMode::ClosedForm);
    plan.optimizer.post_validation = true;
    const Result<Schedule> schedule = buildSchedule(plan);
    ASSERT_TRUE(schedule.ok()) << schedule.error().text();
    const Result<Simulation> played = simulate(plan, *schedule, CostModel(plan));
    ASSERT_TRUE(played.ok()) << played.error().text();
    std::int64_t longest = 0;
    for (std::size_t s = 0; s < played->stages.size(); ++s) {
        std::int64_t first = std::ranges::max(played->stages[s].end_ns);
        for (const Operation& op : schedule->stages[s].operations)
            if (op.key.kind != OperationKind::Receive)
                first =
                    std::min(first, played->stages[s].start_ns[static_cast<std::size_t>(op.id)]);
        longest = std::max(longest, std::ranges::max(played->stages[s].end_ns) - first);
    }
    EXPECT_EQ(played->step_ns, longest);
    const Prediction own = predicted(plan);
    EXPECT_EQ(inNs(own.step), longest);
    EXPECT_LT(own.step, waits.step);
    EXPECT_LT(own.bubble_fraction, waits.bubble_fraction);
    EXPECT_LT(predicted(plan, PredictMode::ClosedForm).step, waits_closed.step);
}

TEST(Predict, RecomputeCostsTimeSavesMemoryAndRaisesHfuOverMfu) {
    Plan plan = mixtral();
    const Prediction kept = predicted(plan);
    plan.recompute.granularity = RecomputeGranularity::Full;
    const Prediction again = predicted(plan);
    EXPECT_GT(again.step, kept.step);
    EXPECT_LT(again.memory.peak, kept.memory.peak);
    // A forward again on three passes: a third more, less the head and what is not GEMM.
    EXPECT_GT(again.hfu / again.mfu, 1.25);
    EXPECT_LT(again.hfu / again.mfu, 1.34);
}

TEST(Predict, ListsEveryBrokenRuleAtOnce) {
    Plan plan = mixtral();
    plan.layout.pp = 5;
    plan.layout.ep = 3;
    const Result<Prediction> out = predict(plan);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, ErrorCode::RuleBroken);
    const std::size_t rules = validatePlan(plan).size();
    EXPECT_GE(rules, 2u);
    for (const Violation& violation : validatePlan(plan))
        EXPECT_THAT(out.error().text(), HasSubstr(violation.message));
}

TEST(Predict, VerdictFollowsTheCapacity) {
    Plan plan = mixtral();
    const Bytes peak = predicted(plan).memory.peak;
    plan.cluster.device.memory = peak * 1.2;
    EXPECT_EQ(predicted(plan).memory.verdict, FitVerdict::Fits);
    plan.cluster.device.memory = peak * 1.05;
    EXPECT_EQ(predicted(plan).memory.verdict, FitVerdict::Tight);
    plan.cluster.device.memory = peak * 0.9;
    const Prediction over = predicted(plan);
    EXPECT_EQ(over.memory.verdict, FitVerdict::DoesNotFit);
    EXPECT_EQ(over.memory.peak, peak);
    EXPECT_FALSE(over.memory.peak_operation.empty());
}

TEST(Predict, ClosedFormIsNearTheSimulation) {
    for (std::int64_t pp : {1, 2, 4, 8}) {
        Plan plan = mixtral();
        plan.layout.pp = pp;
        plan.layout.dp = 64 / pp;
        const double simulated = predicted(plan).step.value;
        EXPECT_NEAR(predicted(plan, PredictMode::ClosedForm).step.value / simulated, 1.0, 0.06)
            << "pp " << pp;
    }
}

TEST(Predict, BubbleFallsWithMicroBatches) {
    Plan plan = mixtral();
    double before = 1.0;
    for (std::int64_t batch : {64, 256, 1024}) {
        plan.global_batch_size = batch;
        const double bubble = predicted(plan).bubble_fraction;
        EXPECT_LT(bubble, before);
        before = bubble;
    }
}

TEST(Predict, BottlenecksAreOrderedAndFollowTheirCause) {
    Plan plan = mixtral();
    plan.layout.ep = 8;
    const Prediction p = predicted(plan);
    ASSERT_EQ(p.bottlenecks.size(), 9u);
    EXPECT_TRUE(
        std::ranges::is_sorted(p.bottlenecks, std::ranges::greater{}, &Bottleneck::share_of_step));
    for (const Bottleneck& b : p.bottlenecks) {
        EXPECT_GE(b.share_of_step, 0.0);
        EXPECT_LE(b.share_of_step, 1.0);
        EXPECT_NEAR(b.step_without_it.value, p.step.value * (1.0 - b.share_of_step), 1e-9);
    }
    EXPECT_FALSE(p.bottleneck_sentence.empty());

    Plan slow = plan;
    for (LinkLevel& level : slow.cluster.levels) {
        level.bandwidth *= 0.1;
        level.port_bandwidth *= 0.1;
    }
    EXPECT_GT(shareOf(predicted(slow), BottleneckKind::A2aBandwidth),
              2.0 * shareOf(p, BottleneckKind::A2aBandwidth));

    EXPECT_NEAR(shareOf(p, BottleneckKind::Imbalance), 0.0, 1e-9);
    Plan skewed = plan;
    skewed.routing_load.kind = RoutingLoadKind::Zipf;
    skewed.routing_load.zipf_exponent = 1.0;
    EXPECT_GT(shareOf(predicted(skewed), BottleneckKind::Imbalance), 0.1);
}

TEST(Predict, JsonHasTheDocumentedKeysAndOnlyNumbers) {
    const Plan plan = mixtral();
    const Json json = predictionJson(plan, predicted(plan));
    for (const char* key : {"step_seconds", "tokens_per_second_per_device", "model_flops_per_token",
                            "tflops_per_device", "mfu", "hfu", "bubble_fraction", "phase_seconds",
                            "exposed_seconds", "memory", "bottlenecks", "evidence"})
        EXPECT_TRUE(json.contains(key)) << key;
    for (const char* key : {"peak_bytes", "peak_stage", "peak_operation", "capacity_bytes",
                            "verdict", "terms", "stages"})
        EXPECT_TRUE(json["memory"].contains(key)) << key;
    EXPECT_EQ(json["memory"]["stages"].size(), 4u);
    EXPECT_EQ(json["phase_seconds"].size(), kNumPhases);
    for (const char* key : {"kind", "share_of_step", "step_seconds_without_it"})
        EXPECT_TRUE(json["bottlenecks"][0].contains(key)) << key;
    const std::string text = json.dump();
    EXPECT_EQ(text.find("null"), std::string::npos);
    EXPECT_TRUE(json["evidence"].contains("step_seconds"));
    EXPECT_LE(json["evidence"]["step_seconds"]["low"], json["step_seconds"]);
    EXPECT_GE(json["evidence"]["step_seconds"]["high"], json["step_seconds"]);
    double terms = 0.0;
    for (const auto& [term, bytes] : json["memory"]["terms"].items()) terms += bytes.get<double>();
    EXPECT_NEAR(terms, json["memory"]["peak_bytes"].get<double>(), 100.0);
}

TEST(PredictRun, TheTimelineEndsWithTheStep) {
    const Plan plan = test::tinyPlan(2, 2, 2, 4);
    const Result<PredictedRun> out = predictRun(plan, true, 1);
    ASSERT_TRUE(out.ok()) << out.error().text();
    EXPECT_EQ(out->run.ranks.size(), 4u);
    EXPECT_EQ(out->run.ranks[0].steps[0].end_ns, inNs(out->prediction.step));
    EXPECT_FALSE(out->run.plan_json.empty());
    Plan broken = plan;
    broken.layout.ep = 7;
    EXPECT_FALSE(predictRun(broken, true).ok());
}

}  // namespace
}  // namespace piper
