// SPDX-License-Identifier: Apache-2.0
#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

std::vector<std::string> olmoe(const std::string& cluster, std::vector<std::string> more) {
    std::vector<std::string> out = {
        "sensitivity", "--model", example("configs/OLMoE-1B-7B-0924.json"),
        "--cluster",   cluster,   "--seq-len",
        "2048",        "--fix",   "tp=1 pp=1 schedule=1f1b micro_batch_size=1 recompute=none"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

TEST(PiperctlSensitivity, VariesTheNetworkUnderAWholeBatch) {
    const CommandResult r = piperctl(olmoe("H100 SXM:2", {"--values", "1,0.1", "--json"}));
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json points = document(r).at("points");
    ASSERT_EQ(points.size(), 2U);
    // Without --global-batch-size four million tokens: every device has work.
    EXPECT_EQ(points[0].at("plan").at("devices").get<int>(), 16);
    EXPECT_GT(points[0].at("plan").at("step_seconds").get<double>() *
                  points[0].at("plan").at("tokens_per_second").get<double>(),
              4.0e6);
    EXPECT_LE(points[0].at("plan").at("step_seconds").get<double>(),
              points[1].at("plan").at("step_seconds").get<double>());
    const CommandResult text =
        piperctl(olmoe("H100 SXM:2", {"--values", "1,0.1", "--global-batch-size", "64"}));
    ASSERT_EQ(text.exit_status, 0) << text.error_output;
    for (const char* word : {"setting", "held plan", "exchange in sight"})
        EXPECT_NE(text.output.find(word), std::string::npos) << word << "\n" << text.output;
}

TEST(PiperctlSensitivity, BadInput) {
    const CommandResult one = piperctl(olmoe("H100 SXM:1", {"--values", "1,0.5"}));
    EXPECT_EQ(one.exit_status, 2);
    EXPECT_NE(one.error_output.find("--level): nvlink"), std::string::npos) << one.error_output;
    EXPECT_EQ(piperctl(olmoe("H100 SXM:1", {"--level", "nvlink", "--values", "1"})).exit_status, 0);
    EXPECT_EQ(piperctl(olmoe("H100 SXM:2", {"--values", "0"})).exit_status, 2);
    EXPECT_EQ(piperctl(olmoe("H100 SXM:2", {"--knob", "luck"})).exit_status, 2);
    EXPECT_EQ(piperctl({"sensitivity"}).exit_status, 2);
}

}  // namespace
}  // namespace piper::test
