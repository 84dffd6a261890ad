// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

std::vector<std::string> olmoe(std::vector<std::string> more) {
    std::vector<std::string> out = {"capacity",
                                    "--model",
                                    example("configs/OLMoE-1B-7B-0924.json"),
                                    "--cluster",
                                    "H100 SXM:2",
                                    "--seq-len",
                                    "2048",
                                    "--global-batch-size",
                                    "64",
                                    "--fix",
                                    "tp=1 schedule=1f1b micro_batch_size=1"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

TEST(PiperctlCapacity, AnswersAllQuestionsInOneDocument) {
    const CommandResult r = piperctl(olmoe({"--tokens", "1e12", "--buy", "2", "--json"}));
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json answer = document(r).at("answers").at(0);
    const Json& largest = answer.at("largest");
    EXPECT_EQ(largest.at("family").get<std::string>(), "layers");
    EXPECT_GT(largest.at("size").get<int>(), 16);
    EXPECT_GT(largest.at("model").at("parameters").get<double>(), 6.9e9);
    EXPECT_LE(largest.at("plan").at("device_bytes").get<double>(), 80.0 * 1073741824.0);
    EXPECT_FALSE(largest.at("stopped_by").at("message").get<std::string>().empty());
    const Json& fewest = answer.at("fewest");
    EXPECT_GE(fewest.at("devices").get<int>(), 1);
    EXPECT_LE(fewest.at("devices").get<int>(), 16);
    const Json& bill = answer.at("bill");
    EXPECT_NEAR(bill.at("days").get<double>() * 86400.0,
                bill.at("steps").get<double>() * bill.at("plan").at("step_seconds").get<double>(),
                1.0);
    EXPECT_EQ(answer.at("purchases").at("parts").size(), 4U);
}

TEST(PiperctlCapacity, AClusterOfNumbersAlone) {
    const TemporaryDirectory dir;
    const std::string file = (dir.path() / "machine.json").string();
    std::ofstream(file) << R"({"format_version": 1, "name": "machine", "devices_per_node": 4,
        "nodes": 1, "device": {"name": "accelerator", "kind": "gpu",
        "peak_flops_per_second": {"bf16": 200e12}, "memory_bytes": 34359738368,
        "memory_bandwidth_bytes_per_second": 1.6e12},
        "levels": [{"name": "inside", "domain_devices": 4, "bandwidth_bytes_per_second": 100e9}]})";
    const CommandResult r =
        piperctl({"capacity", "--model", example("configs/OLMoE-1B-7B-0924.json"), "--cluster",
                  file, "--seq-len", "1024", "--global-batch-size", "16"});
    EXPECT_EQ(r.exit_status, 0) << r.error_output;
    EXPECT_NE(r.output.find("largest"), std::string::npos) << r.output;
    EXPECT_NE(r.output.find("next size"), std::string::npos) << r.output;
}

TEST(PiperctlCapacity, SaysWhatStopsAModelThatFitsNowhere) {
    const CommandResult r =
        piperctl({"capacity", "--model", example("configs/DeepSeek-V3.json"), "--cluster",
                  "H100 SXM:1", "--fix", "tp=8", "--seq-len", "4096", "--json"});
    EXPECT_EQ(r.exit_status, 1) << r.error_output;
    const Json answer = document(r).at("answers").at(0);
    EXPECT_TRUE(answer.at("fewest").at("plan").is_null());
    EXPECT_FALSE(answer.at("fewest").at("stopped_by").at("message").get<std::string>().empty());
    EXPECT_EQ(piperctl(olmoe({"--family", "width"})).exit_status, 2);
    EXPECT_EQ(piperctl(olmoe({"--availability", "1.5"})).exit_status, 2);
    EXPECT_EQ(piperctl({"capacity"}).exit_status, 2);
}

}  // namespace
}  // namespace piper::test
