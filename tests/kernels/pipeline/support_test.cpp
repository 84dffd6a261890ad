// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/support.h"

#include <gtest/gtest.h>

#include "tests/kernels/support/tiny_run.h"

namespace piper {
namespace {

TEST(CanRun, TheTinyPlan) {
    EXPECT_TRUE(canRun(test::tinyPlan()).ok());
}

TEST(CanRun, EveryUnsupportedPartIsNamedAtOnce) {
    Plan plan = test::tinyPlan();
    plan.layout.tp = 2;
    plan.layout.cp = 2;
    plan.precision = Precision::Bf16;
    plan.zero_stage = 2;
    plan.offload.optimizer = true;
    plan.model.dropout = 0.1;
    plan.recompute.granularity = RecomputeGranularity::Full;
    plan.recompute.method = RecomputeMethod::Uniform;
    plan.recompute.num_layers = 2;
    const Status status = canRun(plan);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Unsupported);
    for (const char* part : {"cp 2", "tp 2 without sp", "precision bf16", "zero_stage 2", "offload",
                             "dropout 0.1", "recompute uniform of 2 layers"})
        EXPECT_NE(status.error().message.find(part), std::string::npos) << part;
    EXPECT_EQ(unsupportedParts(plan).size(), 7U) << status.error().message;
}

TEST(CanRun, SizesThatTensorParallelismDoesNotDivide) {
    Plan plan = test::tinyPlan();
    plan.layout.tp = 4;
    plan.layout.sp = true;
    plan.model.vocab_size = 258;
    plan.model.ffn_hidden_size = 42;
    const Status status = canRun(plan);
    ASSERT_FALSE(status.ok());
    for (const char* part :
         {"num_kv_heads 2 over tp 4", "vocab_size 258 over tp 4", "ffn_hidden_size 42 over tp 4"})
        EXPECT_NE(status.error().message.find(part), std::string::npos) << part;
    EXPECT_EQ(unsupportedParts(plan).size(), 3U) << status.error().message;
}

TEST(CanRun, TheRulesOfAPlanOnCpusSayTheSame) {
    Plan plan = test::tinyPlan();
    EXPECT_TRUE(validatePlan(plan).empty());
    plan.zero_stage = 2;
    plan.model.dropout = 0.1;
    const std::vector<std::string> parts = unsupportedParts(plan);
    ASSERT_EQ(parts.size(), 2U);
    std::vector<std::string> said;
    for (const Violation& broken : validatePlan(plan))
        if (broken.rule == "own_worker") said.push_back(broken.message);
    EXPECT_EQ(said, parts);
    // Other frameworks, and devices that the plan is only made for, are not judged by it.
    plan.framework = Framework::DeepSpeed;
    for (const Violation& broken : validatePlan(plan)) EXPECT_NE(broken.rule, "own_worker");
}

TEST(CanRun, UnevenPlacementOfExperts) {
    Plan plan = test::tinyPlan();
    plan.layout.ep = plan.layout.dp = 2;
    plan.expert_placement = {0, 0, 0, 0, 1, 1};
    ASSERT_EQ(unsupportedParts(plan).size(), 1U);
    EXPECT_NE(unsupportedParts(plan)[0].find("ep rank 0 4 of 6"), std::string::npos);
    plan.expert_placement = {0, 1, 0, 1, 0, 1};
    EXPECT_TRUE(canRun(plan).ok());
}

TEST(ExpertOwners, InOrderWithoutPlacement) {
    Plan plan = test::tinyPlan();
    plan.layout.ep = 3;
    EXPECT_EQ(expertOwners(plan), (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2}));
}

}  // namespace
}  // namespace piper
