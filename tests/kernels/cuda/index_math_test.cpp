// SPDX-License-Identifier: Apache-2.0
// The kernels' bodies, run thread by thread on the host against plain loops.
#include "kernels/cuda/index_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

namespace piper::cuda {
namespace {

std::vector<float> randomFloats(std::int64_t count, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-3.0F, 3.0F);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(generator);
    return values;
}

/// Room for packs of any width: operator new of the vector aligns to 16 only.
struct alignas(64) Block {
    float value[16];
};
struct Aligned {
    explicit Aligned(std::int64_t count) : blocks(static_cast<std::size_t>(count) / 16 + 1) {}
    float* data() { return blocks.front().value; }
    std::vector<Block> blocks;
};

TEST(IndexMath, PacksCoverEveryElementOnce) {
    for (const auto& [rows, columns] : {std::pair{5, 12}, std::pair{1, 4}, std::pair{7, 100}}) {
        std::vector<int> seen(static_cast<std::size_t>(rows * columns), 0);
        for (std::int64_t pack = 0; pack < rows * columns / 4; ++pack) {
            const PackPlace at = placeOf<4>(pack, columns);
            ASSERT_LE(at.column + 4, columns);
            for (std::int64_t i = 0; i < 4; ++i) {
                ++seen.at(static_cast<std::size_t>(at.row * columns + at.column + i));
            }
        }
        for (const int times : seen) EXPECT_EQ(times, 1);
    }
}

TEST(IndexMath, PacksNeedWidthAndAlignment) {
    Aligned memory(32);
    EXPECT_TRUE(packsFit<4>(8, memory.data()));
    EXPECT_FALSE(packsFit<4>(9, memory.data()));
    EXPECT_FALSE(packsFit<4>(8, memory.data() + 1));
    EXPECT_TRUE(packsFit<1>(9, memory.data() + 1));
}

TEST(IndexMath, GridIsEnoughButNotMore) {
    EXPECT_EQ(gridBlocks(0, 256, 100), 1);
    EXPECT_EQ(gridBlocks(256, 256, 100), 1);
    EXPECT_EQ(gridBlocks(257, 256, 100), 2);
    EXPECT_EQ(gridBlocks(std::int64_t{1} << 40U, 256, 1056), 1056);
}

TEST(IndexMath, PlacesBeyond32Bits) {
    const std::int64_t columns = 4096;
    const std::int64_t row = (std::int64_t{1} << 32U) + 3;
    const PackPlace at = placeOf<4>(row * (columns / 4) + 5, columns);
    EXPECT_EQ(at.row, row);
    EXPECT_EQ(at.column, 20);
}

template <int Width>
void expectSwiglu(std::int64_t rows, std::int64_t ffn, std::int64_t threads) {
    Aligned in(rows * 2 * ffn);
    Aligned out(rows * ffn);
    const auto values = randomFloats(rows * 2 * ffn, 1);
    std::copy(values.begin(), values.end(), in.data());
    std::fill_n(out.data(), rows * ffn, -77.0F);
    const SwigluArguments arguments{in.data(), out.data(), rows, ffn};
    for (std::int64_t thread = 0; thread < threads; ++thread) {
        swigluThread<Width>(arguments, thread, threads);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < ffn; ++c) {
            const double gate = values[static_cast<std::size_t>(r * 2 * ffn + c)];
            const double up = values[static_cast<std::size_t>(r * 2 * ffn + ffn + c)];
            EXPECT_NEAR(out.data()[r * ffn + c], gate / (1.0 + std::exp(-gate)) * up, 2e-6);
        }
    }
}

TEST(SwigluKernel, EqualsAPlainLoopForAnyNumberOfThreads) {
    expectSwiglu<4>(5, 12, 1);
    expectSwiglu<4>(5, 12, 7);
    expectSwiglu<4>(5, 12, 1024);
    expectSwiglu<1>(3, 13, 5);
    expectSwiglu<1>(1, 1, 256);
}

TEST(SwigluKernel, LargeNegativeGateGivesZero) {
    EXPECT_EQ(silu(-200.0F), -0.0F);
    EXPECT_FLOAT_EQ(silu(50.0F), 50.0F);
}

template <int Width>
void expectPermute(std::int64_t tokens, std::int64_t topk, std::int64_t hidden,
                   std::int64_t threads) {
    const std::int64_t num_rows = tokens * topk;
    Aligned x(tokens * hidden);
    Aligned rows(num_rows * hidden);
    const auto values = randomFloats(tokens * hidden, 2);
    std::copy(values.begin(), values.end(), x.data());
    std::vector<std::int32_t> slots(static_cast<std::size_t>(num_rows));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
    std::shuffle(slots.begin(), slots.end(), std::mt19937(3));
    const PermuteArguments arguments{x.data(), slots.data(), rows.data(), num_rows, topk, hidden};
    for (std::int64_t thread = 0; thread < threads; ++thread) {
        permuteThread<Width>(arguments, thread, threads);
    }
    for (std::int64_t r = 0; r < num_rows; ++r) {
        const std::int64_t token = slots[static_cast<std::size_t>(r)] / topk;
        for (std::int64_t c = 0; c < hidden; ++c) {
            ASSERT_EQ(rows.data()[r * hidden + c],
                      values[static_cast<std::size_t>(token * hidden + c)])
                << "row " << r << " column " << c;
        }
    }
}

TEST(PermuteKernel, EqualsAPlainLoopForAnyNumberOfThreads) {
    expectPermute<4>(9, 2, 8, 1);
    expectPermute<4>(9, 2, 8, 5);
    expectPermute<4>(9, 3, 8, 999);
    expectPermute<1>(4, 1, 7, 3);
}

/// c [m, n] column-major = op(a) op(b), as BLAS defines it.
void columnMajorProduct(const ColumnMajorGemm& g, const std::vector<float>& a,
                        const std::vector<float>& b, std::vector<float>& c) {
    const auto at = [](std::int64_t row, std::int64_t column, std::int64_t ld) {
        return static_cast<std::size_t>(row + column * ld);
    };
    for (std::int64_t i = 0; i < g.m; ++i) {
        for (std::int64_t j = 0; j < g.n; ++j) {
            float sum = 0;
            for (std::int64_t p = 0; p < g.k; ++p) {
                sum += a.at(g.transpose_a ? at(p, i, g.lda) : at(i, p, g.lda)) *
                       b.at(g.transpose_b ? at(j, p, g.ldb) : at(p, j, g.ldb));
            }
            c.at(at(i, j, g.ldc)) = sum;
        }
    }
}

class RowMajorGemm : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(RowMajorGemm, IsTheColumnMajorOneOfTheTransposes) {
    const auto [transpose_a, transpose_b] = GetParam();
    const std::int64_t m = 3;
    const std::int64_t n = 5;
    const std::int64_t k = 7;
    const auto a = randomFloats(m * k, 4);
    const auto b = randomFloats(k * n, 5);
    std::vector<float> c(static_cast<std::size_t>(m * n), -77.0F);
    columnMajorProduct(columnMajor(m, n, k, transpose_a, transpose_b), b, a, c);
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t p = 0; p < k; ++p) {
                const auto left = static_cast<std::size_t>(transpose_a ? p * m + i : i * k + p);
                const auto right = static_cast<std::size_t>(transpose_b ? j * k + p : p * n + j);
                sum += a.at(left) * b.at(right);
            }
            EXPECT_NEAR(c.at(static_cast<std::size_t>(i * n + j)), sum, 1e-4);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Transposes, RowMajorGemm,
                         testing::Combine(testing::Bool(), testing::Bool()));

}  // namespace
}  // namespace piper::cuda
