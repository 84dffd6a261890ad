// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/models.h"

#include "core/base/json.h"

namespace piper {
namespace {

using test::config;
using test::configJson;

TEST(HuggingFace, Mixtral) {
    const ModelSpec m = config("Mixtral-8x7B-v0.1");
    EXPECT_EQ(m.num_layers, 32);
    EXPECT_EQ(m.numMoeLayers(), 32);
    EXPECT_EQ(m.attention.num_kv_heads, 8);
    EXPECT_EQ(m.attention.head_dim, 128);
    EXPECT_EQ(m.moe->moe_ffn_hidden_size, 14336);
    EXPECT_TRUE(m.moe->norm_topk_prob);
    EXPECT_EQ(m.ffn_hidden_size, 0);
    EXPECT_EQ(m.attention.sliding_window, 0);
    EXPECT_DOUBLE_EQ(m.rope_theta, 1e6);
}

TEST(HuggingFace, DeepSeekV3) {
    const ModelSpec m = config("DeepSeek-V3");
    EXPECT_EQ(m.attention.kind, AttentionKind::Mla);
    EXPECT_EQ(m.attention.qkHeadDim(), 192);
    EXPECT_EQ(m.attention.vHeadDim(), 128);
    EXPECT_EQ(m.attention.q_lora_rank, 1536);
    EXPECT_EQ(m.numMoeLayers(), 58);
    EXPECT_FALSE(m.isMoe(LayerId(2)));
    EXPECT_TRUE(m.isMoe(LayerId(3)));
    EXPECT_EQ(m.moe->shared_ffn_hidden_size, 2048);
    EXPECT_EQ(m.moe->scoring, ScoringFunction::Sigmoid);
    EXPECT_EQ(m.moe->num_groups, 8);
    EXPECT_EQ(m.moe->topk_groups, 4);
    EXPECT_DOUBLE_EQ(m.moe->routed_scaling_factor, 2.5);
    EXPECT_EQ(m.mtp_num_layers, 1);
}

TEST(HuggingFace, DeepSeekV2LiteWithoutQueryRank) {
    const ModelSpec m = config("DeepSeek-V2-Lite");
    EXPECT_EQ(m.attention.q_lora_rank, 0);
    EXPECT_EQ(m.moe->shared_ffn_hidden_size, 2816);
    EXPECT_EQ(m.numMoeLayers(), 26);
    EXPECT_EQ(m.ffn_hidden_size, 10944);
    EXPECT_EQ(m.moe->scoring, ScoringFunction::Softmax);
    EXPECT_EQ(m.moe->num_groups, 1);
}

TEST(HuggingFace, QwenHeadsDoNotFillTheHiddenSize) {
    const ModelSpec m = config("Qwen3-30B-A3B");
    EXPECT_EQ(m.attention.head_dim * m.attention.num_heads, 4096);
    EXPECT_TRUE(m.attention.qk_norm);
    EXPECT_EQ(m.numMoeLayers(), 48);
}

TEST(HuggingFace, QwenSparseStepAndDenseOnlyLayers) {
    Json json = configJson("Qwen3-30B-A3B");
    json["decoder_sparse_step"] = 2;
    json["mlp_only_layers"] = {1, 5};
    const Result<ModelSpec> m = readModel(json, "c");
    ASSERT_TRUE(m.ok()) << m.error().text();
    EXPECT_EQ(m->numMoeLayers(), 24 - 2);
    EXPECT_FALSE(m->isMoe(LayerId(0)));
    EXPECT_FALSE(m->isMoe(LayerId(1)));
    EXPECT_TRUE(m->isMoe(LayerId(3)));
    EXPECT_EQ(m->ffn_hidden_size, 6144);
}

TEST(HuggingFace, DeepSeekLayerFrequency) {
    Json json = configJson("DeepSeek-V2-Lite");
    json["moe_layer_freq"] = 3;
    const ModelSpec m = *readModel(json, "c");
    EXPECT_EQ(m.numMoeLayers(), 8);  // 3, 6, ..., 24
    EXPECT_TRUE(m.isMoe(LayerId(3)));
    EXPECT_FALSE(m.isMoe(LayerId(4)));
}

TEST(HuggingFace, DefaultsOfTheDenseKinds) {
    const char* text = R"({"model_type": "KIND", "hidden_size": 4096, "intermediate_size": 14336,
        "vocab_size": 32000, "num_hidden_layers": 2, "num_attention_heads": 32})";
    const auto read = [&](std::string kind) {
        std::string json = text;
        return *readModelText(json.replace(json.find("KIND"), 4, kind), kind);
    };
    EXPECT_EQ(read("llama").attention.num_kv_heads, 32);
    EXPECT_FALSE(read("llama").moe.has_value());
    EXPECT_EQ(read("mistral").attention.sliding_window, 4096);
    EXPECT_TRUE(read("qwen2").attention.qkv_bias);
    EXPECT_FALSE(read("qwen2").attention.output_bias);
    EXPECT_TRUE(read("qwen3").attention.qk_norm);
    EXPECT_EQ(read("qwen3").attention.head_dim, 128);
}

TEST(HuggingFace, SlidingWindowOfQwenIsSwitched) {
    Json json = configJson("Qwen3-30B-A3B");
    json["sliding_window"] = 4096;
    json["use_sliding_window"] = false;
    EXPECT_EQ(readModel(json, "c")->attention.sliding_window, 0);
    json["use_sliding_window"] = true;
    EXPECT_EQ(readModel(json, "c")->attention.sliding_window, 4096);
    json["max_window_layers"] = 20;
    const Result<ModelSpec> mixed = readModel(json, "c");
    ASSERT_TRUE(mixed.ok()) << mixed.error().text();
    EXPECT_EQ(mixed->attention.full_attention_layers.size(), 20u);
    EXPECT_DOUBLE_EQ(mixed->windowShare(), 28.0 / 48.0);
    json["max_window_layers"] = 48;
    EXPECT_EQ(readModel(json, "c")->attention.sliding_window, 0);
}

/// GPT-OSS-120B (sizes of its config.json): every other layer sees 128 tokens; biases everywhere.
TEST(HuggingFace, GptOssAlternatesItsWindow) {
    Json json = {{"model_type", "gpt_oss"},
                 {"hidden_size", 2880},
                 {"num_hidden_layers", 36},
                 {"vocab_size", 201088},
                 {"num_attention_heads", 64},
                 {"num_key_value_heads", 8},
                 {"head_dim", 64},
                 {"num_local_experts", 128},
                 {"num_experts_per_tok", 4},
                 {"intermediate_size", 2880},
                 {"sliding_window", 128},
                 {"attention_bias", true},
                 {"layer_types", Json::array()}};
    for (int i = 0; i < 36; ++i)
        json["layer_types"].push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
    const Result<ModelSpec> m = readModel(json, "gpt-oss-120b");
    ASSERT_TRUE(m.ok()) << m.error().text();
    EXPECT_EQ(m->attention.full_attention_layers.size(), 18u);
    EXPECT_EQ(m->attention.full_attention_layers.front(), 1);
    EXPECT_TRUE(m->mlp_bias);
    // 116.8e9 parameters published; 5.1e9 active without the embedding look-up.
    EXPECT_NEAR(static_cast<double>(modelParameters(*m).total), 116.8e9, 0.1e9);
    // The mean context of 4096 tokens: half the layers 128 - 2, half 2048.
    const double per_key = 2.0 * 64 * 128;
    EXPECT_NEAR(layerForwardFlops(*m, LayerKind::Moe, 4096, AttentionCount::CausalHalf)
                    .attention_core.value,
                per_key * (0.5 * 126.0 + 0.5 * 2048.0), 1.0);
}

TEST(HuggingFace, RopeParametersOfNewerFiles) {
    Json json = configJson("Qwen3-30B-A3B");
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
    EXPECT_DOUBLE_EQ(readModel(json, "c")->rope_theta, 1e6);
}

/// One change to a sound file and what the message must name.
struct BadField {
    std::string file, key;
    Json value;  ///< null: removed
    std::vector<std::string> expected;
};

class BadConfig : public ::testing::TestWithParam<BadField> {};

TEST_P(BadConfig, NamesFieldValueAndRule) {
    const BadField& bad = GetParam();
    Json json = configJson(bad.file);
    if (bad.value.is_null())
        json.erase(bad.key);
    else
        json[bad.key] = bad.value;
    const Result<ModelSpec> m = readModel(json, "config.json");
    ASSERT_FALSE(m.ok());
    EXPECT_EQ(m.error().where.rfind("config.json", 0), 0u) << m.error().where;
    for (const std::string& part : bad.expected)
        EXPECT_NE(m.error().text().find(part), std::string::npos)
            << part << " not in: " << m.error().text();
}

const BadField kBadFields[] = {
    {"Mixtral-8x7B-v0.1", "hidden_size", -4, {"hidden_size", "-4", "at least 1"}},
    {"Mixtral-8x7B-v0.1", "hidden_size", nullptr, {"hidden_size", "missing"}},
    {"Mixtral-8x7B-v0.1", "hidden_size", "4096", {"hidden_size", "\"4096\"", "integer"}},
    {"Mixtral-8x7B-v0.1", "hidden_size", 4096.5, {"hidden_size", "4096.5"}},
    {"Mixtral-8x7B-v0.1",
     "num_experts_per_tok",
     9,
     {"num_experts_per_tok 9 > num_local_experts 8"}},
    {"Mixtral-8x7B-v0.1", "num_experts_per_tok", 0, {"num_experts_per_tok", "0"}},
    {"Mixtral-8x7B-v0.1", "num_local_experts", nullptr, {"num_local_experts", "missing"}},
    {"Mixtral-8x7B-v0.1",
     "num_key_value_heads",
     5,
     {"num_key_value_heads 5", "num_attention_heads 32"}},
    {"Mixtral-8x7B-v0.1",
     "num_attention_heads",
     30,
     {"hidden_size 4096", "num_attention_heads 30"}},
    {"Mixtral-8x7B-v0.1", "num_hidden_layers", 1000000000, {"1000000000", "layers"}},
    {"Mixtral-8x7B-v0.1", "model_type", "mixtrl", {"'mixtrl'", "'mixtral'"}},
    {"Mixtral-8x7B-v0.1", "model_type", nullptr, {"model_type", "missing"}},
    {"Mixtral-8x7B-v0.1", "rms_norm_eps", 0.0, {"rms_norm_eps"}},
    {"DeepSeek-V3", "n_group", 7, {"n_group 7", "n_routed_experts 256"}},
    {"DeepSeek-V3", "topk_group", 9, {"topk_group 9", "n_group 8"}},
    {"DeepSeek-V3", "kv_lora_rank", nullptr, {"kv_lora_rank", "missing"}},
    {"DeepSeek-V3", "qk_rope_head_dim", 63, {"qk_rope_head_dim 63", "even"}},
    {"DeepSeek-V3", "first_k_dense_replace", 62, {"62", "num_hidden_layers 61"}},
    {"DeepSeek-V3", "n_shared_experts", -1, {"n_shared_experts", "-1"}},
    {"DeepSeek-V3", "scoring_func", "relu", {"'relu'", "softmax, sigmoid"}},
    {"DeepSeek-V3", "intermediate_size", nullptr, {"intermediate_size", "missing"}},
    {"Qwen3-30B-A3B", "moe_intermediate_size", nullptr, {"moe_intermediate_size", "missing"}},
    {"Qwen3-30B-A3B", "vocab_size", 0, {"vocab_size", "0"}},
};

INSTANTIATE_TEST_SUITE_P(Fields, BadConfig, ::testing::ValuesIn(kBadFields));

TEST(HuggingFace, ErrorsBeyondTheFirstStandInTheHint) {
    Json json = configJson("Mixtral-8x7B-v0.1");
    json["num_experts_per_tok"] = 9;
    json["num_key_value_heads"] = 5;
    const Result<ModelSpec> m = readModel(json, "c");
    ASSERT_FALSE(m.ok());
    EXPECT_NE(m.error().text().find("num_key_value_heads 5"), std::string::npos);
    EXPECT_NE(m.error().text().find("num_experts_per_tok 9"), std::string::npos);
}

TEST(HuggingFace, NotAnObjectAndNotJson) {
    EXPECT_FALSE(readModelText("[1, 2]", "c").ok());
    EXPECT_FALSE(readModelText("", "c").ok());
    EXPECT_FALSE(readModelText("{\"model_type\": ", "c").ok());
}

}  // namespace
}  // namespace piper
