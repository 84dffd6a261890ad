// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/backend.h"
#include "kernels/pipeline/parameters.h"

namespace piper {

// The blocks of a transformer layer as forward, input gradient and weight gradient over a state
// that keeps what the later ones need. t: tokens of a micro-batch, h: hidden size.

/// What every block works with.
struct BlockContext {
    const Plan& plan;
    Backend& backend;

    [[nodiscard]] std::int64_t tokens() const { return plan.tokensPerMicroBatch(); }
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
};

/// RMSNorm of a block's input; x stays with the caller.
struct NormState {
    Buffer y, inverse_rms;
};
[[nodiscard]] Status normForward(const BlockContext& c, ConstMatrix x, ConstVector weight,
                                 MemoryTerm term, NormState& state);

struct AttentionState {
    NormState norm;
    Buffer query, key, value;   ///< after rotation, as the core reads them
    Buffer raw_query, raw_key;  ///< before their norm, when the model has one
    Buffer query_inverse, key_inverse;
    Buffer out, lse;
    Buffer dy, d_query, d_key, d_value, d_norm;  ///< kept from the input to the weight gradient
    Buffer d_query_normed, d_key_normed;         ///< gradients at the outputs of those norms
};

/// x [t, h] -> y [t, h] = x + attention(norm(x)).
[[nodiscard]] Status attentionForward(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                                      Matrix y, AttentionState& s);
/// Takes dy; returns dx.
[[nodiscard]] Result<Buffer> attentionInputGrad(const BlockContext& c, const LayerTensors& w,
                                                ConstMatrix x, Buffer dy, AttentionState& s);
[[nodiscard]] Status attentionWeightGrad(const BlockContext& c, ConstMatrix x, LayerTensors& dw,
                                         AttentionState& s);

/// A plain MLP over all tokens: a dense layer's, or the shared experts.
struct MlpState {
    Buffer up, activation;
    Buffer d_up;
};
/// y += mlp(x)
[[nodiscard]] Status mlpForward(const BlockContext& c, MlpKind kind, const MlpTensors& w,
                                ConstMatrix x, Matrix y, MlpState& s);
/// dx += gradient
[[nodiscard]] Status mlpInputGrad(const BlockContext& c, MlpKind kind, const MlpTensors& w,
                                  ConstMatrix dy, Matrix dx, MlpState& s);
[[nodiscard]] Status mlpWeightGrad(const BlockContext& c, ConstMatrix dy, ConstMatrix x,
                                   MlpTensors& dw, MlpState& s);

/// Activation between the two matrices, and its gradient.
[[nodiscard]] Status activate(Backend& backend, MlpKind kind, ConstMatrix up, Matrix out);
[[nodiscard]] Status activateInputGrad(Backend& backend, MlpKind kind, ConstMatrix dout,
                                       ConstMatrix up, Matrix dup);

/// Final norm, head and cross-entropy.
struct HeadState {
    NormState norm;
    Buffer logits, lse;
    Buffer d_norm;
};
/// loss_sum += -log p of each target.
[[nodiscard]] Status headForward(const BlockContext& c, const StageTensors& w, ConstMatrix x,
                                 ConstIndices targets, double& loss_sum, HeadState& s);
/// scale: 1 / tokens of the global batch.
[[nodiscard]] Result<Buffer> headInputGrad(const BlockContext& c, const StageTensors& w,
                                           ConstMatrix x, ConstIndices targets, float scale,
                                           HeadState& s);
[[nodiscard]] Status headWeightGrad(const BlockContext& c, ConstMatrix x, StageTensors& dw,
                                    HeadState& s);

}  // namespace piper
