// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/base/json.h"
#include "tests/app/worker/worker_process.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

/// The bundled plan on four local ranks: twenty steps, the loss falls.
TEST(Example, OlmoeTinyTrains) {
    const test::TemporaryDirectory directory;
    const std::filesystem::path plan =
        test::sourceDir() / "packaging/examples/plans/olmoe-tiny.json";
    const auto beside = [&](const std::string& path) -> Result<std::string> {
        return test::readText(plan.parent_path() / path);
    };
    const Result<Json> json =
        resolvePlanReferences(parseJson(test::readText(plan), "olmoe-tiny.json").value(), beside);
    ASSERT_TRUE(json.ok()) << json.error().text();
    test::Launch launch;
    launch.plan = readPlan(*json, "olmoe-tiny.json").value();
    launch.job = directory.path();
    launch.arguments = {"--steps", "20"};
    ASSERT_EQ(launch.plan.layout.world(), 4);
    const test::WorkerResult result = test::runWorkers(launch);
    ASSERT_EQ(result.exit_status, 0) << result.output;
    ASSERT_EQ(result.losses.size(), 20U);
    EXPECT_LT(result.losses.back(), result.losses.front() - 1.5);
    EXPECT_NE(result.status.find("\"finished\""), std::string::npos) << result.status;
}

}  // namespace
}  // namespace piper
