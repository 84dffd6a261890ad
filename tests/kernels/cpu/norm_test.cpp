// SPDX-License-Identifier: Apache-2.0
// LayerNorm, rotation of a part of each head, and the limits of the router.
#include <set>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

TEST_F(CpuTest, LayerNormAndItsGradients) {
    for (const std::int64_t h : {3, 7, 64, 133}) {
        Owned x = random(9, h, 2.0F), w = random(1, h), b = random(1, h), y(9, h);
        Owned mean(1, 9), inverse(1, 9), dy = random(9, h), dx(9, h), dw = random(1, h),
                                         db = random(1, h), more = random(9, h);
        const reference::Tensor dw0 = dw.ref(), db0 = db.ref(), more0 = more.ref();
        EXPECT_OK(cpu().layerNormForward(x.m, w.v(), b.v(), 1e-3F, y.m, mean.v(), inverse.v()));
        expectClose(y.m, reference::layerNorm(x.ref(), w.ref(), b.ref(), 1e-3));
        const auto grad = reference::layerNormGrad(dy.ref(), x.ref(), w.ref(), 1e-3);
        EXPECT_OK(cpu().layerNormInputGrad(dy.m, x.m, w.v(), mean.v(), inverse.v(), dx.m,
                                           Store::Overwrite));
        expectClose(dx.m, grad.dx, 1e-4, 1e-3);
        EXPECT_OK(cpu().layerNormInputGrad(dy.m, x.m, w.v(), mean.v(), inverse.v(), more.m,
                                           Store::Accumulate));
        expectClose(more.m, reference::add(more0, grad.dx), 1e-4);
        EXPECT_OK(cpu().layerNormWeightGrad(dy.m, x.m, mean.v(), inverse.v(), dw.v(), db.v()));
        expectClose(dw.m, reference::add(dw0, grad.dweight), 1e-4);
        expectClose(db.m, reference::add(db0, grad.dbias), 1e-4);
    }
}

TEST_F(CpuTest, RotationOfAPartOfEachHead) {
    const RotaryShape shape{
        .seq_len = 5, .num_heads = 3, .head_dim = 6, .theta = 1e4, .stride = 10, .first = 4};
    Owned x = random(10, 30);
    const reference::Tensor before = x.ref();
    EXPECT_OK(cpu().rotaryForward(shape, x.m));
    expectClose(x.m, reference::rotary(shape, before, 1.0));
    for (const std::int64_t c : {0, 3, 10, 23}) EXPECT_EQ(x.m.at(4, c), before.at(4, c));
    EXPECT_OK(cpu().rotaryInputGrad(shape, x.m));
    expectClose(x.m, before);
}

class RouterLimits : public CpuTest {
protected:
    /// Runs a shape on random logits against the reference and returns the experts.
    std::vector<std::int32_t> choose(const RouterShape& s, std::int64_t rows) {
        Owned logits = random(rows, s.num_experts), scores(rows, s.num_experts);
        Owned weights(rows, s.router_topk);
        std::vector<std::int32_t> experts(static_cast<std::size_t>(rows * s.router_topk), -1);
        EXPECT_OK(
            cpu().routerForward(s, RouterMode::Choose, logits.m, scores.m, experts, weights.m));
        const auto want = reference::router(s, logits.ref(), {});
        EXPECT_EQ(experts, want.experts);
        expectClose(weights.m, want.weights);
        return experts;
    }
};

TEST_F(RouterLimits, OfGroups) {
    for (const bool biased : {false, true}) {
        Owned bias = random(1, 24);
        RouterShape s{24, 4, ScoringFunction::Sigmoid, true, 2.5};
        s.num_groups = 6;
        s.topk_groups = 2;
        if (biased) s.bias = bias.v();
        const auto experts = choose(s, 40);
        for (std::size_t row = 0; row < 40; ++row) {
            std::set<std::int32_t> groups, distinct;
            for (std::size_t j = 0; j < 4; ++j) {
                groups.insert(experts[row * 4 + j] / 4);
                distinct.insert(experts[row * 4 + j]);
            }
            EXPECT_LE(groups.size(), 2U);
            EXPECT_EQ(distinct.size(), 4U);
        }
    }
}

TEST_F(RouterLimits, OfNodes) {
    std::vector<std::int32_t> node(16);
    for (std::size_t e = 0; e < node.size(); ++e) node[e] = static_cast<std::int32_t>(e % 4);
    RouterShape s{16, 6, ScoringFunction::Softmax, false, 1.0};
    s.node_of_expert = node;
    s.node_limit = 2;
    const auto experts = choose(s, 30);
    for (std::size_t row = 0; row < 30; ++row) {
        std::set<std::int32_t> nodes;
        for (std::size_t j = 0; j < 6; ++j) nodes.insert(experts[row * 6 + j] % 4);
        EXPECT_LE(nodes.size(), 2U);
    }
}

TEST_F(RouterLimits, ABiasChoosesAndDoesNotWeigh) {
    Owned logits(1, 4), scores(1, 4), weights(1, 2);
    logits.data = {2.0F, 1.0F, 0.0F, -1.0F};
    const std::vector<float> bias{0.0F, 0.0F, 0.0F, 5.0F};
    RouterShape s{4, 2, ScoringFunction::Sigmoid, false, 1.0};
    s.bias = bias;
    std::vector<std::int32_t> experts(2, -1);
    EXPECT_OK(cpu().routerForward(s, RouterMode::Choose, logits.m, scores.m, experts, weights.m));
    EXPECT_EQ(experts, (std::vector<std::int32_t>{3, 0}));
    EXPECT_NEAR(weights.m.at(0, 0), 1.0 / (1.0 + std::exp(1.0)), 1e-6);
}

TEST_F(CpuTest, GatedRowsAndTheirGradient) {
    Owned gate = random(1, 11, 2.0F), x = random(11, 19), y(11, 19), more = random(11, 19);
    Owned dy = random(11, 19), dx(11, 19), dgate(1, 11);
    const reference::Tensor more0 = more.ref();
    reference::Tensor column = gate.ref();
    std::swap(column.rows, column.cols);
    const reference::Tensor want = reference::gateRows(column, x.ref());
    EXPECT_OK(cpu().gateRowsForward(gate.v(), x.m, y.m, Store::Overwrite));
    expectClose(y.m, want);
    EXPECT_OK(cpu().gateRowsForward(gate.v(), x.m, more.m, Store::Accumulate));
    expectClose(more.m, reference::add(more0, want));
    const auto grad = reference::gateRowsGrad(dy.ref(), column, x.ref());
    EXPECT_OK(cpu().gateRowsInputGrad(dy.m, gate.v(), x.m, dx.m, dgate.v()));
    expectClose(dx.m, grad.dx);
    expectClose(dgate.m, grad.dgate);
}

TEST_F(CpuTest, BlocksOfColumnsSpreadAndAdd) {
    Owned x = random(4, 5), y(4, 12), sum(4, 2);
    EXPECT_OK(cpu().fill(y.v(), 0.0F));
    // The last two columns of x, in three places of y.
    EXPECT_OK(cpu().copyBlocks(x.m, {3, 0}, y.m, {1, 4}, 3, 2, Store::Overwrite));
    for (std::int64_t c = 0; c < 12; ++c)
        EXPECT_EQ(y.m.at(2, c), c % 4 == 1 ? x.m.at(2, 3) : c % 4 == 2 ? x.m.at(2, 4) : 0.0F);
    EXPECT_OK(cpu().fill(sum.v(), 0.0F));
    EXPECT_OK(cpu().copyBlocks(y.m, {1, 4}, sum.m, {0, 0}, 3, 2, Store::Accumulate));
    EXPECT_FLOAT_EQ(sum.m.at(3, 1), 3.0F * x.m.at(3, 4));
}

TEST_F(CpuTest, ATargetElsewhereHasASoftmaxAndNoLoss) {
    Owned logits = random(3, 8, 2.0F), lse(1, 3);
    const reference::Tensor before = logits.ref();
    const std::vector<std::int32_t> targets{2, Backend::kTargetElsewhere, -1};
    double loss = 0.0;
    EXPECT_OK(cpu().crossEntropyForward(logits.m, targets, lse.v(), loss));
    EXPECT_NEAR(loss, reference::crossEntropy(before, {2, -1, -1}), 1e-5 * loss);
    EXPECT_OK(cpu().crossEntropyInputGrad(logits.m, targets, lse.v(), 0.5F));
    double elsewhere = 0.0;
    for (std::int64_t c = 0; c < 8; ++c) {
        elsewhere += static_cast<double>(logits.m.at(1, c));
        EXPECT_EQ(logits.m.at(2, c), 0.0F);
    }
    EXPECT_NEAR(elsewhere, 0.5, 1e-5);
}

}  // namespace
}  // namespace piper
