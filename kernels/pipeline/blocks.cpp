// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/blocks.h"

namespace piper {

Result<Buffer> BlockContext::copyOf(const Buffer& from, MemoryTerm term) const {
    PIPER_ASSIGN(Buffer copy, hiddenState(term));
    PIPER_TRY(backend.fill(copy.floats(), 0.0F));
    PIPER_TRY(backend.add(from.floats(), copy.floats()));
    return copy;
}

Status normForward(const BlockContext& c, ConstMatrix x, ConstVector weight, MemoryTerm term,
                   NormState& state) {
    PIPER_ASSIGN(state.y, c.floats(term, x.size()));
    PIPER_ASSIGN(state.inverse_rms, c.floats(term, x.rows));
    return c.backend.rmsNormForward(x, weight, c.epsilon(), state.y.matrix(x.rows, x.cols),
                                    state.inverse_rms.floats());
}

Status activate(Backend& backend, MlpKind kind, ConstMatrix up, Matrix out) {
    return kind == MlpKind::SwiGlu ? backend.swigluForward(up, out) : backend.geluForward(up, out);
}

Status activateInputGrad(Backend& backend, MlpKind kind, ConstMatrix dout, ConstMatrix up,
                         Matrix dup) {
    return kind == MlpKind::SwiGlu ? backend.swigluInputGrad(dout, up, dup)
                                   : backend.geluInputGrad(dout, up, dup);
}

Status mlpForward(const BlockContext& c, MlpKind kind, const MlpTensors& w, ConstMatrix x, Matrix y,
                  MlpState& s) {
    PIPER_ASSIGN(s.up, c.floats(MemoryTerm::ExpertIntermediate, x.rows * w.up.rows));
    PIPER_ASSIGN(s.activation, c.floats(MemoryTerm::ExpertIntermediate, x.rows * w.ffn));
    const Matrix up = s.up.matrix(x.rows, w.up.rows), out = s.activation.matrix(x.rows, w.ffn);
    PIPER_TRY(c.backend.linearForward(x, w.up, up, Store::Overwrite));
    PIPER_TRY(activate(c.backend, kind, up, out));
    return c.backend.linearForward(out, w.down, y, Store::Accumulate);
}

Status mlpInputGrad(const BlockContext& c, MlpKind kind, const MlpTensors& w, ConstMatrix dy,
                    Matrix dx, MlpState& s) {
    PIPER_ASSIGN(Buffer d_activation, c.floats(MemoryTerm::GradientActivation, dy.rows * w.ffn));
    PIPER_ASSIGN(s.d_up, c.floats(MemoryTerm::GradientActivation, dy.rows * w.up.rows));
    const Matrix dout = d_activation.matrix(dy.rows, w.ffn);
    const Matrix dup = s.d_up.matrix(dy.rows, w.up.rows);
    PIPER_TRY(c.backend.linearInputGrad(dy, w.down, dout, Store::Overwrite));
    PIPER_TRY(activateInputGrad(c.backend, kind, dout, s.up.matrix(dy.rows, w.up.rows), dup));
    return c.backend.linearInputGrad(dup, w.up, dx, Store::Accumulate);
}

Status mlpWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x, MlpTensors& dw,
                     MlpState& s) {
    PIPER_TRY(c.backend.linearWeightGrad(dy, s.activation.matrix(dy.rows, dw.ffn), dw.down));
    PIPER_TRY(c.backend.linearWeightGrad(s.d_up.matrix(dy.rows, dw.up.rows), x, dw.up));
    s = MlpState{};
    return {};
}

Status headForward(const BlockContext& c, const StageTensors& w, ConstMatrix x,
                   ConstIndices targets, double& loss_sum, HeadState& s) {
    PIPER_TRY(normForward(c, x, w.final_norm, MemoryTerm::HeadActivation, s.norm));
    PIPER_ASSIGN(s.logits, c.floats(MemoryTerm::HeadActivation, x.rows * w.head.rows));
    PIPER_ASSIGN(s.lse, c.floats(MemoryTerm::HeadActivation, x.rows));
    const Matrix logits = s.logits.matrix(x.rows, w.head.rows);
    PIPER_TRY(c.backend.linearForward(c.rows(s.norm.y), w.head, logits, Store::Overwrite));
    double sum = 0.0;
    PIPER_TRY(c.backend.crossEntropyForward(logits, targets, s.lse.floats(), sum));
    loss_sum += sum;
    return {};
}

Result<Buffer> headInputGrad(const BlockContext& c, const StageTensors& w, ConstMatrix x,
                             ConstIndices targets, float scale, HeadState& s) {
    const Matrix logits = s.logits.matrix(x.rows, w.head.rows);
    PIPER_TRY(c.backend.crossEntropyInputGrad(logits, targets, s.lse.floats(), scale));
    PIPER_ASSIGN(s.d_norm, c.hiddenState(MemoryTerm::GradientActivation));
    PIPER_ASSIGN(Buffer dx, c.hiddenState(MemoryTerm::GradientActivation));
    PIPER_TRY(c.backend.linearInputGrad(logits, w.head, c.rows(s.d_norm), Store::Overwrite));
    PIPER_TRY(c.backend.rmsNormInputGrad(c.rows(s.d_norm), x, w.final_norm,
                                         s.norm.inverse_rms.floats(), c.rows(dx),
                                         Store::Overwrite));
    return dx;
}

Status headWeightGrad(const BlockContext& c, ConstMatrix x, StageTensors& dw, HeadState& s) {
    PIPER_TRY(c.backend.linearWeightGrad(s.logits.matrix(x.rows, dw.head.rows), c.rows(s.norm.y),
                                         dw.head));
    PIPER_TRY(c.backend.rmsNormWeightGrad(c.rows(s.d_norm), x, s.norm.inverse_rms.floats(),
                                          dw.final_norm));
    s = HeadState{};
    return {};
}

}  // namespace piper
