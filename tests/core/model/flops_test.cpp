// SPDX-License-Identifier: Apache-2.0
// Published GFLOP per token (TFLOP/s per device over tokens/s per device) of NVIDIA's tables:
// Qwen3-30B-A3B 23.0, Qwen3-235B-A22B 147.9, DeepSeek-V3 249.7, with MTP 260.6, sequences of 4096.
#include "tests/core/model/models.h"

namespace piper {
namespace {

using test::config;

double gflop(const ModelSpec& model, std::int64_t seq_len) {
    return modelFlopsPerToken(model, seq_len).total().value / 1e9;
}

TEST(Flops, AgreeWithPublishedTables) {
    EXPECT_NEAR(gflop(config("Qwen3-30B-A3B"), 4096), 23.08, 0.005);
    EXPECT_NEAR(gflop(test::qwen3Large(), 4096), 148.33, 0.005);
    ModelSpec deepseek = config("DeepSeek-V3");
    EXPECT_NEAR(gflop(deepseek, 4096), 260.64, 0.005);
    deepseek.mtp_num_layers = 0;
    EXPECT_NEAR(gflop(deepseek, 4096), 250.45, 0.005);
}

TEST(Flops, SumOfLayersAndHeadTimesThree) {
    const ModelSpec model = config("DeepSeek-V2-Lite");
    const Flops moe =
        layerForwardFlops(model, LayerKind::Moe, 4096, AttentionCount::CausalHalf).total();
    const Flops dense =
        layerForwardFlops(model, LayerKind::Dense, 4096, AttentionCount::CausalHalf).total();
    const Flops forward = moe * 26.0 + dense + headForwardFlops(model);
    EXPECT_NEAR(modelFlopsPerToken(model, 4096).total() / (forward * 3.0), 1.0, 1e-12);
}

TEST(Flops, SixPerActiveGemmParameterPlusAttention) {
    const ModelSpec model = config("Mixtral-8x7B-v0.1");
    const TokenFlops f = modelFlopsPerToken(model, 4096);
    const ModelParameters p = modelParameters(model);
    const std::int64_t norms = 32 * 2 * 4096 + 4096;
    const double gemms = 6.0 * static_cast<double>(p.active - p.embedding - norms);
    EXPECT_DOUBLE_EQ((f.total() - f.attention_core).value, gemms);
    // 3 passes x 2 products x 2 FLOPs x half of 4096 keys x 32 heads x 128, 32 layers.
    EXPECT_DOUBLE_EQ(f.attention_core.value, 32.0 * 6.0 * 4096.0 * 4096.0);
}

TEST(Flops, FullAttentionIsTwiceTheCausalHalf) {
    const ModelSpec model = config("OLMoE-1B-7B-0924");
    const Flops half = modelFlopsPerToken(model, 4096).attention_core;
    const Flops full = modelFlopsPerToken(model, 4096, AttentionCount::Full).attention_core;
    EXPECT_DOUBLE_EQ(full / half, 2.0);
}

TEST(Flops, SlidingWindowLimitsTheContext) {
    ModelSpec model = config("Mixtral-8x7B-v0.1");
    const double without = modelFlopsPerToken(model, 4096).attention_core.value;
    model.attention.sliding_window = 4096;
    EXPECT_DOUBLE_EQ(modelFlopsPerToken(model, 4096).attention_core.value, without);
    model.attention.sliding_window = 1024;
    // 1024 - 1024^2 / 8192 = 896 keys on average instead of 2048.
    EXPECT_DOUBLE_EQ(modelFlopsPerToken(model, 4096).attention_core.value,
                     without * 896.0 / 2048.0);
}

TEST(Flops, TwoMatrixExpertsCountTwoThirds) {
    ModelSpec model = config("OLMoE-1B-7B-0924");
    const Flops three = modelFlopsPerToken(model, 1024).routed_experts;
    model.moe->mlp = MlpKind::TwoMatrix;
    EXPECT_DOUBLE_EQ(modelFlopsPerToken(model, 1024).routed_experts / three, 2.0 / 3.0);
}

}  // namespace
}  // namespace piper
