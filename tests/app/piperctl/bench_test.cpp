// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

TEST(PiperctlBench, PublishedCollectivesLeftOut) {
    const std::string table =
        (sourceDir() / "tests/data/collectives/nccl_collectives.csv").string();
    const CommandResult r =
        piperctl({"bench", "alltoall", "--published", table, "--leave-out", "4", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json d = document(r);
    EXPECT_EQ(d.at("rows").get<std::int64_t>(), 2100);
    EXPECT_LT(d.at("summary").at("median_abs_rel_err").get<double>(), 0.10);
    // 4 operations, 9 devices with 2 and 4 ranks, 7 of them with 8.
    EXPECT_EQ(d.at("groups").size(), 4U * (9 * 2 + 7));
    EXPECT_EQ(d.at("predictions").size(), 2100U);
}

TEST(PiperctlBench, RoofsOfACluster) {
    const CommandResult r = piperctl({"bench", "alltoall", "--cluster", "H100 SXM:6", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    bool found = false;
    const Json printed = document(r);  // outlives the loop over its part
    for (const Json& roof : printed.at("roofs"))
        if (roof.at("operation") == "all_to_all" && roof.at("ranks") == 48) {
            EXPECT_NEAR(roof.at("algbw_bytes_per_second").get<double>(), 60e9, 1);
            found = true;
        }
    EXPECT_TRUE(found);
}

TEST(PiperctlBench, BadInputIsNamed) {
    const TemporaryDirectory dir;
    const auto path = dir.path() / "rows.csv";
    std::ofstream(path) << "gpu,nodes,ranks\nH100 SXM,1,8\n";
    const CommandResult r = piperctl({"bench", "alltoall", "--published", path.string()});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("no column 'library'"), std::string::npos) << r.error_output;
    std::ofstream(path) << "library,gpu,nodes,ranks\nNCCL,H100 SXM,1,8\n";
    const CommandResult empty = piperctl({"bench", "alltoall", "--published", path.string()});
    EXPECT_EQ(empty.exit_status, 2);
    EXPECT_NE(empty.error_output.find("no message size"), std::string::npos);
    EXPECT_EQ(piperctl({"bench", "alltoall"}).exit_status, 2);
    EXPECT_EQ(piperctl({"bench", "alltoall", "--cluster", "H100@token_ring:2"}).exit_status, 2);
    EXPECT_EQ(piperctl({"bench", "alltoall", "--published", path.string(), "--leave-out", "1"})
                  .exit_status,
              2);
}

}  // namespace
}  // namespace piper::test
