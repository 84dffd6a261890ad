// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/grouped_tiles.h"

namespace piper::test {

/// Random operands of one grouped product with rows[g] rows in group g, poisoned results, and a
/// plain loop in double to compare them with. Eight elements before and after each matrix are NaN.
class GroupedCase {
public:
    GroupedCase(cuda::GroupedKind kind, const std::vector<int>& rows, int in, int out,
                std::uint32_t seed);
    [[nodiscard]] const cuda::GroupedArguments& arguments() const { return m_arguments; }
    [[nodiscard]] std::int64_t rows() const { return m_offsets.back(); }
    /// Every element of the result within the rounding of its sum; guards untouched.
    void expectRight() const;

private:
    struct alignas(16) Piece {
        cuda::Bf16 value[8];
    };
    using Matrix = std::vector<Piece>;

    [[nodiscard]] static const cuda::Bf16* data(const Matrix& matrix) { return matrix[1].value; }
    [[nodiscard]] double wanted(int group, std::int64_t row, int column) const;
    [[nodiscard]] float result(std::int64_t index) const;

    cuda::GroupedKind m_kind;
    std::vector<std::int64_t> m_offsets;
    Matrix m_x, m_dy, m_w, m_result;
    std::vector<float> m_before;
    cuda::GroupedArguments m_arguments{};
};

}  // namespace piper::test
