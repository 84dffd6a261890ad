// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/shapes.h"
#include "kernels/ops/tensor.h"
#include "kernels/ops/work_counter.h"

namespace piper {

/// The operations of a mixture-of-experts transformer on one device, in f32.
///
/// Every forward has its input gradient and its weight gradient as functions of their own, so that
/// schedules may run them apart. Buffers belong to the caller and lie in the memory of
/// allocator(); outputs do not overlap inputs unless said. Outputs are overwritten whatever they
/// held, except weight gradients, which are always added to, and outputs with a Store argument.
/// t: tokens (rows) of a micro-batch, h: hidden size, E: experts, k: router_topk.
/// The same inputs give the same bits again. A wrong shape is a broken invariant of the caller and
/// stops; Errors are data out of range (InvalidInput) and faults of the device (External).
class Backend {
public:
    virtual ~Backend() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;  ///< "cpu", "cuda"
    [[nodiscard]] virtual TaggedAllocator& allocator() = 0;
    [[nodiscard]] virtual WorkCounter& work() = 0;
    /// Waits for everything asked for so far; outputs may be read by the host after it.
    virtual Status synchronize() = 0;
    /// Called now and then on the computing thread while an operation lasts (a processor: after
    /// every product), so that transfers beside it move on. It must not call the backend.
    virtual void setMeanwhile(std::function<void()> meanwhile) { (void)meanwhile; }
    virtual Status copyToDevice(std::span<const std::byte> host, std::span<std::byte> device) = 0;
    virtual Status copyToHost(std::span<const std::byte> device, std::span<std::byte> host) = 0;

    // ---- elements
    virtual Status fill(Vector x, float value) = 0;
    /// y += x
    virtual Status add(ConstVector x, Vector y) = 0;
    /// x *= factor
    virtual Status scale(Vector x, float factor) = 0;

    /// y = x
    virtual Status copyRows(ConstMatrix x, Matrix y) = 0;
    /// For every row r and block b of `blocks`: y[r, to.first + b to.stride + i] (+)=
    /// x[r, from.first + b from.stride + i], i < width. A stride of 0 repeats one block of x, or
    /// adds all blocks to one of y (then with Accumulate).
    virtual Status copyBlocks(ConstMatrix x, ColumnBlocks from, Matrix y, ColumnBlocks to,
                              std::int64_t blocks, std::int64_t width, Store store) = 0;

    // ---- embedding: table [vocab, h], tokens [t], out [t, h]
    virtual Status embeddingForward(ConstIndices tokens, ConstMatrix table, Matrix out) = 0;
    virtual Status embeddingWeightGrad(ConstIndices tokens, ConstMatrix dout, Matrix dtable) = 0;

    // ---- RMSNorm over rows: y = x * inverse_rms * weight; inverse_rms [t] is kept for backward
    virtual Status rmsNormForward(ConstMatrix x, ConstVector weight, float epsilon, Matrix y,
                                  Vector inverse_rms) = 0;
    virtual Status rmsNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight,
                                    ConstVector inverse_rms, Matrix dx, Store store) = 0;
    virtual Status rmsNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector inverse_rms,
                                     Vector dweight) = 0;

    // ---- LayerNorm over rows: y = (x - mean) * inverse * weight + bias
    virtual Status layerNormForward(ConstMatrix x, ConstVector weight, ConstVector bias,
                                    float epsilon, Matrix y, Vector mean, Vector inverse) = 0;
    virtual Status layerNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight,
                                      ConstVector mean, ConstVector inverse, Matrix dx,
                                      Store store) = 0;
    virtual Status layerNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector mean,
                                       ConstVector inverse, Vector dweight, Vector dbias) = 0;

    // ---- rotary embedding, in place; the input gradient turns back
    virtual Status rotaryForward(const RotaryShape& shape, Matrix x) = 0;
    virtual Status rotaryInputGrad(const RotaryShape& shape, Matrix dx) = 0;

    // ---- linear: x [m, k], w [n, k], y [m, n] = x w^T
    virtual Status linearForward(ConstMatrix x, ConstMatrix w, Matrix y, Store store) = 0;
    virtual Status linearInputGrad(ConstMatrix dy, ConstMatrix w, Matrix dx, Store store) = 0;
    virtual Status linearWeightGrad(ConstMatrix dy, ConstMatrix x, Matrix dw) = 0;
    /// Each row of y += bias; dbias += column sums of dy.
    virtual Status biasForward(ConstVector bias, Matrix y) = 0;
    virtual Status biasWeightGrad(ConstMatrix dy, Vector dbias) = 0;

    // ---- grouped linear: rows [offsets[g], offsets[g + 1]) of x meet w's rows [g * n, (g + 1) *
    // n)
    /// offsets [groups + 1] from 0 to x.rows, ascending, in host memory; empty groups are legal.
    virtual Status groupedLinearForward(ConstMatrix x, std::span<const std::int64_t> offsets,
                                        ConstMatrix w, Matrix y) = 0;
    virtual Status groupedLinearInputGrad(ConstMatrix dy, std::span<const std::int64_t> offsets,
                                          ConstMatrix w, Matrix dx) = 0;
    virtual Status groupedLinearWeightGrad(ConstMatrix dy, ConstMatrix x,
                                           std::span<const std::int64_t> offsets, Matrix dw) = 0;

    // ---- MLP activations
    /// gate_up [r, 2 f]: gate in the first f columns, up in the last; out [r, f] = silu(gate) * up.
    virtual Status swigluForward(ConstMatrix gate_up, Matrix out) = 0;
    virtual Status swigluInputGrad(ConstMatrix dout, ConstMatrix gate_up, Matrix dgate_up) = 0;
    /// Two-matrix MLP: GELU in its tanh form.
    virtual Status geluForward(ConstMatrix x, Matrix out) = 0;
    virtual Status geluInputGrad(ConstMatrix dout, ConstMatrix x, Matrix dx) = 0;

    /// Gated rows: y[r] (+)= sigmoid(gate[r]) * x[r].
    virtual Status gateRowsForward(ConstVector gate, ConstMatrix x, Matrix y, Store store) = 0;
    /// dx[r] = sigmoid(gate[r]) * dy[r]; dgate[r] = the slope of sigmoid(gate[r]) times dy[r] .
    /// x[r].
    virtual Status gateRowsInputGrad(ConstMatrix dy, ConstVector gate, ConstMatrix x, Matrix dx,
                                     Vector dgate) = 0;

    // ---- attention; the s x s matrix never exists, lse [batch, heads, s] is kept
    virtual Status attentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                    ConstMatrix v, Matrix o, Vector lse) = 0;
    virtual Status attentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                     ConstMatrix v, ConstMatrix o, ConstVector lse, ConstMatrix d_o,
                                     Matrix dq, Matrix dk, Matrix dv) = 0;

    // ---- router: logits [t, E] -> scores [t, E], experts [t, k], weights [t, k]
    /// Errors: InvalidInput when a replayed expert is out of range; External for a NaN logit.
    virtual Status routerForward(const RouterShape& shape, RouterMode mode, ConstMatrix logits,
                                 Matrix scores, Indices experts, Matrix weights) = 0;
    /// dscore [E] is added to the gradient of every row of scores (the auxiliary loss); empty for
    /// none. dlogits [t, E].
    virtual Status routerInputGrad(const RouterShape& shape, ConstMatrix scores,
                                   ConstIndices experts, ConstMatrix dweights, ConstVector dscore,
                                   Matrix dlogits) = 0;
    /// sums [cols] = column sums of x (scores for the auxiliary loss), in host memory.
    virtual Status columnSums(ConstMatrix x, std::span<double> sums) = 0;

    // ---- rows
    /// y[r] = x[index[r]].
    virtual Status gatherRows(ConstMatrix x, ConstIndices index, Matrix y) = 0;
    /// y[index[r]] = x[r]; index names each row of y at most once, other rows stay.
    virtual Status scatterRows(ConstMatrix x, ConstIndices index, Matrix y) = 0;

    // ---- permute, unpermute and combine over a Permutation (kernels/ops/permutation.h)
    /// rows[r] = x[slot_of_row[r] / k]; a negative slot (room of an expert that nobody took) makes
    /// a row of zeros.
    virtual Status permuteForward(ConstMatrix x, ConstIndices slot_of_row, std::int64_t router_topk,
                                  Matrix rows) = 0;
    /// dx[token] (+)= sum over its slots of drows[row_of_slot[slot]], slots in order.
    virtual Status permuteInputGrad(ConstMatrix drows, ConstIndices row_of_slot,
                                    std::int64_t router_topk, Matrix dx, Store store) = 0;
    /// y[token] (+)= sum over its slots of weights[slot] * rows[row_of_slot[slot]].
    /// weights [t, k]; a negative row_of_slot is a dropped slot.
    virtual Status combineForward(ConstMatrix rows, ConstIndices row_of_slot, ConstMatrix weights,
                                  Matrix y, Store store) = 0;
    /// drows[row] = weights[slot] * dy[token]; dweights[slot] = dy[token] . rows[row], 0 if
    /// dropped.
    virtual Status combineInputGrad(ConstMatrix dy, ConstMatrix rows, ConstIndices row_of_slot,
                                    ConstMatrix weights, Matrix drows, Matrix dweights) = 0;

    // ---- loss: logits [t, vocab]; a negative target does not count, but kTargetElsewhere: its
    // target is in another rank's part of the vocabulary, so that its row has a softmax all the
    // same
    static constexpr std::int32_t kTargetElsewhere = -(1 << 30);
    /// loss_sum = sum of -log p(target); lse [t] is kept. Divide by the global tokens yourself.
    virtual Status crossEntropyForward(ConstMatrix logits, ConstIndices targets, Vector lse,
                                       double& loss_sum) = 0;
    /// In place: logits become scale * (softmax - onehot), so that only one such matrix exists.
    virtual Status crossEntropyInputGrad(Matrix logits, ConstIndices targets, ConstVector lse,
                                         float scale) = 0;

    // ---- optimizer
    /// sum += squares of x; the pieces of a global gradient norm. NaN and infinity pass through.
    virtual Status addSquaredSum(ConstVector x, double& sum) = 0;
    /// Decoupled weight decay; gradient is not changed.
    virtual Status adamW(const AdamWParameters& parameters, ConstVector gradient, Vector weight,
                         Vector first_moment, Vector second_moment) = 0;
};

}  // namespace piper
