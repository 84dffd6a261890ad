// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

std::string subset() {
    return (sourceDir() / "tests/data/measured_runs_subset.csv").string();
}

TEST(PiperctlValidate, JsonHasTheStableKeys) {
    const CommandResult r = piperctl({"validate", subset(), "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json json = document(r);
    for (const char* key : {"rows", "skipped", "summary", "tables"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_GT(json.at("rows").size(), 20u);
    EXPECT_GT(json.at("summary").at("time").at("n").get<int>(), 10);
    for (const Json& row : json.at("skipped")) EXPECT_FALSE(row.at("reason").empty());
}

TEST(PiperctlValidate, ReportNamesSourcesAndSkippedRows) {
    const CommandResult r = piperctl({"validate", subset()});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    EXPECT_NE(r.output.find("step time by source and device"), std::string::npos);
    EXPECT_NE(r.output.find("calculon"), std::string::npos);
    EXPECT_NE(r.output.find("skipped rows"), std::string::npos);
}

TEST(PiperctlValidate, UnusableInputIsExitStatusTwo) {
    const TemporaryDirectory dir;
    const std::string file = (dir.path() / "bad.csv").string();
    std::ofstream(file) << "model,gpu\na,b\n";
    const CommandResult r = piperctl({"validate", file});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("missing columns"), std::string::npos) << r.error_output;
    EXPECT_EQ(piperctl({"validate", (dir.path() / "none.csv").string()}).exit_status, 2);
    EXPECT_EQ(piperctl({"validate"}).exit_status, 2);
}

TEST(PiperctlBench, PredictSaysHowManyACoreAnswers) {
    const CommandResult r = piperctl({"bench", "predict", "--seconds", "0.02", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json json = document(r);
    for (const char* kind : {"closed_form", "simulated", "with_bottlenecks"}) {
        EXPECT_GT(json.at(kind).at("predictions_per_second").get<double>(), 0.0) << kind;
        EXPECT_GT(json.at(kind).at("step_seconds").get<double>(), 0.0) << kind;
    }
    EXPECT_EQ(piperctl({"bench", "nothing"}).exit_status, 2);
}

}  // namespace
}  // namespace piper::test
