// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/blocks.h"

namespace piper {
namespace {

constexpr MemoryTerm kTerm = MemoryTerm::AttentionActivation;
constexpr MemoryTerm kGradient = MemoryTerm::GradientActivation;

AttentionShape coreShape(const BlockContext& c) {
    const AttentionSpec& a = c.plan.model.attention;
    return {.batch = c.plan.micro_batch_size,
            .seq_len = c.plan.seq_len,
            .num_heads = a.num_heads,
            .num_kv_heads = a.num_kv_heads,
            .qk_head_dim = a.head_dim,
            .v_head_dim = a.head_dim,
            .sliding_window = a.sliding_window};
}

RotaryShape rotaryShape(const BlockContext& c, std::int64_t heads) {
    return {.seq_len = c.plan.seq_len,
            .num_heads = heads,
            .head_dim = c.plan.model.attention.head_dim,
            .theta = c.plan.model.rope_theta};
}

/// A query or key projection with its optional norm and its rotation.
struct Rotated {
    std::int64_t heads, width;
    const Matrix& weight;
    const Vector& norm;
    Buffer &out, &raw, &inverse;

    /// The norm runs over rows of this width: a head's, or all heads'.
    [[nodiscard]] std::int64_t normWidth() const { return static_cast<std::int64_t>(norm.size()); }
};

Status project(const BlockContext& c, ConstMatrix x, const Rotated& p) {
    PIPER_ASSIGN(p.out, c.floats(kTerm, x.rows * p.width));
    const Matrix out = p.out.matrix(x.rows, p.width);
    if (p.norm.empty()) {
        PIPER_TRY(c.backend.linearForward(x, p.weight, out, Store::Overwrite));
        return c.backend.rotaryForward(rotaryShape(c, p.heads), out);
    }
    const std::int64_t rows = out.size() / p.normWidth();
    PIPER_ASSIGN(p.raw, c.floats(kTerm, out.size()));
    PIPER_ASSIGN(p.inverse, c.floats(kTerm, rows));
    PIPER_TRY(
        c.backend.linearForward(x, p.weight, p.raw.matrix(x.rows, p.width), Store::Overwrite));
    PIPER_TRY(c.backend.rmsNormForward(p.raw.matrix(rows, p.normWidth()), p.norm, c.epsilon(),
                                       out.reshaped(rows, p.normWidth()), p.inverse.floats()));
    return c.backend.rotaryForward(rotaryShape(c, p.heads), out);
}

/// Turns the gradient at the rotated projection into the one at the projection's output. With a
/// norm the gradient at the norm's output moves to `normed` for the weight gradient.
Status unproject(const BlockContext& c, const Rotated& p, Buffer& gradient, Buffer& normed) {
    PIPER_TRY(
        c.backend.rotaryInputGrad(rotaryShape(c, p.heads), gradient.matrix(c.tokens(), p.width)));
    if (p.norm.empty()) return {};
    const std::int64_t rows = c.tokens() * p.width / p.normWidth();
    normed = std::move(gradient);
    PIPER_ASSIGN(gradient, c.floats(kGradient, c.tokens() * p.width));
    return c.backend.rmsNormInputGrad(normed.matrix(rows, p.normWidth()),
                                      p.raw.matrix(rows, p.normWidth()), p.norm, p.inverse.floats(),
                                      gradient.matrix(rows, p.normWidth()), Store::Overwrite);
}

Rotated queryOf(const BlockContext& c, const LayerTensors& w, AttentionState& s) {
    const AttentionSpec& a = c.plan.model.attention;
    return {a.num_heads, w.query.rows, w.query,        w.query_norm,
            s.query,     s.raw_query,  s.query_inverse};
}
Rotated keyOf(const BlockContext& c, const LayerTensors& w, AttentionState& s) {
    const AttentionSpec& a = c.plan.model.attention;
    return {a.num_kv_heads, w.key.rows, w.key, w.key_norm, s.key, s.raw_key, s.key_inverse};
}

Status normWeightGrad(const BlockContext& c, const Rotated& p, const Buffer& normed,
                      Vector dweight) {
    if (dweight.empty()) return {};
    const auto width = static_cast<std::int64_t>(dweight.size());
    const std::int64_t rows = c.tokens() * p.width / width;
    return c.backend.rmsNormWeightGrad(normed.matrix(rows, width), p.raw.matrix(rows, width),
                                       p.inverse.floats(), dweight);
}

}  // namespace

Status attentionForward(const BlockContext& c, const LayerTensors& w, ConstMatrix x, Matrix y,
                        AttentionState& s) {
    PIPER_TRY(normForward(c, x, w.attention_norm, kTerm, s.norm));
    const Matrix normed = c.rows(s.norm.y);
    PIPER_TRY(project(c, normed, queryOf(c, w, s)));
    PIPER_TRY(project(c, normed, keyOf(c, w, s)));
    PIPER_ASSIGN(s.value, c.floats(kTerm, x.rows * w.value.rows));
    const Matrix value = s.value.matrix(x.rows, w.value.rows);
    PIPER_TRY(c.backend.linearForward(normed, w.value, value, Store::Overwrite));
    const AttentionShape shape = coreShape(c);
    PIPER_ASSIGN(s.out, c.floats(kTerm, x.rows * w.query.rows));
    PIPER_ASSIGN(s.lse, c.floats(kTerm, shape.lseSize()));
    const Matrix out = s.out.matrix(x.rows, w.query.rows);
    PIPER_TRY(c.backend.attentionForward(shape, s.query.matrix(x.rows, w.query.rows),
                                         s.key.matrix(x.rows, w.key.rows), value, out,
                                         s.lse.floats()));
    PIPER_TRY(c.backend.linearForward(out, w.output, y, Store::Overwrite));
    return c.backend.add({x.data, x.count()}, y.span());
}

Result<Buffer> attentionInputGrad(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                                  Buffer dy, AttentionState& s) {
    const std::int64_t t = x.rows, q = w.query.rows, kv = w.key.rows;
    PIPER_ASSIGN(Buffer d_out, c.floats(kGradient, t * q));
    PIPER_TRY(
        c.backend.linearInputGrad(c.rows(dy), w.output, d_out.matrix(t, q), Store::Overwrite));
    PIPER_ASSIGN(s.d_query, c.floats(kGradient, t * q));
    PIPER_ASSIGN(s.d_key, c.floats(kGradient, t * kv));
    PIPER_ASSIGN(s.d_value, c.floats(kGradient, t * kv));
    PIPER_TRY(c.backend.attentionBackward(coreShape(c), s.query.matrix(t, q), s.key.matrix(t, kv),
                                          s.value.matrix(t, kv), s.out.matrix(t, q), s.lse.floats(),
                                          d_out.matrix(t, q), s.d_query.matrix(t, q),
                                          s.d_key.matrix(t, kv), s.d_value.matrix(t, kv)));
    d_out.reset();
    PIPER_TRY(unproject(c, queryOf(c, w, s), s.d_query, s.d_query_normed));
    PIPER_TRY(unproject(c, keyOf(c, w, s), s.d_key, s.d_key_normed));
    PIPER_ASSIGN(s.d_norm, c.hiddenState(kGradient));
    const Matrix d_norm = c.rows(s.d_norm);
    PIPER_TRY(c.backend.linearInputGrad(s.d_query.matrix(t, q), w.query, d_norm, Store::Overwrite));
    PIPER_TRY(c.backend.linearInputGrad(s.d_key.matrix(t, kv), w.key, d_norm, Store::Accumulate));
    PIPER_TRY(
        c.backend.linearInputGrad(s.d_value.matrix(t, kv), w.value, d_norm, Store::Accumulate));
    PIPER_ASSIGN(Buffer dx, c.copyOf(dy, kGradient));
    s.dy = std::move(dy);
    PIPER_TRY(c.backend.rmsNormInputGrad(d_norm, x, w.attention_norm, s.norm.inverse_rms.floats(),
                                         c.rows(dx), Store::Accumulate));
    return dx;
}

Status attentionWeightGrad(const BlockContext& c, ConstMatrix x, LayerTensors& dw,
                           AttentionState& s) {
    const std::int64_t t = x.rows, q = dw.query.rows, kv = dw.key.rows;
    const Matrix normed = c.rows(s.norm.y);
    PIPER_TRY(c.backend.linearWeightGrad(c.rows(s.dy), s.out.matrix(t, q), dw.output));
    PIPER_TRY(c.backend.linearWeightGrad(s.d_query.matrix(t, q), normed, dw.query));
    PIPER_TRY(c.backend.linearWeightGrad(s.d_key.matrix(t, kv), normed, dw.key));
    PIPER_TRY(c.backend.linearWeightGrad(s.d_value.matrix(t, kv), normed, dw.value));
    PIPER_TRY(normWeightGrad(c, queryOf(c, dw, s), s.d_query_normed, dw.query_norm));
    PIPER_TRY(normWeightGrad(c, keyOf(c, dw, s), s.d_key_normed, dw.key_norm));
    return c.backend.rmsNormWeightGrad(c.rows(s.d_norm), x, s.norm.inverse_rms.floats(),
                                       dw.attention_norm);
}

}  // namespace piper
