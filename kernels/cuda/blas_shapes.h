// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace piper::cuda {

/// A column-major product as BLAS takes it: c [m, n] with leading dimension ldc, and so on.
struct ColumnMajorGemm {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b;
    std::int64_t lda, ldb, ldc;
};

/// The row-major c = op(a) op(b) as the column-major c^T = op(b)^T op(a)^T: BLAS's first operand is
/// our b and its second our a.
inline ColumnMajorGemm columnMajor(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                                   bool transpose_b) {
    return {n, m, k, transpose_b, transpose_a, transpose_b ? k : n, transpose_a ? m : k, n};
}

}  // namespace piper::cuda
