// SPDX-License-Identifier: Apache-2.0
// Permute, combine, SwiGLU and cross-entropy on emulated blocks against the reference operations.
#include "kernels/cuda/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/loss_kernels.h"
#include "tests/kernels/cuda/device_rows.h"
#include "tests/kernels/cuda/emulated_block.h"

namespace piper::cuda {
namespace {

using reference::Ids;
using reference::Tensor;
using test::DeviceRows;
using test::kRounding;
using test::kThreads;
using test::runGrid;

/// A run's seed, printed when it fails.
class RowKernels : public testing::Test {
protected:
    RowKernels() : m_seed(std::random_device{}()), m_random(m_seed) {}
    void SetUp() override { RecordProperty("seed", std::to_string(m_seed)); }

    /// Slots of tokens in random order; `dropped` of them in no row.
    void route(std::int64_t tokens, int topk, int dropped) {
        const auto slots = static_cast<std::size_t>(tokens * topk);
        m_slot_of_row.resize(slots);
        std::iota(m_slot_of_row.begin(), m_slot_of_row.end(), 0);
        std::shuffle(m_slot_of_row.begin(), m_slot_of_row.end(), m_random);
        m_row_of_slot.assign(slots, -1);
        for (std::size_t row = 0; row < slots; ++row) {
            if (row < static_cast<std::size_t>(dropped)) {
                m_slot_of_row[row] = -1;
            } else {
                m_row_of_slot[static_cast<std::size_t>(m_slot_of_row[row])] =
                    static_cast<std::int32_t>(row);
            }
        }
    }

    template <int Width, class T>
    void expectPermute(std::int64_t tokens, int topk, int hidden, int shift) {
        route(tokens, topk, 2);
        DeviceRows<T> x(tokens, hidden, shift);
        DeviceRows<T> rows(tokens * topk, hidden, shift);
        x.fill(m_random);
        const PermuteArguments<T> a{
            x.data(), m_slot_of_row.data(), rows.data(), tokens * topk, topk, hidden};
        runGrid(3, kThreads, 16, m_seed, [&](auto& m) { permuteBody<Width>(m, a); });
        rows.expectNear(reference::permute(x.tensor(), m_slot_of_row, topk), 0.0, 0.0);
    }

    template <int Width, class T>
    void expectCombine(std::int64_t tokens, int topk, int hidden, bool weighted, bool accumulate) {
        route(tokens, topk, 3);
        DeviceRows<T> rows(tokens * topk, hidden);
        DeviceRows<T> y(tokens, hidden);
        DeviceRows<float> weights(tokens, topk);
        rows.fill(m_random);
        weights.fill(m_random);
        if (accumulate) y.fill(m_random);
        const Tensor before = y.tensor();
        const CombineArguments<T> a{rows.data(),
                                    m_row_of_slot.data(),
                                    weighted ? weights.data() : nullptr,
                                    y.data(),
                                    tokens,
                                    topk,
                                    hidden,
                                    accumulate};
        runGrid(2, kThreads, 16, m_seed, [&](auto& m) { combineBody<Width>(m, a); });
        Tensor wanted = weighted
                            ? reference::combine(rows.tensor(), m_row_of_slot, weights.tensor())
                            : reference::permuteGrad(rows.tensor(), m_row_of_slot, topk);
        if (accumulate) wanted = reference::add(wanted, before);
        y.expectNear(wanted, kRounding<T>, 1e-5);
    }

    template <int Width, class T>
    void expectCombineGrad(std::int64_t tokens, int topk, int hidden) {
        route(tokens, topk, 3);
        DeviceRows<T> rows(tokens * topk, hidden);
        DeviceRows<T> dy(tokens, hidden);
        DeviceRows<T> drows(tokens * topk, hidden);
        DeviceRows<float> weights(tokens, topk);
        DeviceRows<float> dweights(tokens, topk);
        rows.fill(m_random);
        dy.fill(m_random);
        weights.fill(m_random);
        // Rows that nobody took stay as they are.
        drows.fill(m_random);
        const Tensor before = drows.tensor();
        const CombineGradArguments<T> a{dy.data(),      rows.data(),  m_row_of_slot.data(),
                                        weights.data(), drows.data(), dweights.data(),
                                        tokens,         topk,         hidden};
        runGrid(2, kThreads, 16, m_seed, [&](auto& m) { combineGradBody<Width>(m, a); });
        auto wanted =
            reference::combineGrad(dy.tensor(), rows.tensor(), m_row_of_slot, weights.tensor());
        for (std::int64_t row = 0; row < 3; ++row) wanted.drows.place(row, before.slice(row, 1));
        drows.expectNear(wanted.drows, kRounding<T>, 1e-6);
        dweights.expectNear(wanted.dweights, 1e-5, 1e-4);
    }

    template <int Width, class T>
    void expectSwiglu(std::int64_t rows, int ffn, int shift) {
        DeviceRows<T> gate_up(rows, 2 * ffn, shift);
        DeviceRows<T> dout(rows, ffn, shift);
        DeviceRows<T> out(rows, ffn, shift);
        DeviceRows<T> dgate_up(rows, 2 * ffn, shift);
        gate_up.fill(m_random, 6.0F);
        dout.fill(m_random);
        gate_up.data()[0] = fromFloat<T>(-100.0F);  // exp overflows in f32
        const SwigluArguments<T> forward{gate_up.data(), nullptr, out.data(), rows, ffn};
        runGrid(2, kThreads, 16, m_seed, [&](auto& m) { swigluBody<Width>(m, forward); });
        out.expectNear(reference::swiglu(gate_up.tensor()), kRounding<T>, 1e-5);
        const SwigluArguments<T> gradient{gate_up.data(), dout.data(), dgate_up.data(), rows, ffn};
        runGrid(2, kThreads, 16, m_seed, [&](auto& m) { swigluGradBody<Width>(m, gradient); });
        dgate_up.expectNear(reference::swigluGrad(dout.tensor(), gate_up.tensor()), kRounding<T>,
                            1e-5);
    }

    template <int Width, class T>
    void expectCrossEntropy(int vocab, float reach, bool one_pass) {
        const std::int64_t rows = 5;
        DeviceRows<T> logits(rows, vocab);
        logits.fill(m_random, reach);
        const Ids targets{0, vocab - 1, -1, kTargetElsewhere, vocab};
        const Ids in_range{0, vocab - 1, -1, kTargetElsewhere, -1};
        DeviceRows<float> lse(1, rows);
        DeviceRows<float> loss(1, rows);
        std::int32_t bad = -1;
        const Tensor before = logits.tensor();
        CrossEntropyArguments<T> a{logits.data(), targets.data(), lse.data(), loss.data(),
                                   &bad,          rows,           vocab,      0.25F,
                                   true,          one_pass};
        const auto run = [&] {
            runGrid(2, kThreads, kThreads / 32 * 8, m_seed,
                    [&](auto& m) { crossEntropyBody<Width>(m, a); });
        };
        run();
        if (!one_pass) {
            logits.expectNear(before, 0.0, 0.0);
            a.forward = false;
            a.gradient = true;
            run();
        }
        EXPECT_EQ(bad, 4);
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += double(loss.data()[r]);
        EXPECT_NEAR(sum, reference::crossEntropy(before, in_range), 1e-5 * sum + 1e-5);
        Tensor wanted = reference::crossEntropyGrad(before, in_range, 0.25);
        // The row whose target is elsewhere has its softmax: that of a target at hand without it.
        const Tensor elsewhere = reference::crossEntropyGrad(before.slice(3, 1), Ids{0}, 0.25);
        wanted.place(3, elsewhere);
        wanted.at(3, 0) += 0.25;
        logits.expectNear(wanted, kRounding<T>, 1e-6);
    }

    std::uint32_t m_seed;
    std::mt19937 m_random;
    Ids m_slot_of_row;
    Ids m_row_of_slot;
};

TEST_F(RowKernels, PermuteMovesEveryRow) {
    expectPermute<8, Bf16>(9, 2, 16, 0);
    expectPermute<8, Bf16>(5, 3, 1064, 0);  // more than one turn of pieces in flight
    expectPermute<4, float>(9, 3, 44, 0);
    expectPermute<1, Bf16>(4, 1, 7, 1);
    expectPermute<1, float>(4, 2, 131, 1);
}

TEST_F(RowKernels, CombineAddsTheSlotsOfATokenInOrder) {
    for (const bool weighted : {true, false}) {
        for (const bool accumulate : {true, false}) {
            expectCombine<8, Bf16>(7, 3, 264, weighted, accumulate);
            expectCombine<4, float>(7, 8, 12, weighted, accumulate);
            expectCombine<1, float>(5, 2, 13, weighted, accumulate);
        }
    }
}

TEST_F(RowKernels, CombineGradientReachesRowsAndWeights) {
    expectCombineGrad<8, Bf16>(7, 3, 264);
    expectCombineGrad<4, float>(6, 4, 12);
    expectCombineGrad<1, Bf16>(5, 2, 13);
}

TEST_F(RowKernels, SwigluAndItsGradient) {
    expectSwiglu<8, Bf16>(5, 264, 0);
    expectSwiglu<4, float>(5, 12, 0);
    expectSwiglu<1, float>(3, 13, 1);
}

TEST_F(RowKernels, CrossEntropyInOnePassOrTwo) {
    for (const bool one_pass : {true, false}) {
        expectCrossEntropy<8, Bf16>(1048, 4.0F, one_pass);
        expectCrossEntropy<4, float>(100, 4.0F, one_pass);
        expectCrossEntropy<1, float>(37, 80.0F, one_pass);  // exp of 80 apart underflows
        expectCrossEntropy<1, float>(2, 1.0F, one_pass);    // fewer columns than threads
    }
}

TEST(RowLaunch, PacksNeedWidthAndAlignment) {
    alignas(16) float memory[8] = {};
    EXPECT_TRUE((packsFit<float, 4>(8, memory)));
    EXPECT_FALSE((packsFit<float, 4>(9, memory)));
    EXPECT_FALSE((packsFit<float, 4>(8, memory + 1)));
    EXPECT_FALSE((packsFit<Bf16, 8>(12, memory)));
    EXPECT_TRUE((packsFit<float, 1>(9, memory + 1)));
}

TEST(RowLaunch, BlocksAreEnoughButNotMore) {
    EXPECT_EQ(rowBlocks(0, 8, 100), 1);
    EXPECT_EQ(rowBlocks(8, 8, 100), 1);
    EXPECT_EQ(rowBlocks(9, 8, 100), 2);
    EXPECT_EQ(rowBlocks(std::int64_t{1} << 40U, 8, 1056), 1056);
}

TEST(HostDevice, Bf16RoundsToNearestEven) {
    EXPECT_EQ(fromFloat<Bf16>(1.0F).bits, 0x3F80);
    EXPECT_EQ(fromFloat<Bf16>(floatOfBits(0x3F808000U)).bits, 0x3F80);  // a tie, down to even
    EXPECT_EQ(fromFloat<Bf16>(floatOfBits(0x3F818000U)).bits, 0x3F82);  // a tie, up to even
    EXPECT_EQ(fromFloat<Bf16>(floatOfBits(0x3F808001U)).bits, 0x3F81);
    EXPECT_TRUE(std::isnan(toFloat(fromFloat<Bf16>(std::nanf("")))));
    EXPECT_EQ(packBf16(1.0F, -2.0F), 0xC0003F80U);
}

}  // namespace
}  // namespace piper::cuda
