// SPDX-License-Identifier: Apache-2.0
// Every number of the document has its evidence, and nothing falls back without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/predict/predict.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::Contains;
using testing::HasSubstr;

Plan mixtral() {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 8, 4096, 512);
    plan.layout.pp = 4;
    plan.layout.ep = 8;
    plan.layout.dp = 16;
    plan.zero_stage = 1;
    return plan;
}

Prediction predicted(const Plan& plan) {
    Result<Prediction> out = predict(plan);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return out.ok() ? std::move(out).value() : Prediction{};
}

/// Keys of all numbers, dotted; counts and indices of the plan itself are no model numbers.
void numbersOf(const Json& json, const std::string& path,
               std::vector<std::pair<std::string, double>>& out) {
    if (json.is_number()) {
        out.emplace_back(path, json.get<double>());
        return;
    }
    if (!json.is_structured()) return;
    for (const auto& [key, value] : json.items()) {
        // Items of these arrays are named by their own kind or number.
        std::string name = key;
        if (path == "bottlenecks") name = value["kind"].get<std::string>();
        if (path == "memory.stages") name = std::to_string(value["stage"].get<int>());
        numbersOf(value, path.empty() ? name : path + "." + name, out);
    }
}

bool isOfThePlan(const std::string& key) {
    return key == "format_version" || key == "devices" || key.ends_with("stage") ||
           key.ends_with("in_flight");
}

TEST(Evidence, EveryNumberOfTheModelHasIt) {
    Plan plan = mixtral();
    plan.cluster.price_per_device_hour = 2.5;
    const Json json = predictionJson(plan, predicted(plan));
    std::vector<std::pair<std::string, double>> numbers;
    for (const auto& [key, value] : json.items())
        if (key != "evidence") numbersOf(value, key, numbers);
    EXPECT_GT(numbers.size(), 60u);
    for (const auto& [key, value] : numbers) {
        if (isOfThePlan(key)) continue;
        // Terms of a stage that is not the worst stand under the stage's own total.
        if (key.starts_with("memory.stages.") && key.find(".terms.") != std::string::npos) continue;
        // Lines of a table whose sum has it.
        if (key.starts_with("memory.entries.") || key.starts_with("flops.terms.")) continue;
        ASSERT_TRUE(json["evidence"].contains(key)) << key;
        const Json& evidence = json["evidence"][key];
        EXPECT_THAT((std::vector<std::string>{"measured", "published", "vendor_peak", "assumed"}),
                    Contains(evidence["kind"].get<std::string>()));
        EXPECT_LE(evidence["low"].get<double>(), value * (1 + 1e-9) + 1e-12) << key;
        EXPECT_GE(evidence["high"].get<double>(), value * (1 - 1e-9) - 1e-12) << key;
        EXPECT_TRUE(evidence["extrapolated"].is_boolean());
    }
}

TEST(Evidence, KeysOfTheStepAreNeverWithoutARange) {
    const Prediction p = predicted(mixtral());
    for (const char* key : {"step_seconds", "mfu", "hfu", "tokens_per_second_per_device"}) {
        ASSERT_TRUE(p.evidence.contains(key)) << key;
        EXPECT_LT(p.evidence.at(key).low, p.evidence.at(key).high) << key;
    }
}

TEST(Evidence, AShapeOutsideThePublishedRangeIsWarnedOf) {
    Plan plan = mixtral();
    plan.model.moe->moe_ffn_hidden_size = 16;
    const Prediction p = predicted(plan);
    EXPECT_TRUE(p.evidence.at("step_seconds").extrapolated);
    EXPECT_THAT(p.warnings, Contains(HasSubstr("extrapolated")));
}

TEST(Evidence, AnUnknownDeviceIsAssumedAndSaysSo) {
    Plan plan = mixtral();
    plan.cluster.device.name = "Some Accelerator";
    const Prediction p = predicted(plan);
    EXPECT_EQ(p.evidence.at("step_seconds").kind, EvidenceKind::Assumed);
    EXPECT_THAT(p.warnings, Contains(HasSubstr("Some Accelerator")));
    EXPECT_THAT(p.warnings, Contains(HasSubstr("calibrate")));
}

TEST(Evidence, TheWeakestPartDecides) {
    const Prediction p = predicted(mixtral());
    EvidenceKind worst = EvidenceKind::Measured;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const auto at =
            p.evidence.find(fmt::format("phase_seconds.{}", toText(static_cast<Phase>(i))));
        ASSERT_NE(at, p.evidence.end());
        if (p.phase[i].value > 0.0 && static_cast<Phase>(i) != Phase::Idle)
            worst = std::max(worst, at->second.kind);
    }
    EXPECT_EQ(p.evidence.at("step_seconds").kind, worst);
}

TEST(Price, FollowsDevicesAndTime) {
    Plan plan = mixtral();
    EXPECT_FALSE(predictionJson(plan, predicted(plan)).contains("price_per_step"));
    plan.cluster.price_per_device_hour = 2.5;
    const Prediction p = predicted(plan);
    EXPECT_NEAR(p.price_per_step, 2.5 * 64 * p.step.value / 3600.0, 1e-9);
    EXPECT_NEAR(p.price_per_million_tokens, 2.5 / 3600.0 / p.tokens_per_second_per_device * 1e6,
                1e-9);
    const Json json = predictionJson(plan, p);
    EXPECT_EQ(json["price_per_step"].get<double>(), p.price_per_step);
}

}  // namespace
}  // namespace piper
