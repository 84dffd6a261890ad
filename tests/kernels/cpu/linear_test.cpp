// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/cpu/loops.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

using reference::Offsets;

struct LinearShape {
    std::int64_t m, n, k;
};

class CpuLinear : public CpuTest, public ::testing::WithParamInterface<LinearShape> {};

TEST_P(CpuLinear, ForwardAndBothGradientsMatchTheReference) {
    const auto [m, n, k] = GetParam();
    Owned x = random(m, k), w = random(n, k), dy = random(m, n);
    Owned y(m, n), dx(m, k), dw = random(n, k);
    const reference::Tensor before = dw.ref();
    EXPECT_OK(cpu().linearForward(x.m, w.m, y.m, Store::Overwrite));
    expectClose(y.m, reference::linear(x.ref(), w.ref()));
    EXPECT_OK(cpu().linearInputGrad(dy.m, w.m, dx.m, Store::Overwrite));
    expectClose(dx.m, reference::linearInputGrad(dy.ref(), w.ref()));
    EXPECT_OK(cpu().linearWeightGrad(dy.m, x.m, dw.m));
    expectClose(dw.m, reference::add(before, reference::linearWeightGrad(dy.ref(), x.ref())));
}

TEST_P(CpuLinear, AccumulatesWhereAsked) {
    const auto [m, n, k] = GetParam();
    Owned x = random(m, k), w = random(n, k), y = random(m, n), dx = random(m, k);
    const reference::Tensor y0 = y.ref(), dx0 = dx.ref();
    EXPECT_OK(cpu().linearForward(x.m, w.m, y.m, Store::Accumulate));
    expectClose(y.m, reference::add(y0, reference::linear(x.ref(), w.ref())));
    EXPECT_OK(cpu().linearInputGrad(y.m, w.m, dx.m, Store::Accumulate));
    expectClose(dx.m, reference::add(dx0, reference::linearInputGrad(y.ref(), w.ref())));
}

INSTANTIATE_TEST_SUITE_P(Shapes, CpuLinear,
                         ::testing::Values(LinearShape{1, 1, 1}, LinearShape{3, 5, 7},
                                           LinearShape{64, 96, 32}, LinearShape{129, 33, 65},
                                           LinearShape{2, 256, 128}));

TEST_F(CpuTest, LinearOfNoRowsLeavesWeightGradientsAlone) {
    Owned x(0, 4), dy(0, 3), dw = random(3, 4), y(0, 3), w = random(3, 4), dx(0, 4);
    const reference::Tensor before = dw.ref();
    EXPECT_OK(cpu().linearForward(x.m, w.m, y.m, Store::Overwrite));
    EXPECT_OK(cpu().linearInputGrad(dy.m, w.m, dx.m, Store::Overwrite));
    EXPECT_OK(cpu().linearWeightGrad(dy.m, x.m, dw.m));
    expectClose(dw.m, before, 0.0);
}

TEST_F(CpuTest, WhatRunsMeanwhileIsCalledAfterEveryProduct) {
    int calls = 0;
    cpu().setMeanwhile([&calls] { ++calls; });
    const std::int64_t n = 48, k = 64;
    const Offsets offsets{0, 1, 1, 4, 304};  // few rows, none, few, many
    Owned x = random(304, k), w = random(4 * n, k), y(304, n), dx(304, k), dw = random(4 * n, k);
    EXPECT_OK(cpu().groupedLinearForward(x.m, offsets, w.m, y.m));
    EXPECT_EQ(std::exchange(calls, 0), 3);
    EXPECT_OK(cpu().groupedLinearInputGrad(y.m, offsets, w.m, dx.m));
    EXPECT_EQ(std::exchange(calls, 0), 3);
    EXPECT_OK(cpu().groupedLinearWeightGrad(y.m, x.m, offsets, dw.m));
    EXPECT_EQ(std::exchange(calls, 0), 3);
    cpu().setMeanwhile({});
    EXPECT_OK(cpu().linearForward(x.m, w.m.slice(0, n), y.m, Store::Overwrite));
    EXPECT_EQ(calls, 0);
}

TEST_F(CpuTest, GroupedLinearMatchesWithEmptyExperts) {
    const Offsets offsets{0, 0, 5, 5, 18, 19, 19};
    const std::int64_t n = 9, k = 13;
    Owned x = random(19, k), w = random(6 * n, k), dy = random(19, n);
    Owned y(19, n), dx(19, k), dw = random(6 * n, k);
    const reference::Tensor before = dw.ref();
    EXPECT_OK(cpu().groupedLinearForward(x.m, offsets, w.m, y.m));
    expectClose(y.m, reference::groupedLinear(x.ref(), offsets, w.ref()));
    EXPECT_OK(cpu().groupedLinearInputGrad(dy.m, offsets, w.m, dx.m));
    expectClose(dx.m, reference::groupedLinearInputGrad(dy.ref(), offsets, w.ref()));
    EXPECT_OK(cpu().groupedLinearWeightGrad(dy.m, x.m, offsets, dw.m));
    expectClose(dw.m, reference::add(
                          before, reference::groupedLinearWeightGrad(dy.ref(), x.ref(), offsets)));
}

TEST_F(CpuTest, GroupedLinearOfFewRowsAndOddSizes) {
    for (const auto& [n, k] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {17, 33}, {130, 257}, {100, 1400}}) {
        // On both sides of where a loop gives way to a GEMM.
        const Offsets offsets{
            0, 1, 3, 6, 10, 15, 21, 21 + Loops::kDotRows, 22 + 2 * Loops::kDotRows};
        const std::int64_t rows = offsets.back();
        Owned x = random(rows, k), w = random(8 * n, k), y(rows, n), dy = random(rows, n);
        Owned dx(rows, k), dw = random(8 * n, k);
        const reference::Tensor before = dw.ref();
        EXPECT_OK(cpu().groupedLinearForward(x.m, offsets, w.m, y.m));
        expectClose(y.m, reference::groupedLinear(x.ref(), offsets, w.ref()));
        EXPECT_OK(cpu().groupedLinearInputGrad(dy.m, offsets, w.m, dx.m));
        expectClose(dx.m, reference::groupedLinearInputGrad(dy.ref(), offsets, w.ref()));
        EXPECT_OK(cpu().groupedLinearWeightGrad(dy.m, x.m, offsets, dw.m));
        expectClose(dw.m, reference::add(before, reference::groupedLinearWeightGrad(
                                                     dy.ref(), x.ref(), offsets)));
    }
}

TEST_F(CpuTest, RowsForwardOfEveryInstructionSetAndNumberOfRows) {
    std::vector<const Loops*> tables{&kLoopsBaseline};
#ifdef PIPER_LOOPS_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        tables.push_back(&kLoopsAvx2);
#endif
    if (&chooseLoops() != tables.back()) tables.push_back(&chooseLoops());
    std::vector<float> scratch(Loops::kScratch);
    // The last has more rows than fit the scratch at once.
    for (const auto& [m, n, k] : std::initializer_list<LinearShape>{{1, 1, 1},
                                                                    {2, 7, 16},
                                                                    {3, 5, 33},
                                                                    {4, 11, 7},
                                                                    {5, 5, 64},
                                                                    {6, 9, 65},
                                                                    {13, 26, 50},
                                                                    {31, 12, 96},
                                                                    {23, 3, 16000}})
        for (const Loops* loops : tables) {
            Owned x = random(m, k), w = random(n, k), y(m, n);
            loops->rowsForward(m, n, k, x.m.data, w.m.data, y.m.data, scratch.data());
            SCOPED_TRACE(fmt::format("{} {} x {} x {}", loops->name, m, n, k));
            expectClose(y.m, reference::linear(x.ref(), w.ref()));
        }
}

TEST_F(CpuTest, GroupedLinearOfNoRowsAtAll) {
    const Offsets offsets{0, 0, 0};
    Owned x(0, 3), w = random(8, 3), y(0, 4), dw = random(8, 3), dx(0, 3);
    const reference::Tensor before = dw.ref();
    EXPECT_OK(cpu().groupedLinearForward(x.m, offsets, w.m, y.m));
    EXPECT_OK(cpu().groupedLinearInputGrad(y.m, offsets, w.m, dx.m));
    EXPECT_OK(cpu().groupedLinearWeightGrad(y.m, x.m, offsets, dw.m));
    expectClose(dw.m, before, 0.0);
    EXPECT_EQ(cpu().work().totals().flops, 0.0);
}

TEST_F(CpuTest, CountsTheFlopsOfWhatItWasGiven) {
    Owned x = random(6, 4), w = random(5, 4), y(6, 5), dw = random(5, 4), dx(6, 4);
    EXPECT_OK(cpu().linearForward(x.m, w.m, y.m, Store::Overwrite));
    EXPECT_EQ(cpu().work().totals().flops, 2.0 * 6 * 5 * 4);
    EXPECT_OK(cpu().linearInputGrad(y.m, w.m, dx.m, Store::Overwrite));
    EXPECT_OK(cpu().linearWeightGrad(y.m, x.m, dw.m));
    EXPECT_EQ(cpu().work().totals().flops, 3 * 2.0 * 6 * 5 * 4);

    const auto before = cpu().work().totals();
    Owned experts = random(2 * 5, 4), rows(6, 5);
    EXPECT_OK(cpu().groupedLinearForward(x.m, Offsets{0, 6, 6}, experts.m, rows.m));
    const auto done = cpu().work().totals() - before;
    EXPECT_EQ(done.flops, 2.0 * 6 * 5 * 4);
    EXPECT_EQ(done.gemm_calls, 1);
}

TEST_F(CpuTest, BiasAndItsGradient) {
    Owned y = random(7, 5), bias = random(1, 5), dbias = random(1, 5);
    reference::Tensor want = y.ref(), want_grad = dbias.ref();
    for (std::int64_t r = 0; r < 7; ++r)
        for (std::int64_t c = 0; c < 5; ++c) want.at(r, c) += bias.ref().at(0, c);
    EXPECT_OK(cpu().biasForward(bias.v(), y.m));
    expectClose(y.m, want);
    for (std::int64_t r = 0; r < 7; ++r)
        for (std::int64_t c = 0; c < 5; ++c) want_grad.at(0, c) += want.at(r, c);
    EXPECT_OK(cpu().biasWeightGrad(y.m, dbias.v()));
    expectClose(dbias.v(), want_grad);
}

TEST_F(CpuTest, RepeatsBitByBit) {
    Owned x = random(77, 65), w = random(50, 65), a(77, 50), b(77, 50);
    EXPECT_OK(cpu().linearForward(x.m, w.m, a.m, Store::Overwrite));
    EXPECT_OK(cpu().linearForward(x.m, w.m, b.m, Store::Overwrite));
    EXPECT_EQ(a.data, b.data);
    Result<std::unique_ptr<Backend>> other = makeCpuBackend(m_allocator);
    ASSERT_TRUE(other.ok());
    Owned c(77, 50);
    EXPECT_OK((*other)->linearForward(x.m, w.m, c.m, Store::Overwrite));
    EXPECT_EQ(a.data, c.data);
}

}  // namespace
}  // namespace piper
