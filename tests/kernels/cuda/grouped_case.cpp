// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/grouped_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace piper::test {
namespace {

using cuda::Bf16;
using cuda::GroupedKind;

constexpr std::uint16_t kPoison = 0x7FC1;  // NaN
constexpr std::uint32_t kPoisonWord = 0x7FC17FC1U;

}  // namespace

GroupedCase::GroupedCase(GroupedKind kind, const std::vector<int>& rows, int in, int out,
                         std::uint32_t seed)
    : m_kind(kind), m_offsets{0} {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    // A piece of NaN before and after each matrix.
    const auto make = [&](std::int64_t elements, bool filled) {
        Matrix matrix(static_cast<std::size_t>(elements) / 8 + 2);
        for (Piece& piece : matrix) {
            for (Bf16& value : piece.value) value.bits = kPoison;
        }
        for (std::int64_t i = 0; filled && i < elements; ++i) {
            matrix[1].value[i] = cuda::fromFloat<Bf16>(uniform(random));
        }
        return matrix;
    };
    for (const int count : rows) m_offsets.push_back(m_offsets.back() + count);
    const auto groups = static_cast<std::int64_t>(rows.size());
    const bool weight = kind == GroupedKind::WeightGrad;
    m_x = make(m_offsets.back() * in, true);
    m_dy = make(m_offsets.back() * out, true);
    m_w = make(groups * out * in, true);
    const std::int64_t result_elements =
        weight ? groups * out * in * 2
               : m_offsets.back() * (kind == GroupedKind::Forward ? out : in);
    m_result = make(result_elements, false);
    if (weight) {
        auto* to = reinterpret_cast<float*>(m_result[1].value);
        for (std::int64_t i = 0; i < groups * out * in; ++i) {
            m_before.push_back(uniform(random));
            to[i] = m_before.back();
        }
    }
    m_arguments = {data(m_x),
                   data(m_dy),
                   data(m_w),
                   m_result[1].value,
                   m_offsets.data(),
                   static_cast<int>(groups),
                   in,
                   out};
}

double GroupedCase::wanted(int group, std::int64_t row, int column) const {
    const std::int64_t in = m_arguments.in;
    const std::int64_t out = m_arguments.out;
    const auto x = [&](std::int64_t r, std::int64_t c) {
        return static_cast<double>(toFloat(data(m_x)[r * in + c]));
    };
    const auto dy = [&](std::int64_t r, std::int64_t c) {
        return static_cast<double>(toFloat(data(m_dy)[r * out + c]));
    };
    const auto w = [&](std::int64_t r, std::int64_t c) {
        return static_cast<double>(toFloat(data(m_w)[(group * out + r) * in + c]));
    };
    double sum = 0;
    if (m_kind == GroupedKind::Forward) {
        for (std::int64_t i = 0; i < in; ++i) sum += x(row, i) * w(column, i);
    } else if (m_kind == GroupedKind::InputGrad) {
        for (std::int64_t o = 0; o < out; ++o) sum += dy(row, o) * w(o, column);
    } else {
        const auto g = static_cast<std::size_t>(group);
        for (std::int64_t r = m_offsets[g]; r < m_offsets[g + 1]; ++r) {
            sum += dy(r, row) * x(r, column);
        }
    }
    return sum;
}

float GroupedCase::result(std::int64_t index) const {
    if (m_kind == GroupedKind::WeightGrad) {
        return reinterpret_cast<const float*>(data(m_result))[index];
    }
    return toFloat(data(m_result)[index]);
}

void GroupedCase::expectRight() const {
    const std::int64_t columns = m_kind == GroupedKind::Forward ? m_arguments.out : m_arguments.in;
    for (int g = 0; g < m_arguments.groups; ++g) {
        const bool weight = m_kind == GroupedKind::WeightGrad;
        const std::int64_t first = weight ? 0 : m_offsets[static_cast<std::size_t>(g)];
        const std::int64_t last =
            weight ? m_arguments.out : m_offsets[static_cast<std::size_t>(g) + 1];
        for (std::int64_t row = first; row < last; ++row) {
            for (std::int64_t column = 0; column < columns; ++column) {
                const std::int64_t index =
                    (weight ? g * last * columns : 0) + row * columns + column;
                double sum = wanted(g, row, static_cast<int>(column));
                if (weight) sum += static_cast<double>(m_before[static_cast<std::size_t>(index)]);
                const double allowed = weight ? 1e-4 : 4e-3 * std::abs(sum) + 1e-4;
                ASSERT_NEAR(static_cast<double>(result(index)), sum, allowed)
                    << "group " << g << " row " << row << " column " << column;
            }
        }
    }
    for (const Piece* guard : {&m_result.front(), &m_result.back()}) {
        for (const Bf16 value : guard->value) ASSERT_EQ(value.bits, kPoison) << "a guard";
    }
}

}  // namespace piper::test
