// SPDX-License-Identifier: Apache-2.0
// Grouped-query attention: query, key and value straight from the normed input, queries and keys
// with an optional norm, both rotated.
#include "kernels/pipeline/blocks.h"

namespace piper {
namespace {

/// A query or key projection with its optional norm and its rotation.
struct Rotated {
    std::int64_t width;
    const Matrix& weight;
    const Vector &bias, &norm;
    Buffer &out, &raw, &inverse, &gradient, &normed_gradient;

    /// The norm runs over rows of this width: a head's, or all heads'.
    [[nodiscard]] std::int64_t normWidth() const { return static_cast<std::int64_t>(norm.size()); }
};

Rotated queryOf(const LayerTensors& w, AttentionState& s) {
    return {w.query.rows, w.query,         w.query_bias, w.query_norm,    s.query,
            s.raw_query,  s.query_inverse, s.d_query,    s.d_query_normed};
}
Rotated keyOf(const LayerTensors& w, AttentionState& s) {
    return {w.key.rows, w.key,         w.key_bias, w.key_norm,    s.key,
            s.raw_key,  s.key_inverse, s.d_key,    s.d_key_normed};
}

bool rotates(const BlockContext& c) {
    return c.plan.model.position == PositionKind::Rotary;
}

RotaryShape rotaryShape(const BlockContext& c, std::int64_t width) {
    const std::int64_t head = c.plan.model.attention.head_dim;
    return {.seq_len = c.plan.seq_len,
            .num_heads = width / head,
            .head_dim = head,
            .theta = c.plan.model.rope_theta};
}

/// out = x weight^T + bias
Status linear(const BlockContext& c, ConstMatrix x, const Matrix& weight, const Vector& bias,
              Matrix out) {
    PIPER_TRY(c.backend.linearForward(x, weight, out, Store::Overwrite));
    return bias.empty() ? Status{} : c.backend.biasForward(bias, out);
}

Status project(const BlockContext& c, ConstMatrix x, const Rotated& p) {
    PIPER_ASSIGN(p.out, c.floats(kAttention, x.rows * p.width));
    const Matrix out = p.out.matrix(x.rows, p.width);
    if (p.norm.empty()) {
        PIPER_TRY(linear(c, x, p.weight, p.bias, out));
    } else {
        const std::int64_t rows = out.size() / p.normWidth();
        PIPER_ASSIGN(p.raw, c.floats(kAttention, out.size()));
        PIPER_ASSIGN(p.inverse, c.floats(kAttention, rows));
        PIPER_TRY(linear(c, x, p.weight, p.bias, p.raw.matrix(x.rows, p.width)));
        PIPER_TRY(c.backend.rmsNormForward(p.raw.matrix(rows, p.normWidth()), p.norm, c.epsilon(),
                                           out.reshaped(rows, p.normWidth()), p.inverse.floats()));
    }
    return rotates(c) ? c.backend.rotaryForward(rotaryShape(c, p.width), out) : Status{};
}

/// Turns the gradient at the rotated projection into the one at the projection's output. With a
/// norm the gradient at the norm's output moves aside for the weight gradient.
Status unproject(const BlockContext& c, const Rotated& p) {
    const std::int64_t tokens = c.allTokens();
    if (rotates(c))
        PIPER_TRY(
            c.backend.rotaryInputGrad(rotaryShape(c, p.width), p.gradient.matrix(tokens, p.width)));
    if (p.norm.empty()) return {};
    const std::int64_t rows = tokens * p.width / p.normWidth();
    p.normed_gradient = std::move(p.gradient);
    PIPER_ASSIGN(p.gradient, c.floats(kGradient, tokens * p.width));
    return c.backend.rmsNormInputGrad(p.normed_gradient.matrix(rows, p.normWidth()),
                                      p.raw.matrix(rows, p.normWidth()), p.norm, p.inverse.floats(),
                                      p.gradient.matrix(rows, p.normWidth()), Store::Overwrite);
}

Status weightGrad(const BlockContext& c, ConstMatrix normed, const Rotated& p) {
    const Matrix gradient = p.gradient.matrix(normed.rows, p.width);
    PIPER_TRY(c.backend.linearWeightGrad(gradient, normed, p.weight));
    if (!p.bias.empty()) PIPER_TRY(c.backend.biasWeightGrad(gradient, p.bias));
    if (p.norm.empty()) return {};
    const std::int64_t rows = gradient.size() / p.normWidth();
    return c.backend.rmsNormWeightGrad(p.normed_gradient.matrix(rows, p.normWidth()),
                                       p.raw.matrix(rows, p.normWidth()), p.inverse.floats(),
                                       p.norm);
}

}  // namespace

Status groupedQueryForward(const BlockContext& c, const LayerTensors& w, ConstMatrix normed,
                           AttentionState& s) {
    PIPER_TRY(project(c, normed, queryOf(w, s)));
    PIPER_TRY(project(c, normed, keyOf(w, s)));
    PIPER_ASSIGN(s.value, c.floats(kAttention, normed.rows * w.value.rows));
    return linear(c, normed, w.value, w.value_bias, s.value.matrix(normed.rows, w.value.rows));
}

Status groupedQueryInputGrad(const BlockContext& c, const LayerTensors& w, AttentionState& s) {
    PIPER_TRY(unproject(c, queryOf(w, s)));
    return unproject(c, keyOf(w, s));
}

Status groupedQueryAddInputGrad(const BlockContext& c, const LayerTensors& w, AttentionState& s,
                                Matrix d_norm, Store store) {
    const std::int64_t t = d_norm.rows, q = w.query.rows, kv = w.key.rows;
    PIPER_TRY(c.backend.linearInputGrad(s.d_query.matrix(t, q), w.query, d_norm, store));
    PIPER_TRY(c.backend.linearInputGrad(s.d_key.matrix(t, kv), w.key, d_norm, Store::Accumulate));
    return c.backend.linearInputGrad(s.d_value.matrix(t, kv), w.value, d_norm, Store::Accumulate);
}

Status groupedQueryWeightGrad(const BlockContext& c, ConstMatrix normed, LayerTensors& dw,
                              AttentionState& s) {
    PIPER_TRY(weightGrad(c, normed, queryOf(dw, s)));
    PIPER_TRY(weightGrad(c, normed, keyOf(dw, s)));
    const Matrix d_value = s.d_value.matrix(normed.rows, dw.value.rows);
    PIPER_TRY(c.backend.linearWeightGrad(d_value, normed, dw.value));
    return dw.value_bias.empty() ? Status{} : c.backend.biasWeightGrad(d_value, dw.value_bias);
}

}  // namespace piper
