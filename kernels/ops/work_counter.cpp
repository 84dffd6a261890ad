// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/work_counter.h"

#include <algorithm>

namespace piper {

namespace {

constexpr std::int64_t kElement = sizeof(float);

std::int64_t attentionElements(const AttentionShape& s) {
    const std::int64_t query = s.num_heads * (s.qk_head_dim + s.v_head_dim);  // q and o
    const std::int64_t keys = s.num_kv_heads * (s.qk_head_dim + s.v_head_dim);
    return s.rows() * (query + keys) + s.lseSize();
}

}  // namespace

double attentionFlops(const AttentionShape& shape, bool backward) {
    const auto seq_len = static_cast<double>(shape.seq_len);
    double window = seq_len;
    if (shape.sliding_window > 0)
        window = std::min(window, static_cast<double>(shape.sliding_window));
    const double keys = window - window * window / (2.0 * seq_len);
    const double per_key = 2.0 * static_cast<double>(shape.qk_head_dim + shape.v_head_dim);
    const double queries = static_cast<double>(shape.rows() * shape.num_heads);
    return queries * keys * per_key * (backward ? 2.0 : 1.0);
}

void WorkCounter::addGemm(std::int64_t m, std::int64_t n, std::int64_t k) {
    m_totals.flops +=
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    m_totals.bytes += kElement * (m * k + n * k + m * n);
    m_totals.gemm_calls += 1;
}

void WorkCounter::addAttention(const AttentionShape& shape, bool backward) {
    m_totals.flops += attentionFlops(shape, backward);
    m_totals.bytes += kElement * attentionElements(shape) * (backward ? 2 : 1);
    m_totals.attention_calls += 1;
}

}  // namespace piper
