// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/core/model/models.h"

namespace piper {
namespace {

bool names(const std::vector<Error>& errors, std::string_view field) {
    return std::any_of(errors.begin(), errors.end(),
                       [&](const Error& e) { return e.where == field; });
}

TEST(CheckModel, SoundModelHasNoErrors) {
    EXPECT_TRUE(checkModel(test::config("DeepSeek-V3")).empty());
}

TEST(CheckModel, ListsEveryBrokenRule) {
    ModelSpec m = test::config("Mixtral-8x7B-v0.1");
    m.hidden_size = -4;
    m.attention.num_kv_heads = 5;
    m.moe->router_topk = 9;
    m.rope_theta = 0;
    const std::vector<Error> errors = checkModel(m);
    EXPECT_EQ(errors.size(), 4u);
    EXPECT_TRUE(names(errors, "hidden_size"));
    EXPECT_TRUE(names(errors, "attention.num_kv_heads"));
    EXPECT_TRUE(names(errors, "moe.router_topk"));
    EXPECT_TRUE(names(errors, "rope_theta"));
}

TEST(CheckModel, TopkBeyondTheReachableGroups) {
    ModelSpec m = test::config("DeepSeek-V3");
    m.moe->topk_groups = 1;
    m.moe->router_topk = 33;  // one group holds 32 experts
    const std::vector<Error> errors = checkModel(m);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].message.find("33 > 32"), std::string::npos) << errors[0].message;
}

TEST(CheckModel, LayersMustAgreeWithTheirNumber) {
    ModelSpec m = test::config("Mixtral-8x7B-v0.1");
    m.layers.pop_back();
    EXPECT_TRUE(names(checkModel(m), "layers"));
    m = test::config("Mixtral-8x7B-v0.1");
    m.moe.reset();
    EXPECT_TRUE(names(checkModel(m), "moe"));
}

TEST(CheckModel, SizesThatOverflowACountAreRefused) {
    ModelSpec m = test::config("Mixtral-8x7B-v0.1");
    m.hidden_size = 1 << 22;
    m.moe->moe_ffn_hidden_size = 1 << 22;
    m.moe->num_experts = 1 << 16;
    EXPECT_FALSE(checkModel(m).empty());
}

TEST(CheckModel, NotANumberIsRefused) {
    ModelSpec m = test::config("Mixtral-8x7B-v0.1");
    m.rms_norm_eps = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(names(checkModel(m), "rms_norm_eps"));
}

}  // namespace
}  // namespace piper
