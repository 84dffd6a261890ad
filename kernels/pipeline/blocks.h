// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/backend.h"
#include "kernels/pipeline/parameters.h"
#include "kernels/pipeline/tensor_group.h"

namespace piper {

// The blocks of a transformer layer as forward, input gradient and weight gradient over a state
// that keeps what the later ones need. T: tokens of a micro-batch, t: those of them whose hidden
// state this rank holds (T, or T / tp under sequence parallelism), h: hidden size.

inline constexpr MemoryTerm kAttention = MemoryTerm::AttentionActivation;
inline constexpr MemoryTerm kGradient = MemoryTerm::GradientActivation;

/// What every block works with.
struct BlockContext {
    const Plan& plan;
    Backend& backend;
    TensorGroup& tensor;

    [[nodiscard]] std::int64_t allTokens() const { return plan.tokensPerMicroBatch(); }
    [[nodiscard]] std::int64_t tokens() const { return tensor.localRows(allTokens()); }
    [[nodiscard]] std::int64_t hidden() const { return plan.model.hidden_size; }
    [[nodiscard]] float epsilon() const { return static_cast<float>(plan.model.rms_norm_eps); }
    [[nodiscard]] Result<Buffer> floats(MemoryTerm term, std::int64_t count) const {
        return backend.allocator().allocateFloats(term, count);
    }
    /// [t, h]
    [[nodiscard]] Result<Buffer> hiddenState(MemoryTerm term) const {
        return floats(term, tokens() * hidden());
    }
    [[nodiscard]] Matrix rows(const Buffer& buffer) const {
        return buffer.matrix(tokens(), hidden());
    }
    /// A new [t, h] buffer with the content of `from`.
    [[nodiscard]] Result<Buffer> copyOf(const Buffer& from, MemoryTerm term) const;
    /// y [t, h] (+)= the sum over tensor-parallel ranks of what fill(out [T, h], store) writes.
    template <class Fill>
    [[nodiscard]] Status summed(Matrix y, Store store, Fill&& fill) const;
};

template <class Fill>
Status BlockContext::summed(Matrix y, Store store, Fill&& fill) const {
    if (!tensor.split()) return fill(y, store);
    if (!tensor.splitsRows() && store == Store::Overwrite) {
        PIPER_TRY(fill(y, store));
        return tensor.sum(Vector(y.span()));
    }
    PIPER_ASSIGN(const Buffer partial,
                 floats(MemoryTerm::CommunicationBuffer, allTokens() * y.cols));
    const Matrix all = partial.matrix(allTokens(), y.cols);
    PIPER_TRY(fill(all, Store::Overwrite));
    return tensor.reduce(all, y, store);
}

/// Norm of a block's input; x stays with the caller. mean only with LayerNorm.
struct NormState {
    Buffer y, inverse_rms, mean;
};
[[nodiscard]] Status normForward(const BlockContext& c, ConstMatrix x, const NormTensors& w,
                                 MemoryTerm term, NormState& state);
[[nodiscard]] Status normInputGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x,
                                   const NormTensors& w, const NormState& state, Matrix dx,
                                   Store store);
[[nodiscard]] Status normWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x,
                                    const NormState& state, const NormTensors& dw);

/// What multi-head latent attention keeps besides query, key and value.
struct LatentState {
    Buffer query_raw, key_value_raw, key_rotary;  ///< compressed, before their norms
    NormState query_norm, key_value_norm;
    Buffer d_query_raw, d_query_norm, d_key_value_raw, d_key_value_norm, d_key_value, d_key_rotary;
};

struct AttentionState {
    NormState norm;
    Buffer query, key, value;   ///< after rotation, as the core reads them
    Buffer raw_query, raw_key;  ///< before their norm, when the model has one
    Buffer query_inverse, key_inverse;
    LatentState latent;
    Buffer out, lse;
    /// Kept from the input to the weight gradient; dy_all [T, h] only where dy is a slice of it.
    Buffer dy, dy_all, d_query, d_key, d_value, d_norm;
    Buffer d_query_normed, d_key_normed;  ///< gradients at the outputs of those norms
};

/// x [t, h] -> y [t, h] = x + attention(norm(x)).
[[nodiscard]] Status attentionForward(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                                      Matrix y, AttentionState& s);
/// Makes again what dropAttention dropped, and no more.
[[nodiscard]] Status attentionRecompute(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                                        AttentionState& s);
/// Gives up what the plan's selective recompute makes again.
void dropAttention(const BlockContext& c, AttentionState& s);
/// Takes dy; returns dx.
[[nodiscard]] Result<Buffer> attentionInputGrad(const BlockContext& c, const LayerTensors& w,
                                                ConstMatrix x, Buffer dy, AttentionState& s);
[[nodiscard]] Status attentionWeightGrad(const BlockContext& c, ConstMatrix x, LayerTensors& dw,
                                         AttentionState& s);

/// Query, key and value of grouped-query and of latent attention out of the normed input [T, h],
/// and back: d_norm (+)= the part of the input's gradient that comes over this rank's heads.
[[nodiscard]] Status groupedQueryForward(const BlockContext& c, const LayerTensors& w,
                                         ConstMatrix normed, AttentionState& s);
[[nodiscard]] Status groupedQueryInputGrad(const BlockContext& c, const LayerTensors& w,
                                           AttentionState& s);
[[nodiscard]] Status groupedQueryAddInputGrad(const BlockContext& c, const LayerTensors& w,
                                              AttentionState& s, Matrix d_norm, Store store);
[[nodiscard]] Status groupedQueryWeightGrad(const BlockContext& c, ConstMatrix normed,
                                            LayerTensors& dw, AttentionState& s);
[[nodiscard]] Status latentForward(const BlockContext& c, const LayerTensors& w, ConstMatrix normed,
                                   AttentionState& s);
/// The up-projections alone, out of the compressed states.
[[nodiscard]] Status latentUpForward(const BlockContext& c, const LayerTensors& w,
                                     AttentionState& s);
[[nodiscard]] Status latentInputGrad(const BlockContext& c, const LayerTensors& w,
                                     AttentionState& s);
[[nodiscard]] Status latentAddInputGrad(const BlockContext& c, const LayerTensors& w,
                                        AttentionState& s, Matrix d_norm, Store store);
[[nodiscard]] Status latentWeightGrad(const BlockContext& c, ConstMatrix normed, LayerTensors& dw,
                                      AttentionState& s);
/// The attention of this rank's heads.
[[nodiscard]] AttentionShape attentionShape(const BlockContext& c, LayerId layer);

/// A plain MLP over all tokens: a dense layer's, or the shared experts (`gate`: of their output).
struct MlpState {
    Buffer up, activation;
    Buffer gate, out;             ///< [T] logits of the gate and [T, h] what it weighs
    Buffer d_up, d_gate, dy_all;  ///< dy_all [T, h] only where dy is a slice of it
    Buffer d_out;                 ///< [T, h] behind the gate
};
/// y += mlp(x)
[[nodiscard]] Status mlpForward(const BlockContext& c, MlpKind kind, const MlpTensors& w,
                                const Matrix& gate, ConstMatrix x, Matrix y, MlpState& s);
/// Pre-activation and activation alone.
[[nodiscard]] Status mlpRecompute(const BlockContext& c, MlpKind kind, const MlpTensors& w,
                                  const Matrix& gate, ConstMatrix x, MlpState& s);
/// dx += gradient
[[nodiscard]] Status mlpInputGrad(const BlockContext& c, MlpKind kind, const MlpTensors& w,
                                  const Matrix& gate, ConstMatrix dy, Matrix dx, MlpState& s);
[[nodiscard]] Status mlpWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x,
                                   MlpTensors& dw, const Matrix& d_gate, MlpState& s);

/// Activation between the two matrices, and its gradient.
[[nodiscard]] Status activate(Backend& backend, MlpKind kind, ConstMatrix up, Matrix out);
[[nodiscard]] Status activateInputGrad(Backend& backend, MlpKind kind, ConstMatrix dout,
                                       ConstMatrix up, Matrix dup);

/// out [t, h]: rows of the vocabulary that is split over the tensor-parallel ranks.
[[nodiscard]] Status embeddingForward(const BlockContext& c, const StageTensors& w,
                                      ConstIndices tokens, Matrix out);
[[nodiscard]] Status embeddingWeightGrad(const BlockContext& c, StageTensors& dw,
                                         ConstIndices tokens, ConstMatrix dout);

/// Final norm, head and cross-entropy over all rows; this rank's part of the vocabulary.
struct HeadState {
    Buffer input;  ///< [T, h]
    NormState norm;
    Buffer logits, lse;
    Buffer d_norm;
};
/// Takes the hidden state; loss_sum += -log p of each target, the same on every rank.
[[nodiscard]] Status headForward(const BlockContext& c, const StageTensors& w, Buffer hidden,
                                 ConstIndices targets, double& loss_sum, HeadState& s);
/// scale: 1 / tokens of the global batch.
[[nodiscard]] Result<Buffer> headInputGrad(const BlockContext& c, const StageTensors& w,
                                           ConstIndices targets, float scale, HeadState& s);
[[nodiscard]] Status headWeightGrad(const BlockContext& c, StageTensors& dw, HeadState& s);

}  // namespace piper
