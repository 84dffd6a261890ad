// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of the kernels, for host and device: what one thread does is an ordinary function
// of its number, so the tests run every thread on a CPU. C++17 (nvcc under CMake 3.25).

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define PIPER_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define PIPER_HOST_DEVICE inline
#endif

namespace piper::cuda {

/// Width floats that move as one transaction when they are aligned.
template <int Width>
struct alignas(Width * 4) Pack {
    float value[Width];
};

/// A row and the first column of a pack in it.
struct PackPlace {
    std::int64_t row;
    std::int64_t column;
};

/// Place of the pack number `pack` in rows of `columns` floats; columns is a multiple of Width.
template <int Width>
PIPER_HOST_DEVICE PackPlace placeOf(std::int64_t pack, std::int64_t columns) {
    const std::int64_t packs_per_row = columns / Width;
    const std::int64_t row = pack / packs_per_row;
    return {row, (pack - row * packs_per_row) * Width};
}

/// Whether packs of Width floats cover rows of this width from this address.
template <int Width>
PIPER_HOST_DEVICE bool packsFit(std::int64_t columns, const void* data) {
    return columns % Width == 0 &&
           reinterpret_cast<std::uintptr_t>(data) % sizeof(Pack<Width>) == 0;
}

/// Blocks of a grid-stride loop over `items`: enough for all, at most `limit`, at least one.
PIPER_HOST_DEVICE std::int64_t gridBlocks(std::int64_t items, std::int64_t threads_per_block,
                                          std::int64_t limit) {
    const std::int64_t wanted = (items + threads_per_block - 1) / threads_per_block;
    return wanted < 1 ? 1 : (wanted < limit ? wanted : limit);
}

PIPER_HOST_DEVICE float silu(float x) {
    return x / (1.0F + expf(-x));
}

struct SwigluArguments {
    const float* gate_up;  ///< [rows, 2 * ffn]
    float* out;            ///< [rows, ffn]
    std::int64_t rows;
    std::int64_t ffn;
};

/// What thread `thread` of `threads` does for swigluForward.
template <int Width>
PIPER_HOST_DEVICE void swigluThread(const SwigluArguments& a, std::int64_t thread,
                                    std::int64_t threads) {
    const std::int64_t packs = a.rows * (a.ffn / Width);
    for (std::int64_t pack = thread; pack < packs; pack += threads) {
        const PackPlace at = placeOf<Width>(pack, a.ffn);
        const float* row = a.gate_up + at.row * 2 * a.ffn + at.column;
        const auto gate = *reinterpret_cast<const Pack<Width>*>(row);
        const auto up = *reinterpret_cast<const Pack<Width>*>(row + a.ffn);
        Pack<Width> result;
        for (int i = 0; i < Width; ++i) result.value[i] = silu(gate.value[i]) * up.value[i];
        *reinterpret_cast<Pack<Width>*>(a.out + at.row * a.ffn + at.column) = result;
    }
}

struct PermuteArguments {
    const float* x;                   ///< [tokens, hidden]
    const std::int32_t* slot_of_row;  ///< [num_rows]
    float* rows;                      ///< [num_rows, hidden]
    std::int64_t num_rows;
    std::int64_t router_topk;
    std::int64_t hidden;
};

/// What thread `thread` of `threads` does for permuteForward.
template <int Width>
PIPER_HOST_DEVICE void permuteThread(const PermuteArguments& a, std::int64_t thread,
                                     std::int64_t threads) {
    const std::int64_t packs = a.num_rows * (a.hidden / Width);
    for (std::int64_t pack = thread; pack < packs; pack += threads) {
        const PackPlace at = placeOf<Width>(pack, a.hidden);
        const std::int64_t token = a.slot_of_row[at.row] / a.router_topk;
        *reinterpret_cast<Pack<Width>*>(a.rows + at.row * a.hidden + at.column) =
            *reinterpret_cast<const Pack<Width>*>(a.x + token * a.hidden + at.column);
    }
}

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
