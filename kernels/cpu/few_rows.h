// SPDX-License-Identifier: Apache-2.0
// Included by loops_impl.h alone, under its rules.
//
// Products of a few rows with a large matrix: what fine-grained experts with one to five tokens
// make. They are bound by reading the matrix, so each element of it is read once, where it lies,
// and meets every row; a packing GEMM would read and write it first.
#pragma once

#include <cstdint>

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

inline Lanes load(const float* p) {
    return *reinterpret_cast<const Lanes*>(p);
}
inline void put(float* p, Lanes v) {
    *reinterpret_cast<Lanes*>(p) = v;
}
inline float sumOf(Lanes v) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < kLanes; ++i) sum += v[i];
    return sum;
}

/// y[a, b] = x[a] . w[b] for M rows of x and N of w; y's rows lie n apart.
template <int M, int N>
void dotBlock(std::int64_t n, std::int64_t k, const float* x, const float* w, float* y) {
    Lanes sum[M][N] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= k; i += kLanes) {
        Lanes row[N];
        for (int b = 0; b < N; ++b) row[b] = load(w + b * k + i);
        for (int a = 0; a < M; ++a) {
            const Lanes v = load(x + a * k + i);
            for (int b = 0; b < N; ++b) sum[a][b] += v * row[b];
        }
    }
    for (int a = 0; a < M; ++a)
        for (int b = 0; b < N; ++b) {
            float rest = sumOf(sum[a][b]);
            for (std::int64_t j = i; j < k; ++j) rest += x[a * k + j] * w[b * k + j];
            y[a * n + b] = rest;
        }
}

/// y [M, n] = x [M, k] w^T
template <int M>
void forwardRows(std::int64_t n, std::int64_t k, const float* x, const float* w, float* y) {
    constexpr int kBlock = M <= 2 ? 4 : 2;
    std::int64_t at = 0;
    for (; at + kBlock <= n; at += kBlock) dotBlock<M, kBlock>(n, k, x, w + at * k, y + at);
    for (; at < n; ++at) dotBlock<M, 1>(n, k, x, w + at * k, y + at);
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
    for (; at + 4 <= n; at += 4) addBlock<M, 4>(n, k, dy + at, w + at * k, dx, at == 0);
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

void fewRowsForward(std::int64_t m, std::int64_t n, std::int64_t k, const float* x, const float* w,
                    float* y) {
    withRows(m, [=]<int M>() { forwardRows<M>(n, k, x, w, y); });
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
