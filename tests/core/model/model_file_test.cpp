// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/models.h"

#include "core/base/json.h"

namespace piper {
namespace {

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, KeepsEveryField) {
    const ModelSpec model = test::config(GetParam());
    const Json written = writeModel(model);
    const Result<ModelSpec> again = readModelText(written.dump(2), "model.json");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(*again, model);
    EXPECT_EQ(writeModel(*again), written);
}

INSTANTIATE_TEST_SUITE_P(Configs, RoundTrip,
                         ::testing::Values("Mixtral-8x7B-v0.1", "OLMoE-1B-7B-0924",
                                           "DeepSeek-V2-Lite", "Qwen3-30B-A3B", "DeepSeek-V3"));

Json tiny() {
    return Json::parse(
        test::readText(test::sourceDir() / "packaging/examples/models/olmoe-tiny.json"));
}

TEST(ModelFile, BundledTinyModel) {
    const Result<ModelSpec> m = readModel(tiny(), "olmoe-tiny.json");
    ASSERT_TRUE(m.ok()) << m.error().text();
    EXPECT_EQ(m->numMoeLayers(), 4);
    EXPECT_EQ(m->attention.head_dim * m->attention.num_heads, m->hidden_size);
    // 4 layers of attention 196608, router 2048, 8 experts of 196608, norms 512; 2 x 65536; 256.
    EXPECT_EQ(modelParameters(*m).total, 4 * (196608 + 2048 + 8 * 196608 + 512) + 2 * 65536 + 256);
}

TEST(ModelFile, UnknownKeyNamesTheNearest) {
    Json json = tiny();
    json["moe"]["router_top_k"] = 2;
    const Result<ModelSpec> m = readModel(json, "m.json");
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.error().where, "m.json.moe");
    EXPECT_NE(m.error().message.find("'router_topk'"), std::string::npos) << m.error().text();
}

TEST(ModelFile, NewerVersionIsRefused) {
    Json json = tiny();
    json["format_version"] = 2;
    const Result<ModelSpec> m = readModel(json, "m.json");
    ASSERT_FALSE(m.ok());
    EXPECT_NE(m.error().message.find("newer"), std::string::npos);
}

TEST(ModelFile, DenseLayersMustExist) {
    Json json = tiny();
    json["dense_layers"] = {4};
    ASSERT_FALSE(readModel(json, "m.json").ok());
    json["dense_layers"] = {0};
    const Result<ModelSpec> without_width = readModel(json, "m.json");
    ASSERT_FALSE(without_width.ok());
    EXPECT_NE(without_width.error().text().find("ffn_hidden_size"), std::string::npos);
    json["ffn_hidden_size"] = 512;
    const Result<ModelSpec> m = readModel(json, "m.json");
    ASSERT_TRUE(m.ok()) << m.error().text();
    EXPECT_FALSE(m->isMoe(LayerId(0)));
    EXPECT_EQ(m->numMoeLayers(), 3);
}

TEST(ModelFile, MissingAttentionIsAnError) {
    Json json = tiny();
    json.erase("attention");
    const Result<ModelSpec> m = readModel(json, "m.json");
    ASSERT_FALSE(m.ok());
    EXPECT_NE(m.error().text().find("attention"), std::string::npos);
}

}  // namespace
}  // namespace piper
