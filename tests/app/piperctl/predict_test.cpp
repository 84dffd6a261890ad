// SPDX-License-Identifier: Apache-2.0
#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

TEST(PiperctlPredict, JsonHasTheStableKeysWithEvidence) {
    const CommandResult r = piperctl(
        {"predict", "--model", example("configs/OLMoE-1B-7B-0924.json"), "--cluster", "H100 SXM:8",
         "--layout", "ep=8", "--seq-len", "4096", "--global-batch-size", "512", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json json = document(r);
    for (const char* key : {"step_seconds", "tokens_per_second_per_device", "model_flops_per_token",
                            "tflops_per_device", "mfu", "hfu", "bubble_fraction", "phase_seconds",
                            "exposed_seconds", "memory", "bottlenecks", "evidence"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_GT(json.at("mfu").get<double>(), 0.0);
    EXPECT_LT(json.at("mfu").get<double>(), 1.0);
    EXPECT_TRUE(json.at("evidence").contains("step_seconds"));
    // MFU is what its own numbers say.
    const double tokens = json.at("tokens_per_second_per_device").get<double>();
    EXPECT_NEAR(json.at("tflops_per_device").get<double>(),
                tokens * json.at("model_flops_per_token").get<double>() / 1e12,
                1e-6 * json.at("tflops_per_device").get<double>());
}

TEST(PiperctlPredict, APlanThatDoesNotFitIsANegativeAnswer) {
    const CommandResult r = piperctl({"predict", "--model", example("configs/DeepSeek-V3.json"),
                                      "--cluster", "H100 SXM:1", "--layout", "ep=8", "--json"});
    EXPECT_EQ(r.exit_status, 1) << r.error_output;
    EXPECT_EQ(document(r).at("memory").at("verdict").get<std::string>(), "does_not_fit");
}

TEST(PiperctlPredict, TheBestSplitFitsAndIsFasterThanTheEvenOne) {
    const auto predicted = [](const std::string& split, const std::string& recompute) {
        const CommandResult r =
            piperctl({"predict", "--model", example("configs/DeepSeek-V3.json"), "--cluster",
                      "H200 SXM:32", "--layout", "pp=8 ep=32 vpp=2", "--zero-stage", "1", "--json",
                      "--recompute", recompute, "--stage-layers", split});
        EXPECT_TRUE(document(r).contains("step_seconds")) << r.error_output;
        return document(r);
    };
    const std::string even = "4/4/4/4/4/4/4/3/3/4/4/4/4/4/4/3";
    EXPECT_LT(predicted("best", "full").at("step_seconds").get<double>(),
              predicted(even, "full").at("step_seconds").get<double>());
    // Without recompute nothing fits: the best split comes with the layers it takes.
    EXPECT_EQ(predicted(even, "none").at("memory").at("verdict").get<std::string>(),
              "does_not_fit");
    EXPECT_NE(predicted("best", "none").at("memory").at("verdict").get<std::string>(),
              "does_not_fit");
}

TEST(PiperctlSearch, RanksFeasiblePlansAndSaysWhyOthersLost) {
    const CommandResult r = piperctl(
        {"search", "--model", example("configs/Mixtral-8x7B-v0.1.json"), "--cluster", "H100 SXM:8",
         "--global-batch-size", "256", "--seq-len", "4096", "--top", "5", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json json = document(r);
    const Json& plans = json.at("plans");
    ASSERT_FALSE(plans.empty());
    ASSERT_LE(plans.size(), 5U);
    double last = 1.0;
    for (const Json& plan : plans) {
        EXPECT_LE(plan.at("prediction").at("mfu").get<double>(), last);
        last = plan.at("prediction").at("mfu").get<double>();
    }
    EXPECT_GT(json.at("evaluated").get<int>(), json.at("feasible").get<int>());
    EXPECT_FALSE(json.at("rejections").empty());
}

TEST(PiperctlSearch, TheWrittenPlanPredictsTheSame) {
    const TemporaryDirectory dir;
    const std::string file = (dir.path() / "best.json").string();
    const CommandResult found = piperctl(
        {"search", "--model", example("configs/OLMoE-1B-7B-0924.json"), "--cluster", "H100 SXM:1",
         "--global-batch-size", "64", "--seq-len", "2048", "--json", "-o", file});
    ASSERT_EQ(found.exit_status, 0) << found.error_output;
    const CommandResult predicted = piperctl({"predict", file, "--json"});
    ASSERT_EQ(predicted.exit_status, 0) << predicted.error_output;
    EXPECT_DOUBLE_EQ(document(predicted).at("mfu").get<double>(),
                     document(found).at("plans").at(0).at("prediction").at("mfu").get<double>());
}

}  // namespace
}  // namespace piper::test
