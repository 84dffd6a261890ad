// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/ops/shapes.h"

namespace piper {

/// FLOPs and operand bytes done so far on a backend. Each GEMM and attention call adds its own,
/// from the arguments it really got (rows really routed), never from a schedule.
///
/// GEMM: 2 m n k. Attention core, causal half as core/model counts it: a query sees seq_len / 2
/// keys on average (w - w^2 / (2 seq_len) under a sliding window of w), each costing 2 (qk_head_dim
/// + v_head_dim) per head; backward counts twice forward, as model FLOPs do, although a backward
/// that rebuilds the probabilities from the log-sum-exp does 2.5 times forward's arithmetic.
/// Everything else counts no FLOPs, only the bytes of its operands.
class WorkCounter {
public:
    struct Totals {
        double flops = 0.0;
        std::int64_t bytes = 0;  ///< operands read and written once each
        std::int64_t gemm_calls = 0;
        std::int64_t attention_calls = 0;

        friend Totals operator-(const Totals& a, const Totals& b) {
            return {a.flops - b.flops, a.bytes - b.bytes, a.gemm_calls - b.gemm_calls,
                    a.attention_calls - b.attention_calls};
        }
    };

    void addGemm(std::int64_t m, std::int64_t n, std::int64_t k);
    void addAttention(const AttentionShape& shape, bool backward);
    void addBytes(std::int64_t bytes) { m_totals.bytes += bytes; }
    /// Take it before and after an operation and subtract.
    [[nodiscard]] const Totals& totals() const { return m_totals; }

private:
    Totals m_totals;
};

/// Causal-half FLOPs of one attention call.
[[nodiscard]] double attentionFlops(const AttentionShape& shape, bool backward);

}  // namespace piper
