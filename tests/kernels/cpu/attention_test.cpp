// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

class CpuAttention : public CpuTest, public ::testing::WithParamInterface<AttentionShape> {
protected:
    struct Inputs {
        Owned q, k, v, d_o;
    };
    Inputs inputs(const AttentionShape& s, float scale = 1.0F) {
        return {random(s.rows(), s.num_heads * s.qk_head_dim, scale),
                random(s.rows(), s.num_kv_heads * s.qk_head_dim, scale),
                random(s.rows(), s.num_kv_heads * s.v_head_dim),
                random(s.rows(), s.num_heads * s.v_head_dim)};
    }
};

TEST_P(CpuAttention, ForwardAndBackwardMatchTheReference) {
    const AttentionShape s = GetParam();
    Inputs in = inputs(s);
    Owned o(s.rows(), s.num_heads * s.v_head_dim), lse(s.batch * s.num_heads, s.seq_len);
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v()));
    const auto want = reference::attention(s, in.q.ref(), in.k.ref(), in.v.ref());
    expectClose(o.m, want.o);
    expectClose(lse.m, want.lse);

    Owned dq(in.q.m.rows, in.q.m.cols), dk(in.k.m.rows, in.k.m.cols), dv(in.v.m.rows, in.v.m.cols);
    EXPECT_OK(cpu().attentionBackward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v(), in.d_o.m, dq.m, dk.m,
                                      dv.m));
    const auto grad = reference::attentionGrad(s, in.q.ref(), in.k.ref(), in.v.ref(), in.d_o.ref());
    // With a window of one key the gradients of q and k are zero.
    constexpr double kSmallest = 0.1;
    expectClose(dq.m, grad.dq, 2e-5, kSmallest);
    expectClose(dk.m, grad.dk, 2e-5, kSmallest);
    expectClose(dv.m, grad.dv, 2e-5, kSmallest);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CpuAttention,
    ::testing::Values(AttentionShape{1, 1, 1, 1, 2, 2}, AttentionShape{2, 5, 4, 2, 6, 6},
                      AttentionShape{1, 64, 2, 2, 16, 16}, AttentionShape{1, 65, 2, 1, 8, 8},
                      AttentionShape{2, 150, 6, 3, 16, 12}, AttentionShape{1, 200, 2, 2, 24, 16},
                      AttentionShape{1, 150, 2, 1, 8, 8, 1}, AttentionShape{1, 200, 2, 1, 8, 8, 70},
                      AttentionShape{1, 130, 2, 1, 8, 8, 500}));

TEST_F(CpuAttention, LargeScoresNeitherOverflowNorVanish) {
    const AttentionShape s{1, 100, 1, 1, 8, 8};
    Inputs in = inputs(s, 1.0F);
    for (float& x : in.q.data) x *= 100.0F;  // scores of several hundred
    for (float& x : in.k.data) x *= 2.0F;
    Owned o(100, 8), lse(1, 100);
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v()));
    for (const float x : o.data) EXPECT_TRUE(std::isfinite(x));
    for (const float x : lse.data) EXPECT_TRUE(std::isfinite(x));
    // Each output lies in the range of the values it averages.
    const auto [low, high] = std::minmax_element(in.v.data.begin(), in.v.data.end());
    for (const float x : o.data) {
        EXPECT_GE(x, *low - 1e-4F);
        EXPECT_LE(x, *high + 1e-4F);
    }
}

TEST_F(CpuAttention, ALaterTokenDoesNotReachAnEarlierOne) {
    const AttentionShape s{1, 100, 2, 1, 8, 8};
    Inputs in = inputs(s);
    Owned before(100, 16), after(100, 16), lse(2, 100);
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, before.m, lse.v()));
    for (std::int64_t c = 0; c < 8; ++c) in.k.m.at(90, c) = in.v.m.at(90, c) = 1e3F;
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, after.m, lse.v()));
    for (std::int64_t i = 0; i < 90 * 16; ++i)
        EXPECT_EQ(before.data[std::size_t(i)], after.data[std::size_t(i)]);
    EXPECT_NE(before.m.at(95, 0), after.m.at(95, 0));
}

TEST_F(CpuAttention, NeverHoldsTheSquareInMemory) {
    const AttentionShape s{1, 2048, 1, 1, 8, 8};
    Inputs in = inputs(s);
    Owned o(2048, 8), lse(1, 2048), dq(2048, 8), dk(2048, 8), dv(2048, 8);
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v()));
    EXPECT_OK(cpu().attentionBackward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v(), in.d_o.m, dq.m, dk.m,
                                      dv.m));
    EXPECT_GT(m_allocator.peakBytes(MemoryTerm::Workspace), 0);
    EXPECT_LT(m_allocator.peakBytes(MemoryTerm::Workspace), 64 * 2048);
}

TEST_F(CpuAttention, CountsTheCausalHalf) {
    const AttentionShape s{2, 10, 4, 2, 6, 4};
    Inputs in = inputs(s);
    Owned o(20, 16), lse(8, 10), dq(20, 24), dk(20, 12), dv(20, 8);
    EXPECT_OK(cpu().attentionForward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v()));
    const double forward = 2.0 * (6 + 4) * (10 / 2.0) * 4 * 20;
    EXPECT_EQ(cpu().work().totals().flops, forward);
    EXPECT_OK(cpu().attentionBackward(s, in.q.m, in.k.m, in.v.m, o.m, lse.v(), in.d_o.m, dq.m, dk.m,
                                      dv.m));
    EXPECT_EQ(cpu().work().totals().flops, 3 * forward);
}

}  // namespace
}  // namespace piper
