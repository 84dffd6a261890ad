// SPDX-License-Identifier: Apache-2.0
// Totals are the element counts of the published checkpoints (Hugging Face model pages).
#include "tests/core/model/models.h"

#include "core/base/json.h"

namespace piper {
namespace {

using test::config;

double billions(std::int64_t n) {
    return static_cast<double>(n) / 1e9;
}

TEST(Parameters, Mixtral8x7bHas46702792704) {
    const ModelParameters p = modelParameters(config("Mixtral-8x7B-v0.1"));
    EXPECT_EQ(p.total, 46702792704);
    EXPECT_NEAR(billions(p.active), 12.9, 0.03);
}

TEST(Parameters, OlmoeCountsTheNormsOverAllHeads) {
    const ModelParameters p = modelParameters(config("OLMoE-1B-7B-0924"));
    EXPECT_EQ(p.total, 6919161856);
    EXPECT_NEAR(billions(p.active), 1.28, 0.005);
}

TEST(Parameters, DeepSeekV2LiteWithoutQueryCompression) {
    const ModelParameters p = modelParameters(config("DeepSeek-V2-Lite"));
    EXPECT_EQ(p.total, 15706484224);
    EXPECT_EQ(p.mtp, 0);
}

TEST(Parameters, Qwen3MoeCountsTheNormOfOneHead) {
    const ModelParameters p = modelParameters(config("Qwen3-30B-A3B"));
    EXPECT_EQ(p.total, 30532122624);
    EXPECT_NEAR(billions(p.active), 3.35, 0.05);
}

TEST(Parameters, DeepSeekV3WithAndWithoutMultiTokenPrediction) {
    const ModelParameters p = modelParameters(config("DeepSeek-V3"));
    EXPECT_EQ(p.total - p.mtp, 671026419200);
    EXPECT_NEAR(billions(p.active - p.mtp_active), 37.5, 0.1);
    // The checkpoint holds 684489845504 elements: with copies of embedding and head in the module.
    EXPECT_EQ(p.total + 2 * p.embedding, 684489845504);
}

TEST(Parameters, QwenMoeSharedExpertHasAGate) {
    // Qwen1.5-MoE-A2.7B: 14.3 B parameters, 2.7 B active.
    const Json json = Json::parse(R"({
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        "vocab_size": 151936, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4})");
    const Result<ModelSpec> model = readModel(json, "qwen");
    ASSERT_TRUE(model.ok()) << model.error().text();
    const ModelParameters p = modelParameters(*model);
    EXPECT_EQ(p.total, 14315784192);
    EXPECT_NEAR(billions(p.active), 2.69, 0.02);
    EXPECT_EQ(layerParameters(*model, LayerKind::Moe).shared_experts, 3 * 2048 * 5632 + 2048);
}

TEST(Parameters, Llama3DenseWithGroupedQueries) {
    const Json json = Json::parse(R"({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "vocab_size": 128256, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "rope_theta": 500000.0})");
    const ModelParameters p = modelParameters(*readModel(json, "llama"));
    EXPECT_EQ(p.total, 8030261248);
    EXPECT_EQ(p.active, p.total);
}

TEST(Parameters, TiedEmbeddingsCountOnce) {
    Json json = test::configJson("OLMoE-1B-7B-0924");
    const ModelParameters untied = modelParameters(*readModel(json, "m"));
    json["tie_word_embeddings"] = true;
    const ModelParameters tied = modelParameters(*readModel(json, "m"));
    EXPECT_EQ(tied.head, 0);
    EXPECT_EQ(untied.total - tied.total, 50304 * 2048);
}

/// arXiv 2508.13337, table 3: L (4 H^2 + 2 E H F + H E) in units of 2^30, experts of 2 matrices.
struct XMoe {
    std::int64_t layers, hidden, ffn, experts, topk;
    double total, active;
};

class XMoeParameters : public ::testing::TestWithParam<XMoe> {};

TEST_P(XMoeParameters, MatchThePublishedTable) {
    const XMoe x = GetParam();
    ModelSpec model;
    model.hidden_size = x.hidden;
    model.num_layers = x.layers;
    model.attention.num_heads = model.attention.num_kv_heads = x.hidden / 128;
    model.attention.head_dim = 128;
    model.moe = MoeSpec{.num_experts = x.experts,
                        .router_topk = x.topk,
                        .moe_ffn_hidden_size = x.ffn,
                        .mlp = MlpKind::TwoMatrix};
    model.layers.assign(static_cast<std::size_t>(x.layers), LayerKind::Moe);
    ASSERT_TRUE(checkModel(model).empty());
    const LayerParameters p = layerParameters(model, LayerKind::Moe);
    const double unit = static_cast<double>(x.layers) / 1073741824.0;
    EXPECT_NEAR(static_cast<double>(p.attention + p.router + p.routed_experts) * unit, x.total,
                0.005 * x.total);
    const std::int64_t active = x.topk * expertParameters(model);
    EXPECT_NEAR(static_cast<double>(p.attention + active) * unit, x.active, 0.05 * x.active);
}

INSTANTIATE_TEST_SUITE_P(Table3, XMoeParameters,
                         ::testing::Values(XMoe{28, 2048, 1408, 64, 6, 10.1, 1.3},
                                           XMoe{28, 5120, 1536, 128, 6, 55.2, 5.2},
                                           XMoe{28, 7168, 2048, 256, 8, 201.4, 11.5},
                                           XMoe{61, 7168, 2560, 256, 8, 545.4, 28.7}));

}  // namespace
}  // namespace piper
