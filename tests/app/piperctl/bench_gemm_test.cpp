// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

TEST(PiperctlBenchGemm, ShapesLeftOutArePredicted) {
    const CommandResult r = piperctl({"bench", "gemm", "--leave-out", "4", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json d = document(r);
    EXPECT_EQ(d.at("groups").size(), 12U);
    EXPECT_LT(d.at("mean_of_medians").get<double>(), 0.035);
    for (const Json& lookup : d.at("lookups"))
        EXPECT_GT(lookup.at("repeated_shape_ns").get<double>(), 0.0);
}

TEST(PiperctlBenchGemm, RowsOfAFile) {
    const std::string table = (sourceDir() / "tests/data/kernel_times.csv").string();
    const CommandResult r =
        piperctl({"bench", "gemm", "--published", table, "--leave-out", "0", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json d = document(r);
    EXPECT_LT(d.at("mean_of_medians").get<double>(), 0.01);
    EXPECT_FALSE(d.at("skipped").empty());
    EXPECT_NE(piperctl({"bench", "gemm", "--published", table}).output.find("in range"),
              std::string::npos);
}

TEST(PiperctlBenchGemm, BadInputIsNamed) {
    EXPECT_EQ(piperctl({"bench"}).exit_status, 2);
    EXPECT_EQ(piperctl({"bench", "gemm", "--leave-out", "1"}).exit_status, 2);
    EXPECT_EQ(piperctl({"bench", "gemm", "--published", "/no/such/file"}).exit_status, 2);
    const TemporaryDirectory dir;
    const auto path = dir.path() / "rows.csv";
    std::ofstream(path) << "kind,gpu\nmatmul,H100\n";
    const CommandResult r = piperctl({"bench", "gemm", "--published", path.string()});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("'dtype'"), std::string::npos) << r.error_output;
}

}  // namespace
}  // namespace piper::test
