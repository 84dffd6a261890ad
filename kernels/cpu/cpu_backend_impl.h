// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "core/base/cast.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops.h"
#include "kernels/ops/backend.h"

namespace piper {

// What the parts of the backend share.
inline std::int64_t length(std::size_t n) {
    return static_cast<std::int64_t>(n);
}
inline bool sameShape(ConstMatrix a, ConstMatrix b) {
    return a.rows == b.rows && a.cols == b.cols;
}
inline void copyRow(const float* from, float* to, std::int64_t n) {
    std::copy_n(from, n, to);
}

/// cpu_backend.cpp: products, activations, optimizer. cpu_norms.cpp: norms, rotation. cpu_rows.cpp:
/// whatever moves or weighs rows, and the loss. cpu_router.cpp: the router.
class CpuBackend final : public Backend {
public:
    CpuBackend(TaggedAllocator& allocator, std::unique_ptr<Gemm> gemm, Attention attention,
               const Loops& loops);

    std::string_view name() const override { return "cpu"; }
    TaggedAllocator& allocator() override { return m_allocator; }
    WorkCounter& work() override { return m_work; }
    Status synchronize() override { return {}; }
    void setMeanwhile(std::function<void()> meanwhile) override {
        m_gemm->setMeanwhile(std::move(meanwhile));
    }
    Status copyToDevice(std::span<const std::byte> host, std::span<std::byte> device) override;
    Status copyToHost(std::span<const std::byte> device, std::span<std::byte> host) override;

    Status fill(Vector x, float value) override;
    Status add(ConstVector x, Vector y) override;
    Status scale(Vector x, float factor) override;
    Status copyRows(ConstMatrix x, Matrix y) override;
    Status copyBlocks(ConstMatrix x, ColumnBlocks from, Matrix y, ColumnBlocks to,
                      std::int64_t blocks, std::int64_t width, Store store) override;

    Status embeddingForward(ConstIndices tokens, ConstMatrix table, Matrix out) override;
    Status embeddingWeightGrad(ConstIndices tokens, ConstMatrix dout, Matrix dtable) override;

    Status rmsNormForward(ConstMatrix x, ConstVector weight, float epsilon, Matrix y,
                          Vector inverse_rms) override;
    Status rmsNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight,
                            ConstVector inverse_rms, Matrix dx, Store store) override;
    Status rmsNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector inverse_rms,
                             Vector dweight) override;

    Status layerNormForward(ConstMatrix x, ConstVector weight, ConstVector bias, float epsilon,
                            Matrix y, Vector mean, Vector inverse) override;
    Status layerNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight, ConstVector mean,
                              ConstVector inverse, Matrix dx, Store store) override;
    Status layerNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector mean, ConstVector inverse,
                               Vector dweight, Vector dbias) override;

    Status rotaryForward(const RotaryShape& shape, Matrix x) override;
    Status rotaryInputGrad(const RotaryShape& shape, Matrix dx) override;

    Status linearForward(ConstMatrix x, ConstMatrix w, Matrix y, Store store) override;
    Status linearInputGrad(ConstMatrix dy, ConstMatrix w, Matrix dx, Store store) override;
    Status linearWeightGrad(ConstMatrix dy, ConstMatrix x, Matrix dw) override;
    Status biasForward(ConstVector bias, Matrix y) override;
    Status biasWeightGrad(ConstMatrix dy, Vector dbias) override;

    Status groupedLinearForward(ConstMatrix x, std::span<const std::int64_t> offsets, ConstMatrix w,
                                Matrix y) override;
    Status groupedLinearInputGrad(ConstMatrix dy, std::span<const std::int64_t> offsets,
                                  ConstMatrix w, Matrix dx) override;
    Status groupedLinearWeightGrad(ConstMatrix dy, ConstMatrix x,
                                   std::span<const std::int64_t> offsets, Matrix dw) override;

    Status swigluForward(ConstMatrix gate_up, Matrix out) override;
    Status swigluInputGrad(ConstMatrix dout, ConstMatrix gate_up, Matrix dgate_up) override;
    Status geluForward(ConstMatrix x, Matrix out) override;
    Status geluInputGrad(ConstMatrix dout, ConstMatrix x, Matrix dx) override;

    Status gateRowsForward(ConstVector gate, ConstMatrix x, Matrix y, Store store) override;
    Status gateRowsInputGrad(ConstMatrix dy, ConstVector gate, ConstMatrix x, Matrix dx,
                             Vector dgate) override;

    Status attentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                            ConstMatrix v, Matrix o, Vector lse) override;
    Status attentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                             ConstMatrix v, ConstMatrix o, ConstVector lse, ConstMatrix d_o,
                             Matrix dq, Matrix dk, Matrix dv) override;

    Status routerForward(const RouterShape& shape, RouterMode mode, ConstMatrix logits,
                         Matrix scores, Indices experts, Matrix weights) override;
    Status routerInputGrad(const RouterShape& shape, ConstMatrix scores, ConstIndices experts,
                           ConstMatrix dweights, ConstVector dscore, Matrix dlogits) override;
    Status columnSums(ConstMatrix x, std::span<double> sums) override;

    Status gatherRows(ConstMatrix x, ConstIndices index, Matrix y) override;
    Status scatterRows(ConstMatrix x, ConstIndices index, Matrix y) override;
    Status permuteForward(ConstMatrix x, ConstIndices slot_of_row, std::int64_t router_topk,
                          Matrix rows) override;
    Status permuteInputGrad(ConstMatrix drows, ConstIndices row_of_slot, std::int64_t router_topk,
                            Matrix dx, Store store) override;
    Status combineForward(ConstMatrix rows, ConstIndices row_of_slot, ConstMatrix weights, Matrix y,
                          Store store) override;
    Status combineInputGrad(ConstMatrix dy, ConstMatrix rows, ConstIndices row_of_slot,
                            ConstMatrix weights, Matrix drows, Matrix dweights) override;

    Status crossEntropyForward(ConstMatrix logits, ConstIndices targets, Vector lse,
                               double& loss_sum) override;
    Status crossEntropyInputGrad(Matrix logits, ConstIndices targets, ConstVector lse,
                                 float scale) override;

    Status addSquaredSum(ConstVector x, double& sum) override;
    Status adamW(const AdamWParameters& parameters, ConstVector gradient, Vector weight,
                 Vector first_moment, Vector second_moment) override;

private:
    void choose(const RouterShape& shape, const float* scores, std::int32_t* experts);
    /// Excludes from m_selection the experts of all but the `keep` groups of highest score, a
    /// group's being the sum of its `best` largest.
    void limitGroups(ConstIndices group_of_expert, std::int64_t groups, std::int64_t keep,
                     std::int64_t best);
    float groupScore(ConstIndices group_of_expert, std::int32_t group, std::int64_t best);
    Status rotate(const RotaryShape& shape, Matrix x, float sign);
    Status prepareAngles(const RotaryShape& shape);
    /// Counts elements of f32 read or written.
    void touch(std::int64_t elements) {
        m_work.addBytes(elements * static_cast<std::int64_t>(sizeof(float)));
    }

    TaggedAllocator& m_allocator;
    std::unique_ptr<Gemm> m_gemm;
    Attention m_attention;
    const Loops& m_loops;
    alignas(64) std::array<float, Loops::kScratch> m_scratch;
    WorkCounter m_work;
    RotaryShape m_angles_of{.seq_len = 0};
    std::vector<float> m_selection;               ///< [E] scores that experts are chosen by
    std::vector<std::int32_t> m_group_of_expert;  ///< [E], of the router at work
    std::vector<float> m_group_scores, m_found;   ///< [groups]; scores of a group's experts
    std::vector<std::int32_t> m_kept;             ///< groups
    Buffer m_angles;  ///< [2, seq_len, head_dim / 2]: cosines, then sines
};

}  // namespace piper
