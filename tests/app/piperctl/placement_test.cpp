// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

std::vector<std::string> onOneNode(std::vector<std::string> more) {
    std::vector<std::string> out = {"placement",
                                    "--model",
                                    example("configs/OLMoE-1B-7B-0924.json"),
                                    "--cluster",
                                    "H100 SXM:1",
                                    "--layout",
                                    "ep=8",
                                    "--seq-len",
                                    "2048",
                                    "--global-batch-size",
                                    "64"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
}

TEST(PiperctlPlacement, EvensAHistogramOutAndWritesThePlan) {
    const TemporaryDirectory dir;
    const std::string histogram = (dir.path() / "tokens.json").string();
    Json row = Json::array();
    for (int e = 0; e < 64; ++e) row.push_back(e < 8 ? 100 : 10);
    write(histogram, row.dump());
    const std::string file = (dir.path() / "placed.json").string();
    const CommandResult r = piperctl(onOneNode({"--histogram", histogram, "--json", "-o", file}));
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json json = document(r);
    EXPECT_NEAR(json.at("imbalance").at("before").get<double>(), 800.0 * 8 / 1360, 1e-9);
    EXPECT_NEAR(json.at("imbalance").at("after").get<double>(), 1.0, 1e-9);
    EXPECT_GT(json.at("step_seconds").at("gain").get<double>(), 0.0);
    EXPECT_GT(json.at("migration").at("seconds").get<double>(), 0.0);
    EXPECT_GT(json.at("pays_after_steps").get<double>(), 0.0);
    const CommandResult predicted = piperctl({"predict", file, "--json"});
    ASSERT_EQ(predicted.exit_status, 0) << predicted.error_output;
    EXPECT_NEAR(document(predicted).at("step_seconds").get<double>(),
                json.at("step_seconds").at("after").get<double>(), 1e-12);
}

TEST(PiperctlPlacement, PrintsWhatItCostsAndGains) {
    const CommandResult r = piperctl(onOneNode({"--zipf", "0.8", "--replicas", "8"}));
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    for (const char* word : {"imbalance", "migration", "replicas", "pays after", "note"})
        EXPECT_NE(r.output.find(word), std::string::npos) << word << "\n" << r.output;
}

TEST(PiperctlPlacement, BadInput) {
    const TemporaryDirectory dir;
    const std::string file = (dir.path() / "tokens.json").string();
    for (const char* text : {"{}", "[]", "[[1, \"two\"]]", "[1, 2"}) {
        write(file, text);
        const CommandResult r = piperctl(onOneNode({"--histogram", file}));
        EXPECT_EQ(r.exit_status, 2) << text;
    }
    // A plan file's routing_load is read as in the plan.
    write(file, R"({"routing_load": {"kind": "zipf", "zipf_exponent": 1}})");
    EXPECT_NE(piperctl(onOneNode({"--histogram", file})).error_output.find("holds no histogram"),
              std::string::npos);
    write(file, R"({"routing_load": {"kind": "histogram", "histogramm": [[1]]}})");
    EXPECT_NE(piperctl(onOneNode({"--histogram", file})).error_output.find("histogramm"),
              std::string::npos);
    write(file, "[1, 2, 3]");
    EXPECT_NE(piperctl(onOneNode({"--histogram", file})).error_output.find("64 shares"),
              std::string::npos);
    const CommandResult one =
        piperctl({"placement", "--model", example("configs/OLMoE-1B-7B-0924.json"), "--cluster",
                  "H100 SXM:1", "--layout", "ep=1"});
    EXPECT_EQ(one.exit_status, 2);
    EXPECT_NE(one.error_output.find("set ep to 2"), std::string::npos);
    const CommandResult layers =
        piperctl(onOneNode({"--zipf", "1", "--replicas", "8", "-o", file}));
    EXPECT_NE(layers.error_output.find("one placement for all layers"), std::string::npos);
}

}  // namespace
}  // namespace piper::test
