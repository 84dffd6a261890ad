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

/// GPT-3: learned positions, LayerNorm and biases: 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)),
/// equation 2 of arXiv 2104.04473, plus the final norm.
TEST(ModelFile, ClassicGptCountsBiasesNormsAndPositions) {
    Json json = {{"format_version", 1},
                 {"hidden_size", 12288},
                 {"num_layers", 96},
                 {"vocab_size", 51200},
                 {"ffn_hidden_size", 49152},
                 {"dense_mlp", "two_matrix"},
                 {"tie_word_embeddings", true},
                 {"max_position_embeddings", 2048},
                 {"norm", "layer_norm"},
                 {"position", "learned"},
                 {"mlp_bias", true},
                 {"dropout", 0.1}};
    json["attention"] = {{"num_heads", 96}, {"qkv_bias", true}, {"output_bias", true}};
    const Result<ModelSpec> m = readModel(json, "gpt3.json");
    ASSERT_TRUE(m.ok()) << m.error().text();
    const double l = 96, h = 12288, v = 51200, s = 2048;
    EXPECT_DOUBLE_EQ(static_cast<double>(modelParameters(*m).total),
                     12 * l * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * l * h)) + 2 * h);
    const Result<ModelSpec> again = readModel(writeModel(*m), "again");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(*again, *m);
}

TEST(ModelFile, WindowsPositionsAndDropoutAreChecked) {
    Json json = tiny();
    json["attention"]["full_attention_layers"] = {1, 3};
    ASSERT_FALSE(readModel(json, "m").ok());
    json["attention"]["sliding_window"] = 64;
    ASSERT_TRUE(readModel(json, "m").ok());
    EXPECT_DOUBLE_EQ(readModel(json, "m")->windowShare(), 0.5);
    EXPECT_EQ(*readModel(writeModel(*readModel(json, "m")), "n"), *readModel(json, "m"));
    json["attention"]["full_attention_layers"] = {3, 1};
    EXPECT_FALSE(readModel(json, "m").ok());
    json["attention"]["full_attention_layers"] = {4};
    const Result<ModelSpec> outside = readModel(json, "m");
    ASSERT_FALSE(outside.ok());
    EXPECT_NE(outside.error().text().find("layer 4"), std::string::npos) << outside.error().text();
    json = tiny();
    json["dropout"] = 1.0;
    EXPECT_FALSE(readModel(json, "m").ok());
    json = tiny();
    json["position"] = "learned";
    json["max_position_embeddings"] = 0;
    EXPECT_FALSE(readModel(json, "m").ok());
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
