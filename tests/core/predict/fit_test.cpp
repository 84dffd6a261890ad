// SPDX-License-Identifier: Apache-2.0
#include "core/predict/fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/json.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

/// Mixtral 8x7B on 8 nodes of 8 H100: pp 4, ep 8, dp 16, two sequences a micro-batch.
Plan mixtral() {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 8, 4096, 512);
    plan.layout.pp = 4;
    plan.layout.ep = 8;
    plan.layout.dp = 16;
    plan.micro_batch_size = 2;
    plan.zero_stage = 1;
    return plan;
}

bool holds(Plan plan, Bytes capacity) {
    plan.cluster.device.memory = capacity;
    const Result<Prediction> p = predict(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : p.error().text());
    return p.ok() && p->memory.verdict != FitVerdict::DoesNotFit;
}

/// The smallest capacity that holds the plan.
Bytes need(const Plan& plan) {
    double low = 0.0, high = gib(4096).value;
    for (int i = 0; i < 40; ++i)
        (holds(plan, Bytes(0.5 * (low + high))) ? high : low) = 0.5 * (low + high);
    return Bytes(high);
}

std::vector<FitChange> changesAt(Plan plan, Bytes capacity) {
    plan.cluster.device.memory = capacity;
    return smallestChanges(plan);
}

const FitChange* find(const std::vector<FitChange>& changes, FitChangeKind kind) {
    const auto found = std::ranges::find(changes, kind, &FitChange::kind);
    return found == changes.end() ? nullptr : &*found;
}

TEST(Fit, NothingIsOfferedWhereThePlanFits) {
    EXPECT_TRUE(changesAt(mixtral(), need(mixtral()) * 2.0).empty());
}

TEST(Fit, EveryOfferIsAPlanThatRunsAndFitsAsItSays) {
    const Plan plan = mixtral();
    for (const double share : {0.95, 0.8, 0.6, 0.4}) {
        const std::vector<FitChange> changes = changesAt(plan, need(plan) * share);
        ASSERT_FALSE(changes.empty()) << share;
        EXPECT_TRUE(std::ranges::is_sorted(changes, {}, &FitChange::kind));
        for (const FitChange& change : changes) {
            EXPECT_TRUE(validatePlan(change.plan).empty()) << change.change;
            const Result<Prediction> p =
                predict(change.plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
            ASSERT_TRUE(p.ok());
            EXPECT_EQ(p->memory.peak, change.peak) << change.change;
            EXPECT_EQ(p->memory.verdict, change.verdict);
            EXPECT_NE(change.verdict, FitVerdict::DoesNotFit) << change.change;
            EXPECT_EQ(p->step, change.step);
            EXPECT_FALSE(change.settings.empty());
            // Training stays the same: the batch is not touched.
            EXPECT_EQ(change.plan.global_batch_size, plan.global_batch_size);
            EXPECT_EQ(change.plan.seq_len, plan.seq_len);
            if (change.kind != FitChangeKind::MoreDevices) {
                EXPECT_EQ(change.devices, plan.layout.world());
            }
        }
    }
}

TEST(Fit, ALittleOverIsMendedByRecomputingCheapModules) {
    const Plan plan = mixtral();
    const std::vector<FitChange> changes = changesAt(plan, need(plan) * 0.98);
    ASSERT_FALSE(changes.empty());
    EXPECT_EQ(changes.front().kind, FitChangeKind::RecomputeModules);
    EXPECT_EQ(changes.front().plan.recompute.granularity, RecomputeGranularity::Selective);
    EXPECT_NE(fitSentence(changes).find("recompute layernorm"), std::string::npos)
        << fitSentence(changes);
}

TEST(Fit, PartOfTheLayersIsRecomputedBeforeAllAre) {
    const Plan plan = mixtral();
    Plan full = plan;
    full.recompute.granularity = RecomputeGranularity::Full;
    const Bytes between = Bytes(0.5 * (need(plan).value + need(full).value));
    const std::vector<FitChange> changes = changesAt(plan, between * 1.15);
    const FitChange* change = find(changes, FitChangeKind::RecomputeFull);
    ASSERT_NE(change, nullptr);
    EXPECT_GT(change->plan.recompute.num_layers, 0);
    EXPECT_LT(change->plan.recompute.num_layers, 8);
}

TEST(Fit, SmallerMicroBatchKeepsTheBatch) {
    Plan plan = mixtral();
    plan.micro_batch_size = 4;
    Plan smaller = plan;
    smaller.micro_batch_size = 2;
    const std::vector<FitChange> changes = changesAt(plan, need(smaller) * 1.2);
    const FitChange* change = find(changes, FitChangeKind::MicroBatch);
    ASSERT_NE(change, nullptr);
    EXPECT_EQ(change->plan.micro_batch_size, 2);
    EXPECT_EQ(change->plan.numMicroBatches(), 16);
}

TEST(Fit, StateThatIsTooLargeIsShardedOrMovedOut) {
    Plan plan = mixtral();
    plan.zero_stage = 0;
    plan.micro_batch_size = 1;
    Plan sharded = plan;
    sharded.zero_stage = 1;
    const std::vector<FitChange> changes = changesAt(plan, need(sharded) * 1.15);
    const FitChange* zero = find(changes, FitChangeKind::ZeroStage);
    ASSERT_NE(zero, nullptr);
    EXPECT_EQ(zero->plan.zero_stage, 1);
    const FitChange* moved = find(changes, FitChangeKind::Offload);
    ASSERT_NE(moved, nullptr);
    EXPECT_TRUE(moved->plan.offload.optimizer);
}

TEST(Fit, ExpertsTooManyForADeviceAreSpreadFurther) {
    // MiMo-V2-Flash's kind of fault (case M01): experts of one rank alone are more than a device.
    Plan plan = test::h100Plan("configs/DeepSeek-V3.json", 64, 4096, 512);
    plan.framework = Framework::Megatron;
    plan.layout.ep = 8;
    plan.layout.dp = 512;
    plan.zero_stage = 1;
    plan.recompute.granularity = RecomputeGranularity::Full;
    const std::vector<FitChange> changes = smallestChanges(plan);
    ASSERT_FALSE(changes.empty());
    const FitChange* change = find(changes, FitChangeKind::Layout);
    ASSERT_NE(change, nullptr) << fitSentence(changes);
    const Layout& l = change->plan.layout;
    EXPECT_GT(l.ep * l.etp * l.pp, 8);
    EXPECT_EQ(find(changes, FitChangeKind::MicroBatch), nullptr);
}

TEST(Fit, MoreDevicesComeLast) {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, 4096, 64);
    plan.layout.ep = 8;
    plan.layout.dp = 8;
    plan.zero_stage = 3;
    plan.recompute.granularity = RecomputeGranularity::Full;
    plan.offload.optimizer = true;
    plan.cluster.device.memory = gib(14);
    const std::vector<FitChange> changes = smallestChanges(plan);
    ASSERT_FALSE(changes.empty());
    const FitChange& last = changes.back();
    EXPECT_EQ(last.kind, FitChangeKind::MoreDevices);
    EXPECT_GT(last.devices, 8);
    EXPECT_EQ(last.plan.cluster.numDevices(), last.devices);
    EXPECT_NE(last.change.find("devices instead of 8"), std::string::npos) << last.change;
}

TEST(Fit, RulesOfTheFrameworkHold) {
    Plan plan = mixtral();
    plan.framework = Framework::DeepSpeed;
    plan.schedule = ScheduleKind::OneF1B;
    const std::vector<FitChange> changes = changesAt(plan, need(plan) * 0.6);
    // A pipeline under DeepSpeed has no ZeRO 2 or 3, and no module is recomputed by itself.
    EXPECT_EQ(find(changes, FitChangeKind::ZeroStage), nullptr);
    EXPECT_EQ(find(changes, FitChangeKind::RecomputeModules), nullptr);
    EXPECT_NE(find(changes, FitChangeKind::RecomputeFull), nullptr);
}

TEST(Fit, TightPlansAreGivenRoom) {
    const Plan plan = mixtral();
    const std::vector<FitChange> changes = changesAt(plan, need(plan) * 1.02);
    ASSERT_FALSE(changes.empty());
    for (const FitChange& change : changes) EXPECT_EQ(change.verdict, FitVerdict::Fits);
}

TEST(Fit, ABrokenPlanGetsNoAdvice) {
    Plan plan = mixtral();
    plan.layout.pp = 5;
    EXPECT_TRUE(smallestChanges(plan).empty());
}

TEST(Fit, JsonNamesEveryChangeWithItsEvidence) {
    Plan plan = mixtral();
    plan.cluster.device.memory = need(plan) * 0.8;
    const Result<Prediction> prediction = predict(plan);
    ASSERT_TRUE(prediction.ok()) << prediction.error().text();
    const Json json = predictionJson(plan, *prediction, smallestChanges(plan));
    ASSERT_FALSE(json["memory"]["fix"].empty());
    for (const Json& fix : json["memory"]["fix"]) {
        for (const char* key :
             {"kind", "change", "settings", "peak_bytes", "verdict", "step_seconds", "devices"})
            EXPECT_TRUE(fix.contains(key)) << key;
        const std::string key = "memory.fix." + fix["kind"].get<std::string>() + ".step_seconds";
        EXPECT_TRUE(json["evidence"].contains(key)) << key;
    }
    EXPECT_TRUE(predictionJson(plan, *prediction)["memory"]["fix"].empty());
}

}  // namespace
}  // namespace piper
