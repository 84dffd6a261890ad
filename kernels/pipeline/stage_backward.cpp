// SPDX-License-Identifier: Apache-2.0
// The gradient operations of a StageModel.
#include "kernels/pipeline/stage_model.h"

namespace piper {

Status StageModel::inputGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    const BlockContext& c = m_context;
    switch (op.key.phase) {
        case Phase::HeadLoss: {
            const double tokens = static_cast<double>(m_parts.plan.global_batch_size) *
                                  static_cast<double>(m_parts.plan.seq_len);
            PIPER_ASSIGN(state.gradient,
                         headInputGrad(c, m_parameters.weights(), state.targets,
                                       static_cast<float>(1.0 / tokens), state.head));
            return {};
        }
        case Phase::Expert:
            return expertInputGrad(op);
        case Phase::Router: {
            LayerState& layer = layerOf(op);
            PIPER_ASSIGN(state.gradient,
                         m_moe.routerInputGrad(m_parameters.weights().of(op.layer),
                                               c.rows(layer.middle), microBatchShare(), layer.moe));
            return {};
        }
        case Phase::Attention: {
            LayerState& layer = layerOf(op);
            const LayerTensors& w = m_parameters.weights().of(op.layer);
            PIPER_TRY(attentionRecompute(c, w, c.rows(layer.x), layer.attention));
            PIPER_ASSIGN(state.gradient,
                         attentionInputGrad(c, w, c.rows(layer.x), std::move(state.gradient),
                                            layer.attention));
            return {};
        }
        default:
            return notRun(op);
    }
}

Status StageModel::expertInputGrad(const Operation& op) {
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    MoeState& moe = layer.moe;
    if (!m_parts.plan.model.isMoe(op.layer)) return denseInputGrad(op);
    if (!op.key.shared_expert) return m_moe.expertInputGrad(w, moe.chunks[op.chunk.index()]);
    const MlpKind kind = m_parts.plan.model.moe->mlp;
    const Matrix norm = c.rows(moe.norm.y);
    if (moe.shared.up.empty())
        PIPER_TRY(mlpRecompute(c, kind, w.shared, w.shared_gate, norm, moe.shared));
    return mlpInputGrad(c, kind, w.shared, w.shared_gate, c.rows(moe.dy), c.rows(moe.d_norm),
                        moe.shared);
}

Status StageModel::denseInputGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    MoeState& moe = layer.moe;
    const MlpKind kind = m_parts.plan.model.dense_mlp;
    if (moe.norm.y.empty())
        PIPER_TRY(normForward(c, c.rows(layer.middle), w.mlp_norm, MemoryTerm::ExpertIntermediate,
                              moe.norm));
    moe.dy = std::move(state.gradient);
    PIPER_ASSIGN(moe.d_norm, c.hiddenState(MemoryTerm::GradientActivation));
    PIPER_TRY(c.backend.fill(moe.d_norm.floats(), 0.0F));
    PIPER_TRY(mlpInputGrad(c, kind, w.mlp, {}, c.rows(moe.dy), c.rows(moe.d_norm), moe.shared));
    PIPER_ASSIGN(state.gradient, c.copyOf(moe.dy, MemoryTerm::GradientActivation));
    return normInputGrad(c, c.rows(moe.d_norm), c.rows(layer.middle), w.mlp_norm, moe.norm,
                         c.rows(state.gradient), Store::Accumulate);
}

Status StageModel::weightGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    const BlockContext& c = m_context;
    StageTensors& dw = m_parameters.gradients();
    switch (op.key.phase) {
        case Phase::Embedding: {
            const Buffer gradient = std::move(state.gradient);
            return embeddingWeightGrad(c, dw, state.tokens, c.rows(gradient));
        }
        case Phase::HeadLoss:
            return headWeightGrad(c, dw, state.head);
        case Phase::Expert:
            return expertWeightGrad(op);
        case Phase::Router: {
            LayerState& layer = layerOf(op);
            PIPER_TRY(m_moe.routerWeightGrad(c.rows(layer.middle), dw.of(op.layer), layer.moe));
            layer.moe = MoeState{};
            return {};
        }
        case Phase::Attention: {
            // The last operation of a layer: nothing of it is needed any more.
            LayerState& layer = layerOf(op);
            PIPER_TRY(attentionWeightGrad(c, c.rows(layer.x), dw.of(op.layer), layer.attention));
            state.layers.erase(op.layer);
            return {};
        }
        default:
            return notRun(op);
    }
}

Status StageModel::expertWeightGrad(const Operation& op) {
    LayerState& layer = layerOf(op);
    LayerTensors& dw = m_parameters.gradients().of(op.layer);
    const BlockContext& c = m_context;
    MoeState& moe = layer.moe;
    const bool is_moe = m_parts.plan.model.isMoe(op.layer);
    if (is_moe && !op.key.shared_expert)
        return m_moe.expertWeightGrad(dw, moe.chunks[op.chunk.index()]);
    PIPER_TRY(mlpWeightGrad(c, c.rows(moe.dy), c.rows(moe.norm.y), is_moe ? dw.shared : dw.mlp,
                            is_moe ? dw.shared_gate : Matrix{}, moe.shared));
    if (is_moe) return {};
    PIPER_TRY(normWeightGrad(c, c.rows(moe.d_norm), c.rows(layer.middle), moe.norm, dw.mlp_norm));
    moe = MoeState{};
    return {};
}

}  // namespace piper
