// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

TEST_F(CpuTest, RmsNormForwardAndBothGradients) {
    for (const std::int64_t cols : {1, 7, 64, 129}) {
        Owned x = random(11, cols), w = random(1, cols), dy = random(11, cols), y(11, cols);
        Owned inverse(1, 11), dx(11, cols), sum = random(11, cols), dw = random(1, cols);
        const reference::Tensor dw0 = dw.ref(), sum0 = sum.ref();
        EXPECT_OK(cpu().rmsNormForward(x.m, w.v(), 1e-5F, y.m, inverse.v()));
        expectClose(y.m, reference::rmsNorm(x.ref(), w.ref(), 1e-5));
        const auto want = reference::rmsNormGrad(dy.ref(), x.ref(), w.ref(), 1e-5);
        EXPECT_OK(cpu().rmsNormInputGrad(dy.m, x.m, w.v(), inverse.v(), dx.m, Store::Overwrite));
        // With one column two equal terms cancel: bound the error by their size.
        expectClose(dx.m, want.dx, 2e-5, 1.0);
        EXPECT_OK(cpu().rmsNormInputGrad(dy.m, x.m, w.v(), inverse.v(), sum.m, Store::Accumulate));
        expectClose(sum.m, reference::add(sum0, want.dx));
        EXPECT_OK(cpu().rmsNormWeightGrad(dy.m, x.m, inverse.v(), dw.v()));
        expectClose(dw.v(), reference::add(dw0, want.dweight));
    }
}

TEST_F(CpuTest, RotaryTurnsAndTurnsBack) {
    for (const RotaryShape s : {RotaryShape{5, 3, 2, 1e4}, RotaryShape{33, 2, 24, 1e6}}) {
        Owned x = random(2 * s.seq_len, s.num_heads * s.head_dim);
        const reference::Tensor before = x.ref();
        EXPECT_OK(cpu().rotaryForward(s, x.m));
        expectClose(x.m, reference::rotary(s, before, 1.0));
        EXPECT_OK(cpu().rotaryInputGrad(s, x.m));
        expectClose(x.m, before);
    }
}

TEST_F(CpuTest, SwigluForwardAndGradient) {
    Owned gate_up = random(9, 2 * 37, 3.0F), dout = random(9, 37), out(9, 37), d(9, 2 * 37);
    EXPECT_OK(cpu().swigluForward(gate_up.m, out.m));
    expectClose(out.m, reference::swiglu(gate_up.ref()));
    EXPECT_OK(cpu().swigluInputGrad(dout.m, gate_up.m, d.m));
    expectClose(d.m, reference::swigluGrad(dout.ref(), gate_up.ref()));
}

TEST_F(CpuTest, GeluForwardAndGradient) {
    Owned x = random(9, 37, 3.0F), dout = random(9, 37), out(9, 37), dx(9, 37);
    EXPECT_OK(cpu().geluForward(x.m, out.m));
    expectClose(out.m, reference::gelu(x.ref()));
    EXPECT_OK(cpu().geluInputGrad(dout.m, x.m, dx.m));
    expectClose(dx.m, reference::geluGrad(dout.ref(), x.ref()));
}

TEST_F(CpuTest, ActivationsSurviveExtremes) {
    Owned x(1, 8), out(1, 4);
    x.data = {-1e4F, 1e4F, -90.0F, 90.0F, 1.0F, 1.0F, 1.0F, 1.0F};
    EXPECT_OK(cpu().swigluForward(x.m, out.m));
    expectClose(out.m, reference::swiglu(x.ref()));
    for (const float v : out.data) EXPECT_TRUE(std::isfinite(v));
    x.data[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_OK(cpu().swigluForward(x.m, out.m));
    EXPECT_TRUE(std::isnan(out.data[0]));
}

TEST_F(CpuTest, AdamWFollowsTheReferenceOverSteps) {
    Owned w = random(1, 103), m(1, 103), v(1, 103);
    EXPECT_OK(cpu().fill(m.v(), 0.0F));
    EXPECT_OK(cpu().fill(v.v(), 0.0F));
    reference::Tensor rw = w.ref(), rm = m.ref(), rv = v.ref();
    for (std::int64_t step = 1; step <= 5; ++step) {
        const Owned g = random(1, 103);
        const AdamWParameters p{1e-2, 0.9, 0.95, 1e-8, 0.1, step, 0.25};
        EXPECT_OK(cpu().adamW(p, g.data, w.v(), m.v(), v.v()));
        reference::adamW(p, g.ref(), rw, rm, rv);
    }
    expectClose(w.v(), rw);
    expectClose(m.v(), rm);
    expectClose(v.v(), rv);
}

TEST_F(CpuTest, SquaredSumAddsInDouble) {
    std::vector<float> x(100003, 1e-3F);
    x[5] = 1e4F;
    double sum = 2.0;
    EXPECT_OK(cpu().addSquaredSum(x, sum));
    const double tiny = static_cast<double>(1e-3F);
    EXPECT_NEAR(sum, 2.0 + 1e8 + 100002 * tiny * tiny, 1e-3);
    x[7] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_OK(cpu().addSquaredSum(x, sum));
    EXPECT_TRUE(std::isnan(sum));
}

TEST_F(CpuTest, ElementOperations) {
    Owned x = random(3, 17), y = random(3, 17);
    const reference::Tensor want = reference::add(x.ref(), y.ref());
    EXPECT_OK(cpu().add(x.v(), y.v()));
    expectClose(y.m, want);
    reference::Tensor half = y.ref();
    for (double& e : half.data) e *= 0.5;
    EXPECT_OK(cpu().scale(y.v(), 0.5F));
    expectClose(y.m, half);
    Owned sums = random(20, 6);
    std::vector<double> got(6, std::nan(""));
    EXPECT_OK(cpu().columnSums(sums.m, got));
    for (std::int64_t c = 0; c < 6; ++c) {
        double sum = 0.0;
        for (std::int64_t r = 0; r < 20; ++r) sum += static_cast<double>(sums.m.at(r, c));
        EXPECT_NEAR(got[static_cast<std::size_t>(c)], sum, 1e-9);
    }
}

TEST(CpuLoops, EverySetTheProcessorRunsComputesTheSame) {
    std::vector<float> x(301);
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0F, 20.0F);
    for (float& e : x) e = normal(random);
    std::vector<const Loops*> sets{&kLoopsBaseline, &chooseLoops()};
    for (const Loops* set : sets) {
        std::vector<float> e = x;
        const float top = set->rowMax(301, e.data());
        EXPECT_EQ(top, *std::max_element(x.begin(), x.end()));
        const double sum = set->expSum(301, top, e.data());
        EXPECT_NEAR(static_cast<double>(set->expRow(301, top, e.data())), sum, 1e-5 * sum);
        for (std::size_t i = 0; i < e.size(); ++i) {
            const double want = std::exp(static_cast<double>(x[i] - top));
            EXPECT_NEAR(static_cast<double>(e[i]), want, 3e-7 * want + 1.2e-38) << set->name;
        }
    }
}

}  // namespace
}  // namespace piper
