// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/work_counter.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(WorkCounter, AddsGemmsAndTheirOperands) {
    WorkCounter work;
    work.addGemm(3, 5, 7);
    const auto first = work.totals();
    EXPECT_EQ(first.flops, 210.0);
    EXPECT_EQ(first.bytes, 4 * (21 + 35 + 15));
    work.addGemm(1, 1, 1);
    const auto second = work.totals() - first;
    EXPECT_EQ(second.flops, 2.0);
    EXPECT_EQ(second.gemm_calls, 1);
    EXPECT_EQ(second.attention_calls, 0);
}

/// The counter and the model must speak of the same FLOPs, or measured and predicted MFU differ.
TEST(WorkCounter, AttentionAgreesWithTheModelsCount) {
    ModelSpec model;
    model.hidden_size = 32;
    model.num_layers = 1;
    model.layers = {LayerKind::Dense};
    model.ffn_hidden_size = 64;
    model.attention.num_heads = 4;
    model.attention.num_kv_heads = 2;
    model.attention.head_dim = 8;
    const AttentionShape shape{3, 20, 4, 2, 8, 8};
    const double per_token =
        layerForwardFlops(model, LayerKind::Dense, 20, AttentionCount::CausalHalf)
            .attention_core.value;
    EXPECT_DOUBLE_EQ(attentionFlops(shape, false), per_token * 60.0);
    EXPECT_DOUBLE_EQ(attentionFlops(shape, true), 2.0 * per_token * 60.0);
}

TEST(WorkCounter, SlidingWindowAgreesWithTheModelsCount) {
    ModelSpec model;
    model.hidden_size = 32;
    model.num_layers = 1;
    model.layers = {LayerKind::Dense};
    model.attention.num_heads = 4;
    model.attention.num_kv_heads = 4;
    model.attention.head_dim = 8;
    for (const std::int64_t window : {4, 16, 64}) {
        model.attention.sliding_window = window;
        const AttentionShape shape{1, 32, 4, 4, 8, 8, window};
        const double per_token =
            layerForwardFlops(model, LayerKind::Dense, 32, AttentionCount::CausalHalf)
                .attention_core.value;
        EXPECT_DOUBLE_EQ(attentionFlops(shape, false), per_token * 32.0) << window;
    }
}

}  // namespace
}  // namespace piper
