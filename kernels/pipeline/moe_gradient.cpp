// SPDX-License-Identifier: Apache-2.0
// The gradients of a mixture-of-experts block.
#include <numeric>
#include <utility>

#include "kernels/pipeline/moe_block.h"

namespace piper {

Status MoeBlock::beginBackward(const LayerTensors& w, ConstMatrix x, MoeState& s, Buffer dy) {
    const BlockContext& c = m_context;
    if (s.norm.y.empty())
        PIPER_TRY(normForward(c, x, w.mlp_norm, MemoryTerm::RouterActivation, s.norm));
    s.dy = std::move(dy);
    PIPER_ASSIGN(s.d_weights, c.floats(kGradient, c.tokens() * spec().router_topk));
    PIPER_ASSIGN(s.d_norm, c.hiddenState(kGradient));
    return c.backend.fill(s.d_norm.floats(), 0.0F);
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startCombineGrad(MoeState& s,
                                                                    std::size_t index) {
    if (m_tokens) return startTokenCombineGrad(s, index);
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t k = spec().router_topk, n = chunk.routed, t = m_context.tokens();
    PIPER_ASSIGN(chunk.d_permuted, rowsBuffer(kGradient, n));
    PIPER_ASSIGN(chunk.d_received, rowsBuffer(kGradient, chunk.route.received()));
    // Room that nobody took has no gradient.
    if (m_context.plan.capacity_factor)
        PIPER_TRY(m_context.backend.fill(chunk.d_permuted.floats(), 0.0F));
    PIPER_TRY(m_context.backend.combineInputGrad(
        m_context.rows(s.dy).slice(chunk.first_token, chunk.tokens), rows(chunk.returned, n),
        chunk.row_of_slot.as<std::int32_t>(),
        s.weights.matrix(t, k).slice(chunk.first_token, chunk.tokens), rows(chunk.d_permuted, n),
        s.d_weights.matrix(t, k).slice(chunk.first_token, chunk.tokens)));
    chunk.returned.reset();
    return move(chunk, ExchangeDirection::Forward, chunk.d_permuted, chunk.d_received);
}

Status MoeBlock::finishCombineGrad(MoeChunk& chunk) {
    if (m_tokens) {
        chunk.outgoing.reset();
        return {};
    }
    chunk.d_permuted.reset();
    if (m_slices.split()) return {};
    const std::int64_t r = chunk.route.received();
    PIPER_ASSIGN(chunk.d_out, rowsBuffer(kGradient, r));
    PIPER_TRY(m_context.backend.gatherRows(
        rows(chunk.d_received, r), chunk.row_of_sorted.as<std::int32_t>(), rows(chunk.d_out, r)));
    chunk.d_received.reset();
    return {};
}

Status MoeBlock::expertInputGrad(const LayerTensors& w, MoeChunk& chunk) {
    const std::int64_t r = chunk.workedOn(), width = w.mlp.up.rows / m_local_experts;
    Backend& backend = m_context.backend;
    if (m_slices.split()) {
        PIPER_ASSIGN(const Buffer all, rowsBuffer(MemoryTerm::CommunicationBuffer, r));
        PIPER_TRY(m_slices.spread(rows(chunk.d_received, chunk.route.received()), chunk.slice_rows,
                                  rows(all, r)));
        PIPER_ASSIGN(chunk.d_out, rowsBuffer(kGradient, r));
        PIPER_TRY(backend.gatherRows(rows(all, r), chunk.row_of_sorted.as<std::int32_t>(),
                                     rows(chunk.d_out, r)));
        chunk.d_received.reset();
    }
    PIPER_ASSIGN(Buffer d_activation, m_context.floats(kGradient, r * w.mlp.ffn));
    PIPER_ASSIGN(chunk.d_up, m_context.floats(kGradient, r * width));
    const Matrix d_act = d_activation.matrix(r, w.mlp.ffn), d_up = chunk.d_up.matrix(r, width);
    PIPER_TRY(
        backend.groupedLinearInputGrad(rows(chunk.d_out, r), chunk.offsets, w.mlp.down, d_act));
    PIPER_TRY(activateInputGrad(backend, spec().mlp, d_act, chunk.up.matrix(r, width), d_up));
    d_activation.reset();
    PIPER_ASSIGN(Buffer dx, rowsBuffer(kGradient, r));
    PIPER_TRY(backend.groupedLinearInputGrad(d_up, chunk.offsets, w.mlp.up, rows(dx, r)));
    return unsort(chunk, std::move(dx), kGradient, chunk.d_outgoing);
}

Status MoeBlock::expertWeightGrad(LayerTensors& dw, MoeChunk& chunk) {
    const std::int64_t r = chunk.workedOn(), width = dw.mlp.up.rows / m_local_experts;
    Backend& backend = m_context.backend;
    const Matrix d_out = rows(chunk.d_out, r), d_up = chunk.d_up.matrix(r, width);
    PIPER_TRY(backend.groupedLinearWeightGrad(d_out, chunk.activation.matrix(r, dw.mlp.ffn),
                                              chunk.offsets, dw.mlp.down));
    PIPER_TRY(
        backend.groupedLinearWeightGrad(d_up, rows(chunk.sorted, r), chunk.offsets, dw.mlp.up));
    PIPER_TRY(biasRows(dw.mlp.up_bias, chunk, d_up, true));
    PIPER_TRY(biasRows(dw.mlp.down_bias, chunk, d_out, true));
    for (Buffer* kept : {&chunk.sorted, &chunk.up, &chunk.activation, &chunk.d_out, &chunk.d_up})
        kept->reset();
    return {};
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startDispatchGrad(MoeState& s,
                                                                     std::size_t index) {
    if (m_tokens) return startTokenDispatchGrad(s, index);
    MoeChunk& chunk = s.chunks[index];
    PIPER_ASSIGN(chunk.d_returned, rowsBuffer(kGradient, chunk.routed));
    return move(chunk, ExchangeDirection::Mirrored, chunk.d_outgoing, chunk.d_returned);
}

Status MoeBlock::finishDispatchGrad(MoeState& s, std::size_t index) {
    MoeChunk& chunk = s.chunks[index];
    chunk.d_outgoing.reset();
    if (m_tokens)
        return addTokenRows(std::exchange(chunk.d_returned, {}), chunk,
                            m_context.rows(s.d_norm).slice(chunk.first_token, chunk.tokens));
    PIPER_TRY(m_context.backend.permuteInputGrad(
        rows(chunk.d_returned, chunk.routed), chunk.row_of_slot.as<std::int32_t>(),
        spec().router_topk, m_context.rows(s.d_norm).slice(chunk.first_token, chunk.tokens),
        Store::Accumulate));
    chunk.d_returned.reset();
    return {};
}

Result<Buffer> MoeBlock::routerInputGrad(const LayerTensors& w, ConstMatrix x, double aux_scale,
                                         MoeState& s) {
    const BlockContext& c = m_context;
    const std::int64_t t = x.rows, experts = spec().num_experts, k = spec().router_topk;
    Buffer d_score;
    const double coefficient = spec().aux_loss_coefficient * aux_scale;
    if (coefficient > 0.0) {
        PIPER_ASSIGN(d_score, c.floats(kGradient, experts));
        std::vector<float> values;
        for (const double load : s.load)
            values.push_back(static_cast<float>(coefficient * static_cast<double>(experts) * load /
                                                static_cast<double>(c.allTokens())));
        PIPER_TRY(
            c.backend.copyToDevice(std::as_bytes(std::span(values)), d_score.as<std::byte>()));
    }
    PIPER_ASSIGN(s.d_logits, c.floats(kGradient, t * experts));
    const Matrix d_logits = s.d_logits.matrix(t, experts);
    PIPER_TRY(c.backend.routerInputGrad(routerShape(w), s.scores.matrix(t, experts),
                                        s.experts.as<std::int32_t>(), s.d_weights.matrix(t, k),
                                        d_score.floats(), d_logits));
    PIPER_TRY(c.backend.linearInputGrad(d_logits, w.router, c.rows(s.d_norm), Store::Accumulate));
    PIPER_ASSIGN(Buffer dx, c.copyOf(s.dy, kGradient));
    PIPER_TRY(
        normInputGrad(c, c.rows(s.d_norm), x, w.mlp_norm, s.norm, c.rows(dx), Store::Accumulate));
    return dx;
}

Status MoeBlock::routerWeightGrad(ConstMatrix x, LayerTensors& dw, MoeState& s) {
    const std::int64_t t = x.rows, experts = spec().num_experts;
    PIPER_TRY(m_context.backend.linearWeightGrad(s.d_logits.matrix(t, experts),
                                                 m_context.rows(s.norm.y), dw.router));
    return normWeightGrad(m_context, m_context.rows(s.d_norm), x, s.norm, dw.mlp_norm);
}

}  // namespace piper
