// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/blocks.h"

namespace piper {

Result<Buffer> BlockContext::copyOf(const Buffer& from, MemoryTerm term) const {
    PIPER_ASSIGN(Buffer copy, hiddenState(term));
    PIPER_TRY(backend.copyRows(rows(from), rows(copy)));
    return copy;
}

Status normForward(const BlockContext& c, ConstMatrix x, const NormTensors& w, MemoryTerm term,
                   NormState& state) {
    PIPER_ASSIGN(state.y, c.floats(term, x.size()));
    PIPER_ASSIGN(state.inverse_rms, c.floats(term, x.rows));
    const Matrix y = state.y.matrix(x.rows, x.cols);
    if (w.bias.empty())
        return c.backend.rmsNormForward(x, w.weight, c.epsilon(), y, state.inverse_rms.floats());
    PIPER_ASSIGN(state.mean, c.floats(term, x.rows));
    return c.backend.layerNormForward(x, w.weight, w.bias, c.epsilon(), y, state.mean.floats(),
                                      state.inverse_rms.floats());
}

Status normInputGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x, const NormTensors& w,
                     const NormState& state, Matrix dx, Store store) {
    if (w.bias.empty())
        return c.backend.rmsNormInputGrad(dy, x, w.weight, state.inverse_rms.floats(), dx, store);
    return c.backend.layerNormInputGrad(dy, x, w.weight, state.mean.floats(),
                                        state.inverse_rms.floats(), dx, store);
}

Status normWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x, const NormState& state,
                      const NormTensors& dw) {
    if (dw.bias.empty())
        return c.backend.rmsNormWeightGrad(dy, x, state.inverse_rms.floats(), dw.weight);
    return c.backend.layerNormWeightGrad(dy, x, state.mean.floats(), state.inverse_rms.floats(),
                                         dw.weight, dw.bias);
}

Status activate(Backend& backend, MlpKind kind, ConstMatrix up, Matrix out) {
    return kind == MlpKind::SwiGlu ? backend.swigluForward(up, out) : backend.geluForward(up, out);
}

Status activateInputGrad(Backend& backend, MlpKind kind, ConstMatrix dout, ConstMatrix up,
                         Matrix dup) {
    return kind == MlpKind::SwiGlu ? backend.swigluInputGrad(dout, up, dup)
                                   : backend.geluInputGrad(dout, up, dup);
}

namespace {

/// Pre-activation and activation out of all rows of the normed input.
Status mlpUp(const BlockContext& c, MlpKind kind, const MlpTensors& w, ConstMatrix x, MlpState& s) {
    PIPER_ASSIGN(s.up, c.floats(MemoryTerm::ExpertIntermediate, x.rows * w.up.rows));
    PIPER_ASSIGN(s.activation, c.floats(MemoryTerm::ExpertIntermediate, x.rows * w.ffn));
    const Matrix up = s.up.matrix(x.rows, w.up.rows), out = s.activation.matrix(x.rows, w.ffn);
    PIPER_TRY(c.backend.linearForward(x, w.up, up, Store::Overwrite));
    if (!w.up_bias.empty()) PIPER_TRY(c.backend.biasForward(w.up_bias, up));
    return activate(c.backend, kind, up, out);
}

/// This rank's part of the gated output, kept for the gate's gradient.
Status gatedOut(const BlockContext& c, const MlpTensors& w, const Matrix& gate, ConstMatrix x,
                MlpState& s) {
    PIPER_ASSIGN(s.gate, c.floats(MemoryTerm::ExpertIntermediate, x.rows));
    PIPER_ASSIGN(s.out, c.floats(MemoryTerm::ExpertIntermediate, x.size()));
    PIPER_TRY(c.backend.linearForward(x, gate, s.gate.matrix(x.rows, 1), Store::Overwrite));
    return c.backend.linearForward(s.activation.matrix(x.rows, w.ffn), w.down,
                                   s.out.matrix(x.rows, x.cols), Store::Overwrite);
}

}  // namespace

Status mlpForward(const BlockContext& c, MlpKind kind, const MlpTensors& w, const Matrix& gate,
                  ConstMatrix x, Matrix y, MlpState& s) {
    PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(x));
    PIPER_TRY(mlpUp(c, kind, w, all.rows, s));
    const std::int64_t rows = all.rows.rows;
    if (gate.size() > 0) PIPER_TRY(gatedOut(c, w, gate, all.rows, s));
    PIPER_TRY(c.summed(y, Store::Accumulate, [&](Matrix out, Store store) {
        if (gate.size() > 0)
            return c.backend.gateRowsForward(s.gate.floats(), s.out.matrix(rows, x.cols), out,
                                             store);
        return c.backend.linearForward(s.activation.matrix(rows, w.ffn), w.down, out, store);
    }));
    return w.down_bias.empty() ? Status{} : c.backend.biasForward(w.down_bias, y);
}

Status mlpRecompute(const BlockContext& c, MlpKind kind, const MlpTensors& w, const Matrix& gate,
                    ConstMatrix x, MlpState& s) {
    PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(x));
    PIPER_TRY(mlpUp(c, kind, w, all.rows, s));
    return gate.size() > 0 ? gatedOut(c, w, gate, all.rows, s) : Status{};
}

Status mlpInputGrad(const BlockContext& c, MlpKind kind, const MlpTensors& w, const Matrix& gate,
                    ConstMatrix dy, Matrix dx, MlpState& s) {
    PIPER_ASSIGN(GatheredRows all, c.tensor.gather(dy));
    ConstMatrix d_out = all.rows;
    const std::int64_t rows = d_out.rows;
    if (gate.size() > 0) {
        PIPER_ASSIGN(s.d_out, c.floats(MemoryTerm::GradientActivation, d_out.size()));
        PIPER_ASSIGN(s.d_gate, c.floats(MemoryTerm::GradientActivation, rows));
        const Matrix behind = s.d_out.matrix(rows, d_out.cols);
        PIPER_TRY(c.backend.gateRowsInputGrad(
            d_out, s.gate.floats(), s.out.matrix(rows, d_out.cols), behind, s.d_gate.floats()));
        s.out.reset();
        d_out = behind;
    }
    PIPER_ASSIGN(Buffer d_activation, c.floats(MemoryTerm::GradientActivation, rows * w.ffn));
    PIPER_ASSIGN(s.d_up, c.floats(MemoryTerm::GradientActivation, rows * w.up.rows));
    const Matrix dact = d_activation.matrix(rows, w.ffn);
    const Matrix dup = s.d_up.matrix(rows, w.up.rows);
    PIPER_TRY(c.backend.linearInputGrad(d_out, w.down, dact, Store::Overwrite));
    PIPER_TRY(activateInputGrad(c.backend, kind, dact, s.up.matrix(rows, w.up.rows), dup));
    d_activation.reset();
    s.dy_all = std::move(all.held);
    return c.summed(dx, Store::Accumulate, [&](Matrix out, Store store) -> Status {
        PIPER_TRY(c.backend.linearInputGrad(dup, w.up, out, store));
        if (gate.size() == 0) return {};
        return c.backend.linearInputGrad(s.d_gate.matrix(rows, 1), gate, out, Store::Accumulate);
    });
}

Status mlpWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x, MlpTensors& dw,
                     const Matrix& d_gate, MlpState& s) {
    PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(x));
    const std::int64_t rows = all.rows.rows;
    const Matrix dup = s.d_up.matrix(rows, dw.up.rows);
    ConstMatrix d_out = s.dy_all.empty() ? dy : ConstMatrix(s.dy_all.matrix(rows, dy.cols));
    if (d_gate.size() > 0) {
        PIPER_TRY(c.backend.linearWeightGrad(s.d_gate.matrix(rows, 1), all.rows, d_gate));
        d_out = s.d_out.matrix(rows, dy.cols);
    }
    PIPER_TRY(c.backend.linearWeightGrad(d_out, s.activation.matrix(rows, dw.ffn), dw.down));
    PIPER_TRY(c.backend.linearWeightGrad(dup, all.rows, dw.up));
    if (!dw.up_bias.empty()) PIPER_TRY(c.backend.biasWeightGrad(dup, dw.up_bias));
    if (!dw.down_bias.empty()) PIPER_TRY(c.backend.biasWeightGrad(dy, dw.down_bias));
    s = MlpState{};
    return {};
}

}  // namespace piper
