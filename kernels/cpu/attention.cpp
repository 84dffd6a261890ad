// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace piper {

namespace {

void zeroRows(Matrix x) {
    std::fill_n(x.data, x.count(), 0.0F);
}

}  // namespace

/// One query head of one sequence with the key head it reads; strides between rows.
struct Attention::Head {
    const AttentionShape& shape;
    const float *q, *k, *v;
    std::int64_t q_stride, k_stride, v_stride, o_stride;

    [[nodiscard]] std::int64_t firstKey(std::int64_t query) const {
        const std::int64_t window = shape.sliding_window;
        return window > 0 ? std::max<std::int64_t>(0, query - window + 1) : 0;
    }
};

/// Queries [query, query + rows) against keys [key, key + cols).
struct Attention::Tile {
    std::int64_t query, rows, key, cols;

    /// Columns of a row that the causal band (and the window) lets through: [begin, end).
    [[nodiscard]] std::int64_t begin(const Head& head, std::int64_t r) const {
        return std::clamp<std::int64_t>(head.firstKey(query + r) - key, 0, cols);
    }
    [[nodiscard]] std::int64_t end(std::int64_t r) const {
        return std::clamp<std::int64_t>(query + r + 1 - key, 0, cols);
    }
};

Result<Attention> Attention::make(TaggedAllocator& allocator, Gemm& gemm, const Loops& loops) {
    PIPER_ASSIGN(Buffer scratch,
                 allocator.allocateFloats(MemoryTerm::Workspace, 2 * kTile * kTile + 2 * kTile));
    Attention made(gemm, loops, std::move(scratch));
    made.m_allocator = &allocator;
    return made;
}

Attention::Attention(Gemm& gemm, const Loops& loops, Buffer scratch)
    : m_gemm(&gemm), m_loops(&loops), m_scratch(std::move(scratch)) {
    m_scores = m_scratch.floats().data();
    m_grads = m_scores + kTile * kTile;
    m_max = m_grads + kTile * kTile;
    m_sum = m_max + kTile;
}

Status Attention::product(const GemmCall& call) {
    return m_gemm->runVarying(call);
}

Status Attention::forward(const AttentionShape& s, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                          Matrix o, Vector lse) {
    const std::int64_t group = s.num_heads / s.num_kv_heads;
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.num_heads; ++h) {
            const std::int64_t row = b * s.seq_len;
            const Head head{s,
                            q.row(row) + h * s.qk_head_dim,
                            k.row(row) + h / group * s.qk_head_dim,
                            v.row(row) + h / group * s.v_head_dim,
                            q.cols,
                            k.cols,
                            v.cols,
                            o.cols};
            float* head_lse = lse.data() + (b * s.num_heads + h) * s.seq_len;
            PIPER_TRY(forwardHead(head, o.row(row) + h * s.v_head_dim, head_lse));
        }
    return {};
}

Status Attention::forwardHead(const Head& head, float* o, float* lse) {
    const AttentionShape& s = head.shape;
    for (std::int64_t query = 0; query < s.seq_len; query += kTile) {
        const std::int64_t rows = std::min(kTile, s.seq_len - query);
        std::fill_n(m_max, rows, -std::numeric_limits<float>::infinity());
        std::fill_n(m_sum, rows, 0.0F);
        for (std::int64_t r = 0; r < rows; ++r)
            std::fill_n(o + (query + r) * head.o_stride, s.v_head_dim, 0.0F);
        const std::int64_t first = head.firstKey(query) / kTile * kTile;
        for (std::int64_t key = first; key < query + rows; key += kTile)
            PIPER_TRY(
                forwardTile(head, Tile{query, rows, key, std::min(kTile, query + rows - key)}, o));
        finishRows(head, query, rows, o, lse);
    }
    return {};
}

Status Attention::forwardTile(const Head& head, const Tile& t, float* o) {
    const AttentionShape& s = head.shape;
    PIPER_TRY(product({.m = t.rows,
                       .n = t.cols,
                       .k = s.qk_head_dim,
                       .a = {head.q + t.query * head.q_stride, head.q_stride, false},
                       .b = {head.k + t.key * head.k_stride, head.k_stride, true},
                       .c = m_scores,
                       .c_stride = kTile}));
    softmaxTile(head, t, o);
    return product({.m = t.rows,
                    .n = s.v_head_dim,
                    .k = t.cols,
                    .a = {m_scores, kTile, false},
                    .b = {head.v + t.key * head.v_stride, head.v_stride, false},
                    .c = o + t.query * head.o_stride,
                    .c_stride = head.o_stride,
                    .store = Store::Accumulate});
}

/// Turns the tile's scores into exp(score - running maximum), rescales what the rows gathered
/// before, and adds to their sums. Masked entries become zero.
void Attention::softmaxTile(const Head& head, const Tile& t, float* o) {
    const AttentionShape& s = head.shape;
    for (std::int64_t r = 0; r < t.rows; ++r) {
        float* row = m_scores + r * kTile;
        const std::int64_t begin = t.begin(head, r);
        const std::int64_t end = std::max(begin, t.end(r));
        std::fill(row, row + begin, 0.0F);
        std::fill(row + end, row + t.cols, 0.0F);
        if (begin == end) continue;
        m_loops->scale(end - begin, s.scale(), row + begin);
        const float top = std::max(m_max[r], m_loops->rowMax(end - begin, row + begin));
        if (top > m_max[r]) {
            const float shrink = std::exp(m_max[r] - top);
            m_sum[r] *= shrink;
            m_loops->scale(s.v_head_dim, shrink, o + (t.query + r) * head.o_stride);
            m_max[r] = top;
        }
        m_sum[r] += m_loops->expRow(end - begin, m_max[r], row + begin);
    }
}

void Attention::finishRows(const Head& head, std::int64_t first, std::int64_t rows, float* o,
                           float* lse) {
    for (std::int64_t r = 0; r < rows; ++r) {
        m_loops->scale(head.shape.v_head_dim, 1.0F / m_sum[r], o + (first + r) * head.o_stride);
        lse[first + r] = m_max[r] + std::log(m_sum[r]);
    }
}

Status Attention::backward(const AttentionShape& s, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                           ConstMatrix o, ConstVector lse, ConstMatrix d_o, Matrix dq, Matrix dk,
                           Matrix dv) {
    if (m_delta.bytes() < s.seq_len * static_cast<std::int64_t>(sizeof(float))) {
        PIPER_ASSIGN(m_delta, m_allocator->allocateFloats(MemoryTerm::Workspace, s.seq_len));
    }
    zeroRows(dq);
    zeroRows(dk);
    zeroRows(dv);
    const std::int64_t group = s.num_heads / s.num_kv_heads;
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.num_heads; ++h) {
            const std::int64_t row = b * s.seq_len;
            const std::int64_t q_col = h * s.qk_head_dim;
            const std::int64_t k_col = h / group * s.qk_head_dim;
            const std::int64_t v_col = h / group * s.v_head_dim;
            const std::int64_t o_col = h * s.v_head_dim;
            const Head head{s,
                            q.row(row) + q_col,
                            k.row(row) + k_col,
                            v.row(row) + v_col,
                            q.cols,
                            k.cols,
                            v.cols,
                            o.cols};
            PIPER_TRY(backwardHead(head, o.row(row) + o_col, d_o.row(row) + o_col,
                                   lse.data() + (b * s.num_heads + h) * s.seq_len,
                                   dq.row(row) + q_col, dk.row(row) + k_col, dv.row(row) + v_col));
        }
    return {};
}

Status Attention::backwardHead(const Head& head, const float* o, const float* d_o, const float* lse,
                               float* dq, float* dk, float* dv) {
    const AttentionShape& s = head.shape;
    float* delta = m_delta.floats().data();
    for (std::int64_t i = 0; i < s.seq_len; ++i)
        delta[i] = m_loops->dot(s.v_head_dim, o + i * head.o_stride, d_o + i * head.o_stride);
    for (std::int64_t query = 0; query < s.seq_len; query += kTile) {
        const std::int64_t rows = std::min(kTile, s.seq_len - query);
        const std::int64_t first = head.firstKey(query) / kTile * kTile;
        for (std::int64_t key = first; key < query + rows; key += kTile) {
            const Tile tile{query, rows, key, std::min(kTile, query + rows - key)};
            PIPER_TRY(backwardTile(head, tile, d_o, lse, dq, dk, dv));
        }
    }
    return {};
}

/// P from the scores and the log-sum-exp; dv += P^T d_o; dP = d_o v^T; dS = P (dP - delta) scale;
/// dq += dS k; dk += dS^T q.
Status Attention::backwardTile(const Head& head, const Tile& t, const float* d_o, const float* lse,
                               float* dq, float* dk, float* dv) {
    const AttentionShape& s = head.shape;
    const GemmOperand q{head.q + t.query * head.q_stride, head.q_stride, false};
    const GemmOperand k{head.k + t.key * head.k_stride, head.k_stride, false};
    const GemmOperand v{head.v + t.key * head.v_stride, head.v_stride, false};
    const GemmOperand grad{d_o + t.query * head.o_stride, head.o_stride, false};
    const auto transposed = [](GemmOperand x) {
        x.transposed = true;
        return x;
    };
    PIPER_TRY(product({t.rows, t.cols, s.qk_head_dim, q, transposed(k), m_scores, kTile}));
    PIPER_TRY(product({t.rows, t.cols, s.v_head_dim, grad, transposed(v), m_grads, kTile}));
    gradTile(head, t, lse);
    const GemmOperand p{m_scores, kTile, false};
    const GemmOperand ds{m_grads, kTile, false};
    PIPER_TRY(product({t.cols, s.v_head_dim, t.rows, transposed(p), grad,
                       dv + t.key * head.v_stride, head.v_stride, Store::Accumulate}));
    PIPER_TRY(product({t.rows, s.qk_head_dim, t.cols, ds, k, dq + t.query * head.q_stride,
                       head.q_stride, Store::Accumulate}));
    return product({t.cols, s.qk_head_dim, t.rows, transposed(ds), q, dk + t.key * head.k_stride,
                    head.k_stride, Store::Accumulate});
}

/// Scores become probabilities, their gradients the gradients of the unscaled scores.
void Attention::gradTile(const Head& head, const Tile& t, const float* lse) {
    const float scale = head.shape.scale();
    const float* delta = m_delta.floats().data();
    for (std::int64_t r = 0; r < t.rows; ++r) {
        float* p = m_scores + r * kTile;
        float* ds = m_grads + r * kTile;
        const std::int64_t begin = t.begin(head, r);
        const std::int64_t end = std::max(begin, t.end(r));
        for (float* row : {p, ds}) {
            std::fill(row, row + begin, 0.0F);
            std::fill(row + end, row + t.cols, 0.0F);
        }
        if (begin == end) continue;
        m_loops->scale(end - begin, scale, p + begin);
        m_loops->expScaledRow(end - begin, lse[t.query + r], 1.0F, p + begin);
        m_loops->softmaxGradRow(end - begin, p + begin, delta[t.query + r], scale, ds + begin);
    }
}

}  // namespace piper
