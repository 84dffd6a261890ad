// SPDX-License-Identifier: Apache-2.0
// The communication operations of a StageModel.
#include "core/plan/pipeline_shape.h"
#include "kernels/pipeline/stage_model.h"

namespace piper {
namespace {

/// Of one message between stages; the model chunk is that of the stage that receives.
int messageTag(const Plan& plan, const Operation& op) {
    const std::int64_t chunk =
        op.micro_batch.value * pipelineShape(plan).chunks() + op.model_chunk.value;
    return static_cast<int>(2 * chunk + (op.key.pass == Pass::Backward ? 1 : 0));
}

}  // namespace

Result<BegunOperation> StageModel::communicate(const Operation& op) {
    if (op.key.phase == Phase::TpComm) {
        // The blocks exchange where they need it, once or twice a layer (TensorGroup).
        BegunOperation begun;
        begun.elsewhere = true;
        return begun;
    }
    if (op.key.phase == Phase::DpComm) {
        PIPER_TRY(reduceGradients(op));
        return BegunOperation{};
    }
    switch (op.key.kind) {
        case OperationKind::Dispatch:
            return dispatch(op);
        case OperationKind::Combine:
            return combine(op);
        case OperationKind::Send:
            return send(op);
        case OperationKind::Receive:
            return receive(op);
        default:
            return fail(ErrorCode::Unsupported, "the CPU worker does not run {}", describe(op));
    }
}

Result<BegunOperation> StageModel::dispatch(const Operation& op) {
    MoeState& moe = layerOf(op).moe;
    const std::size_t chunk = op.chunk.index();
    BegunOperation begun;
    if (op.key.pass != Pass::Backward) {
        PIPER_ASSIGN(begun.transfer, m_moe.startDispatch(moe, chunk));
        begun.finish = [this, &moe, chunk](Buffer&) {
            return m_moe.finishDispatch(moe.chunks[chunk]);
        };
    } else {
        PIPER_ASSIGN(begun.transfer, m_moe.startDispatchGrad(moe, chunk));
        begun.finish = [this, &moe, chunk](Buffer&) {
            return m_moe.finishDispatchGrad(moe, chunk);
        };
    }
    return begun;
}

Result<BegunOperation> StageModel::combine(const Operation& op) {
    if (op.key.pass == Pass::Backward) return combineGradient(op);
    MicroBatchState& state = stateOf(op);
    LayerState& layer = layerOf(op);
    const std::size_t chunk = op.chunk.index();
    BegunOperation begun;
    PIPER_ASSIGN(begun.transfer, m_moe.startCombine(layer.moe.chunks[chunk]));
    if (op.key.pass == Pass::Recompute) {
        begun.finish = [this, &layer, chunk](Buffer&) {
            return m_moe.finishCombine(layer.moe, chunk, {});
        };
        return begun;
    }
    begun.finish = [this, &state, &layer, op, chunk](Buffer&) -> Status {
        PIPER_TRY(m_moe.finishCombine(layer.moe, chunk, m_context.rows(layer.y)));
        if (layer.moe.combined < static_cast<std::int64_t>(layer.moe.chunks.size())) return {};
        return layerDone(op, state, layer);
    };
    return begun;
}

Result<BegunOperation> StageModel::combineGradient(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    LayerState& layer = layerOf(op);
    MoeState& moe = layer.moe;
    const std::size_t chunk = op.chunk.index();
    if (moe.dy.empty())
        PIPER_TRY(m_moe.beginBackward(m_parameters.weights().of(op.layer),
                                      m_context.rows(layer.middle), moe,
                                      std::move(state.gradient)));
    BegunOperation begun;
    PIPER_ASSIGN(begun.transfer, m_moe.startCombineGrad(moe, chunk));
    begun.finish = [this, &moe, chunk](Buffer&) {
        return m_moe.finishCombineGrad(moe.chunks[chunk]);
    };
    return begun;
}

Result<BegunOperation> StageModel::send(const Operation& op) {
    // Messages carry the receiver's model chunk; what is sent belongs to the own one beside it.
    const Plan& plan = m_parts.plan;
    const bool forward = op.key.pass == Pass::Forward;
    const ChunkSeat to{op.peer, op.model_chunk};
    const auto own_seat =
        forward ? seatBefore(pipelineShape(plan), to) : seatAfter(pipelineShape(plan), to);
    PIPER_CHECK(own_seat && own_seat->stage == m_parts.groups.stage());
    Operation own = op;
    own.model_chunk = own_seat->chunk;
    MicroBatchState& state = stateOf(own);
    if (isHandOver(op)) {
        MicroBatchState& next = stateOf(op);
        (forward ? next.hidden : next.gradient) =
            std::move(forward ? state.hidden : state.gradient);
        return BegunOperation{};
    }
    BegunOperation begun;
    begun.held = std::move(forward ? state.hidden : state.gradient);
    PIPER_ASSIGN(begun.transfer, m_parts.groups.pp->send(begun.held.as<std::byte>(), op.peer.value,
                                                         messageTag(plan, op)));
    return begun;
}

Result<BegunOperation> StageModel::receive(const Operation& op) {
    if (isHandOver(op)) return BegunOperation{};  // the send laid it there
    MicroBatchState& state = stateOf(op);
    const bool forward = op.key.pass == Pass::Forward;
    BegunOperation begun;
    PIPER_ASSIGN(begun.held, m_context.hiddenState(forward ? MemoryTerm::AttentionActivation
                                                           : MemoryTerm::GradientActivation));
    PIPER_ASSIGN(begun.transfer,
                 m_parts.groups.pp->receive(begun.held.as<std::byte>(), op.peer.value,
                                            messageTag(m_parts.plan, op)));
    begun.finish = [&state, forward](Buffer& held) -> Status {
        (forward ? state.hidden : state.gradient) = std::move(held);
        return {};
    };
    return begun;
}

}  // namespace piper
