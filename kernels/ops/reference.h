// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/shapes.h"
#include "kernels/ops/tensor.h"

/// Every operation again, in double, one scalar at a time and straight from its formula: what the
/// backends are checked against. Nothing here is fast, and nothing here shares code with them.
namespace piper::reference {

struct Tensor {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::vector<double> data;

    Tensor() = default;
    Tensor(std::int64_t r, std::int64_t c)
        : rows(r), cols(c), data(static_cast<std::size_t>(r * c), 0.0) {}
    explicit Tensor(ConstMatrix x);
    explicit Tensor(ConstVector x) : Tensor(ConstMatrix(x.data(), 1, std::int64_t(x.size()))) {}
    [[nodiscard]] double& at(std::int64_t r, std::int64_t c) {
        return data[static_cast<std::size_t>(r * cols + c)];
    }
    [[nodiscard]] double at(std::int64_t r, std::int64_t c) const {
        return data[static_cast<std::size_t>(r * cols + c)];
    }
    [[nodiscard]] Tensor slice(std::int64_t first, std::int64_t n) const;
    void place(std::int64_t first, const Tensor& part);
};

using Offsets = std::vector<std::int64_t>;
using Ids = std::vector<std::int32_t>;

[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b);

[[nodiscard]] Tensor embedding(const Ids& tokens, const Tensor& table);
[[nodiscard]] Tensor embeddingWeightGrad(const Ids& tokens, const Tensor& dout, std::int64_t vocab);

/// weight [1, cols].
[[nodiscard]] Tensor rmsNorm(const Tensor& x, const Tensor& weight, double epsilon);
struct NormGrad {
    Tensor dx, dweight;
};
[[nodiscard]] NormGrad rmsNormGrad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                   double epsilon);

/// weight, bias [1, cols].
[[nodiscard]] Tensor layerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               double epsilon);
struct LayerNormGrad {
    Tensor dx, dweight, dbias;
};
[[nodiscard]] LayerNormGrad layerNormGrad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                          double epsilon);

/// sign -1 is the gradient.
[[nodiscard]] Tensor rotary(const RotaryShape& shape, const Tensor& x, double sign);

[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& w);
[[nodiscard]] Tensor linearInputGrad(const Tensor& dy, const Tensor& w);
[[nodiscard]] Tensor linearWeightGrad(const Tensor& dy, const Tensor& x);
[[nodiscard]] Tensor groupedLinear(const Tensor& x, const Offsets& offsets, const Tensor& w);
[[nodiscard]] Tensor groupedLinearInputGrad(const Tensor& dy, const Offsets& offsets,
                                            const Tensor& w);
[[nodiscard]] Tensor groupedLinearWeightGrad(const Tensor& dy, const Tensor& x,
                                             const Offsets& offsets);

[[nodiscard]] Tensor swiglu(const Tensor& gate_up);
[[nodiscard]] Tensor swigluGrad(const Tensor& dout, const Tensor& gate_up);
[[nodiscard]] Tensor gelu(const Tensor& x);
[[nodiscard]] Tensor geluGrad(const Tensor& dout, const Tensor& x);

/// sigmoid(gate[r]) * x[r]; gate [rows, 1].
[[nodiscard]] Tensor gateRows(const Tensor& gate, const Tensor& x);
struct GateGrad {
    Tensor dgate, dx;
};
[[nodiscard]] GateGrad gateRowsGrad(const Tensor& dy, const Tensor& gate, const Tensor& x);

/// lse [batch * heads, seq_len].
struct AttentionResult {
    Tensor o, lse;
};
[[nodiscard]] AttentionResult attention(const AttentionShape& shape, const Tensor& q,
                                        const Tensor& k, const Tensor& v);
struct AttentionGrad {
    Tensor dq, dk, dv;
};
[[nodiscard]] AttentionGrad attentionGrad(const AttentionShape& shape, const Tensor& q,
                                          const Tensor& k, const Tensor& v, const Tensor& d_o);

/// replay: experts [t * k] to use; empty to choose.
struct RouterResult {
    Tensor scores, weights;
    Ids experts;
};
[[nodiscard]] RouterResult router(const RouterShape& shape, const Tensor& logits,
                                  const Ids& replay);
/// dscore [1, E] or empty.
[[nodiscard]] Tensor routerGrad(const RouterShape& shape, const RouterResult& forward,
                                const Tensor& dweights, const Tensor& dscore);

[[nodiscard]] Tensor permute(const Tensor& x, const Ids& slot_of_row, std::int64_t router_topk);
[[nodiscard]] Tensor permuteGrad(const Tensor& drows, const Ids& row_of_slot,
                                 std::int64_t router_topk);
[[nodiscard]] Tensor combine(const Tensor& rows, const Ids& row_of_slot, const Tensor& weights);
struct CombineGrad {
    Tensor drows, dweights;
};
[[nodiscard]] CombineGrad combineGrad(const Tensor& dy, const Tensor& rows, const Ids& row_of_slot,
                                      const Tensor& weights);

/// Sum over rows of -log p(target).
[[nodiscard]] double crossEntropy(const Tensor& logits, const Ids& targets);
[[nodiscard]] Tensor crossEntropyGrad(const Tensor& logits, const Ids& targets, double scale);

/// One update in place; all of one size.
void adamW(const AdamWParameters& p, const Tensor& gradient, Tensor& weight, Tensor& first_moment,
           Tensor& second_moment);

}  // namespace piper::reference
