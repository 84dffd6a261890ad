// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/blas_shapes.h"

#include <gtest/gtest.h>

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
