// SPDX-License-Identifier: Apache-2.0
// Included by loops_impl.h alone, under its rules.
//
// Products of a few rows with a large matrix: what fine-grained experts with few tokens each
// make. They are bound by reading the matrix, so each element of it is read once, where it lies,
// and meets every row; a packing GEMM would read and write it first.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops.h"

namespace piper {
namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
/// Of a register; in memory at its own alignment.
typedef float Sum __attribute__((vector_size(4 * kLanes)));

inline Lanes load(const float* p) {
    return *reinterpret_cast<const Lanes*>(p);
}
inline void put(float* p, Lanes v) {
    *reinterpret_cast<Lanes*>(p) = v;
}
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
inline __attribute__((always_inline)) float sumOf4(Four v) {
    v += __builtin_shufflevector(v, v, 2, 3, 2, 3);
    return v[0] + v[1];
}
#if defined(__AVX2__)
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
inline __attribute__((always_inline)) float sumOf8(Eight v) {
    return sumOf4(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                  __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#endif
inline __attribute__((always_inline)) float sumOf(Lanes v) {
#if defined(__AVX512F__)
    return sumOf8(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#elif defined(__AVX2__)
    return sumOf8(v);
#else
    return sumOf4(v);
#endif
}

/// Rows of x and of w that meet at a time: sums for all of their pairs stay in registers.
#if defined(__AVX512F__)
constexpr int kRowsOfX = 5, kRowsOfW = 5;
#else
constexpr int kRowsOfX = 3, kRowsOfW = 4;
#endif

/// Copies M rows of x, lanes of all rows one after the other. Rows that lie a multiple of 4 KiB
/// apart would fall into the same few sets of the first cache.
template <int M>
void packRows(std::int64_t k, const float* x, float* packed) {
    std::int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes)
        for (int a = 0; a < M; ++a) put(packed + i * M + a * kLanes, load(x + a * k + i));
    for (int a = 0; a < M; ++a)
        for (std::int64_t j = i; j < k; ++j) packed[i * M + a * (k - i) + j - i] = x[a * k + j];
}

/// y[a, b] = x[a] . w[b] for M packed rows of x and N of w; y's rows lie n apart.
template <int M, int N>
void dotBlock(std::int64_t n, std::int64_t k, const float* packed, const float* w, float* y) {
    Sum sum[M][N] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) {
        Sum row[N];
#pragma GCC unroll 8
        for (int b = 0; b < N; ++b) row[b] = load(w + b * k + i);
#pragma GCC unroll 8
        for (int a = 0; a < M; ++a) {
            const Sum v = load(packed + i * M + a * kLanes);
#pragma GCC unroll 8
            for (int b = 0; b < N; ++b) sum[a][b] += v * row[b];
        }
    }
    // Unrolled, or the sums would lie in memory.
#pragma GCC unroll 8
    for (int a = 0; a < M; ++a)
#pragma GCC unroll 8
        for (int b = 0; b < N; ++b) y[a * n + b] = sumOf(sum[a][b]);
    const float* const tail = packed + i * M;
    const std::int64_t rest = k - i;
    for (std::int64_t j = 0; j < rest; ++j)
        for (int a = 0; a < M; ++a)
            for (int b = 0; b < N; ++b) y[a * n + b] += tail[a * rest + j] * w[b * k + i + j];
}

/// Calls work.operator()<M>(first) for blocks of M rows, all of kRowsOfX but the last.
template <class Work>
void inBlocks(std::int64_t m, Work&& work) {
    std::int64_t at = 0;
    for (; at + kRowsOfX <= m; at += kRowsOfX) work.template operator()<kRowsOfX>(at);
    switch (m - at) {
        case 1:
            return work.template operator()<1>(at);
        case 2:
            return work.template operator()<2>(at);
#if defined(__AVX512F__)
        case 3:
            return work.template operator()<3>(at);
        case 4:
            return work.template operator()<4>(at);
#endif
        default:
            return;
    }
}

template <int N>
void dotColumns(std::int64_t m, std::int64_t n, std::int64_t k, const float* packed, const float* w,
                float* y) {
    inBlocks(m,
             [=]<int M>(std::int64_t at) { dotBlock<M, N>(n, k, packed + at * k, w, y + at * n); });
}

/// dx [M, k] (+)= N rows of w, weighed by their columns of dy; dy's rows lie n apart.
template <int M, int N>
void addBlock(std::int64_t n, std::int64_t k, const float* dy, const float* w, float* dx,
              bool first) {
    std::int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) {
        Lanes row[N];
        for (int b = 0; b < N; ++b) row[b] = load(w + b * k + i);
        for (int a = 0; a < M; ++a) {
            Lanes sum = {};
            if (!first) sum = load(dx + a * k + i);
            for (int b = 0; b < N; ++b) sum += dy[a * n + b] * row[b];
            put(dx + a * k + i, sum);
        }
    }
    for (; i < k; ++i)
        for (int a = 0; a < M; ++a) {
            float sum = first ? 0.0F : dx[a * k + i];
            for (int b = 0; b < N; ++b) sum += dy[a * n + b] * w[b * k + i];
            dx[a * k + i] = sum;
        }
}

/// dx [M, k] = dy [M, n] w
template <int M>
void inputGradRows(std::int64_t n, std::int64_t k, const float* dy, const float* w, float* dx) {
    std::int64_t at = 0;
    constexpr int kBlock = kLanes == 16 ? 8 : 4;
    for (; at + kBlock <= n; at += kBlock)
        addBlock<M, kBlock>(n, k, dy + at, w + at * k, dx, at == 0);
    for (; at < n; ++at) addBlock<M, 1>(n, k, dy + at, w + at * k, dx, at == 0);
}

/// dw [n, k] += dy [M, n]^T x [M, k]
template <int M>
void weightGradRows(std::int64_t n, std::int64_t k, const float* dy, const float* x, float* dw) {
    for (std::int64_t at = 0; at < n; ++at) {
        float* out = dw + at * k;
        std::int64_t i = 0;
        for (; i + kLanes <= k; i += kLanes) {
            Lanes sum = load(out + i);
            for (int a = 0; a < M; ++a) sum += dy[a * n + at] * load(x + a * k + i);
            put(out + i, sum);
        }
        for (; i < k; ++i)
            for (int a = 0; a < M; ++a) out[i] += dy[a * n + at] * x[a * k + i];
    }
}

/// Calls work.operator()<M>() with M = m, 1 to 5.
template <class Work>
void withRows(std::int64_t m, Work&& work) {
    switch (m) {
        case 1:
            return work.template operator()<1>();
        case 2:
            return work.template operator()<2>();
        case 3:
            return work.template operator()<3>();
        case 4:
            return work.template operator()<4>();
        default:
            return work.template operator()<5>();
    }
}

void rowsForward(std::int64_t m, std::int64_t n, std::int64_t k, const float* x, const float* w,
                 float* y, float* scratch) {
    const std::int64_t most = Loops::kScratch / (k * kRowsOfX) * kRowsOfX;
    for (std::int64_t first = 0; first < m; first += most) {
        const std::int64_t rows = m - first < most ? m - first : most;
        const float* const own = x + first * k;
        inBlocks(rows,
                 [=]<int M>(std::int64_t at) { packRows<M>(k, own + at * k, scratch + at * k); });
        std::int64_t at = 0;
        float* const out = y + first * n;
        for (; at + kRowsOfW <= n; at += kRowsOfW)
            dotColumns<kRowsOfW>(rows, n, k, scratch, w + at * k, out + at);
        for (; at < n; ++at) dotColumns<1>(rows, n, k, scratch, w + at * k, out + at);
    }
}
void fewRowsInputGrad(std::int64_t m, std::int64_t n, std::int64_t k, const float* dy,
                      const float* w, float* dx) {
    withRows(m, [=]<int M>() { inputGradRows<M>(n, k, dy, w, dx); });
}
void fewRowsWeightGrad(std::int64_t m, std::int64_t n, std::int64_t k, const float* dy,
                       const float* x, float* dw) {
    withRows(m, [=]<int M>() { weightGradRows<M>(n, k, dy, x, dw); });
}

}  // namespace
}  // namespace piper
