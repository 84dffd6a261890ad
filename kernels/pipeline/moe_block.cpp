// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/moe_block.h"

#include <algorithm>

#include "kernels/ops/permutation.h"

namespace piper {
namespace {

constexpr MemoryTerm kRouter = MemoryTerm::RouterActivation;
constexpr MemoryTerm kGradient = MemoryTerm::GradientActivation;
constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int32_t));

}  // namespace

MoeBlock::MoeBlock(BlockContext context, AllToAll& exchange,
                   const std::vector<std::int64_t>& owners)
    : m_context(context), m_exchange(exchange), m_position(owners.size()) {
    const std::int64_t ranks = exchange.topology().size();
    m_local_experts = static_cast<std::int64_t>(owners.size()) / ranks;
    std::vector<std::int64_t> held(static_cast<std::size_t>(ranks), 0);
    for (std::size_t e = 0; e < owners.size(); ++e) {
        std::int64_t& place = held[static_cast<std::size_t>(owners[e])];
        m_position[e] = static_cast<std::int32_t>(owners[e] * m_local_experts + place++);
    }
}

RouterShape MoeBlock::routerShape() const {
    const MoeSpec& moe = spec();
    return {moe.num_experts, moe.router_topk, moe.scoring, moe.norm_topk_prob,
            moe.routed_scaling_factor};
}
Result<Buffer> MoeBlock::rowsBuffer(MemoryTerm term, std::int64_t rows) const {
    return m_context.floats(term, rows * m_context.hidden());
}
Matrix MoeBlock::rows(const Buffer& buffer, std::int64_t rows) const {
    return buffer.matrix(rows, m_context.hidden());
}

Status MoeBlock::routerForward(const LayerTensors& w, ConstMatrix x, ConstIndices replayed,
                               MoeState& s, double& aux_loss) {
    const BlockContext& c = m_context;
    const std::int64_t t = x.rows, experts = spec().num_experts, k = spec().router_topk;
    PIPER_TRY(normForward(c, x, w.mlp_norm, kRouter, s.norm));
    PIPER_ASSIGN(Buffer logits, c.floats(kRouter, t * experts));
    PIPER_ASSIGN(s.scores, c.floats(kRouter, t * experts));
    PIPER_ASSIGN(s.weights, c.floats(kRouter, t * k));
    PIPER_ASSIGN(s.experts, c.backend.allocator().allocate(kRouter, t * k * kIndexBytes));
    const Indices chosen = s.experts.as<std::int32_t>();
    std::copy(replayed.begin(), replayed.end(), chosen.begin());
    PIPER_TRY(c.backend.linearForward(c.rows(s.norm.y), w.router, logits.matrix(t, experts),
                                      Store::Overwrite));
    PIPER_TRY(c.backend.routerForward(
        routerShape(), replayed.empty() ? RouterMode::Choose : RouterMode::Replay,
        logits.matrix(t, experts), s.scores.matrix(t, experts), chosen, s.weights.matrix(t, k)));

    s.load.assign(static_cast<std::size_t>(experts), 0.0);
    for (const std::int32_t e : chosen)
        s.load[static_cast<std::size_t>(e)] += 1.0 / static_cast<double>(t * k);
    if (spec().aux_loss_coefficient > 0.0) {
        std::vector<double> sums(s.load.size());
        PIPER_TRY(c.backend.columnSums(s.scores.matrix(t, experts), sums));
        double dot = 0.0;
        for (std::size_t e = 0; e < sums.size(); ++e) dot += s.load[e] * sums[e];
        aux_loss += spec().aux_loss_coefficient * static_cast<double>(experts) * dot /
                    static_cast<double>(t);
    }

    const std::int64_t chunks = std::max<std::int64_t>(1, c.plan.all_to_all.chunks);
    s.counts.clear();
    s.chunks.resize(static_cast<std::size_t>(chunks));
    for (std::int64_t i = 0; i < chunks; ++i)
        PIPER_TRY(makeChunk(s, i, s.chunks[static_cast<std::size_t>(i)], s.counts));
    return {};
}

Status MoeBlock::makeChunk(const MoeState& s, std::int64_t index, MoeChunk& chunk,
                           std::vector<std::int64_t>& counts) const {
    const std::int64_t t = m_context.tokens(), k = spec().router_topk;
    const auto chunks = static_cast<std::int64_t>(s.chunks.size());
    chunk.first_token = t * index / chunks;
    chunk.tokens = t * (index + 1) / chunks - chunk.first_token;
    const std::int64_t slots = chunk.tokens * k;
    TaggedAllocator& allocator = m_context.backend.allocator();
    PIPER_ASSIGN(chunk.slot_of_row, allocator.allocate(kRouter, slots * kIndexBytes));
    PIPER_ASSIGN(chunk.row_of_slot, allocator.allocate(kRouter, slots * kIndexBytes));
    std::vector<std::int32_t> places(static_cast<std::size_t>(slots));
    const Indices experts = s.experts.as<std::int32_t>().subspan(
        static_cast<std::size_t>(chunk.first_token * k), places.size());
    std::transform(experts.begin(), experts.end(), places.begin(),
                   [&](std::int32_t e) { return m_position[static_cast<std::size_t>(e)]; });
    std::vector<std::int64_t> offsets(m_position.size() + 1);
    PIPER_TRY(makePermutation(places, spec().num_experts, chunk.slot_of_row.as<std::int32_t>(),
                              chunk.row_of_slot.as<std::int32_t>(), offsets));
    for (std::size_t e = 0; e < m_position.size(); ++e)
        counts.push_back(offsets[e + 1] - offsets[e]);
    return {};
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::move(const MoeChunk& chunk,
                                                        ExchangeDirection direction,
                                                        const Buffer& from, Buffer& to) {
    return m_exchange.start(chunk.route, direction, from.as<std::byte>(), to.as<std::byte>(),
                            m_context.hidden() * static_cast<std::int64_t>(sizeof(float)));
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startDispatch(MoeState& s, std::size_t index) {
    if (index == 0) {
        // One exchange tells the counts of every chunk.
        PIPER_ASSIGN(std::vector<ExchangeRoute> routes,
                     m_exchange.exchangeCounts(s.counts, static_cast<std::int64_t>(s.chunks.size()),
                                               m_local_experts));
        for (std::size_t i = 0; i < routes.size(); ++i) s.chunks[i].route = std::move(routes[i]);
    }
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t n = chunk.tokens * spec().router_topk;
    PIPER_ASSIGN(chunk.permuted, rowsBuffer(MemoryTerm::DispatchedRows, n));
    PIPER_ASSIGN(chunk.received, rowsBuffer(MemoryTerm::DispatchedRows, chunk.route.received()));
    PIPER_TRY(m_context.backend.permuteForward(
        m_context.rows(s.norm.y).slice(chunk.first_token, chunk.tokens),
        chunk.slot_of_row.as<std::int32_t>(), spec().router_topk, rows(chunk.permuted, n)));
    return move(chunk, ExchangeDirection::Forward, chunk.permuted, chunk.received);
}

Status MoeBlock::finishDispatch(MoeChunk& chunk) {
    chunk.permuted.reset();
    const std::int64_t r = chunk.route.received();
    PIPER_ASSIGN(chunk.row_of_sorted,
                 m_context.backend.allocator().allocate(kRouter, r * kIndexBytes));
    chunk.offsets.resize(static_cast<std::size_t>(m_local_experts) + 1);
    makeReceiveOrder(chunk.route.recv_counts, m_local_experts,
                     chunk.row_of_sorted.as<std::int32_t>(), chunk.offsets);
    PIPER_ASSIGN(chunk.sorted, rowsBuffer(MemoryTerm::DispatchedRows, r));
    PIPER_TRY(m_context.backend.gatherRows(
        rows(chunk.received, r), chunk.row_of_sorted.as<std::int32_t>(), rows(chunk.sorted, r)));
    chunk.received.reset();
    return {};
}

Status MoeBlock::expertForward(const LayerTensors& w, MoeChunk& chunk) {
    const std::int64_t r = chunk.route.received(), width = w.mlp.up.rows / m_local_experts;
    Backend& backend = m_context.backend;
    PIPER_ASSIGN(chunk.up, m_context.floats(MemoryTerm::ExpertIntermediate, r * width));
    PIPER_ASSIGN(chunk.activation, m_context.floats(MemoryTerm::ExpertIntermediate, r * w.mlp.ffn));
    const Matrix up = chunk.up.matrix(r, width), act = chunk.activation.matrix(r, w.mlp.ffn);
    PIPER_TRY(backend.groupedLinearForward(rows(chunk.sorted, r), chunk.offsets, w.mlp.up, up));
    PIPER_TRY(activate(backend, spec().mlp, up, act));
    PIPER_ASSIGN(Buffer out, rowsBuffer(MemoryTerm::CombineActivation, r));
    PIPER_ASSIGN(chunk.outgoing, rowsBuffer(MemoryTerm::CombineActivation, r));
    PIPER_TRY(backend.groupedLinearForward(act, chunk.offsets, w.mlp.down, rows(out, r)));
    return backend.scatterRows(rows(out, r), chunk.row_of_sorted.as<std::int32_t>(),
                               rows(chunk.outgoing, r));
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startCombine(MoeChunk& chunk) {
    PIPER_ASSIGN(chunk.returned,
                 rowsBuffer(MemoryTerm::CombineActivation, chunk.tokens * spec().router_topk));
    return move(chunk, ExchangeDirection::Mirrored, chunk.outgoing, chunk.returned);
}

Status MoeBlock::finishCombine(MoeState& s, std::size_t index, Matrix y) {
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t k = spec().router_topk;
    chunk.outgoing.reset();
    ++s.combined;
    return m_context.backend.combineForward(
        rows(chunk.returned, chunk.tokens * k), chunk.row_of_slot.as<std::int32_t>(),
        s.weights.matrix(m_context.tokens(), k).slice(chunk.first_token, chunk.tokens),
        y.slice(chunk.first_token, chunk.tokens), Store::Accumulate);
}

Status MoeBlock::beginBackward(MoeState& s, Buffer dy) {
    s.dy = std::move(dy);
    PIPER_ASSIGN(s.d_weights, m_context.floats(kGradient, m_context.tokens() * spec().router_topk));
    PIPER_ASSIGN(s.d_norm, m_context.hiddenState(kGradient));
    return m_context.backend.fill(s.d_norm.floats(), 0.0F);
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startCombineGrad(MoeState& s,
                                                                    std::size_t index) {
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t k = spec().router_topk, n = chunk.tokens * k, t = m_context.tokens();
    PIPER_ASSIGN(chunk.d_permuted, rowsBuffer(kGradient, n));
    PIPER_ASSIGN(chunk.d_received, rowsBuffer(kGradient, chunk.route.received()));
    PIPER_TRY(m_context.backend.combineInputGrad(
        m_context.rows(s.dy).slice(chunk.first_token, chunk.tokens), rows(chunk.returned, n),
        chunk.row_of_slot.as<std::int32_t>(),
        s.weights.matrix(t, k).slice(chunk.first_token, chunk.tokens), rows(chunk.d_permuted, n),
        s.d_weights.matrix(t, k).slice(chunk.first_token, chunk.tokens)));
    chunk.returned.reset();
    return move(chunk, ExchangeDirection::Forward, chunk.d_permuted, chunk.d_received);
}

Status MoeBlock::finishCombineGrad(MoeChunk& chunk) {
    chunk.d_permuted.reset();
    const std::int64_t r = chunk.route.received();
    PIPER_ASSIGN(chunk.d_out, rowsBuffer(kGradient, r));
    PIPER_TRY(m_context.backend.gatherRows(
        rows(chunk.d_received, r), chunk.row_of_sorted.as<std::int32_t>(), rows(chunk.d_out, r)));
    chunk.d_received.reset();
    return {};
}

Status MoeBlock::expertInputGrad(const LayerTensors& w, MoeChunk& chunk) {
    const std::int64_t r = chunk.route.received(), width = w.mlp.up.rows / m_local_experts;
    Backend& backend = m_context.backend;
    PIPER_ASSIGN(Buffer d_activation, m_context.floats(kGradient, r * w.mlp.ffn));
    PIPER_ASSIGN(chunk.d_up, m_context.floats(kGradient, r * width));
    const Matrix d_act = d_activation.matrix(r, w.mlp.ffn), d_up = chunk.d_up.matrix(r, width);
    PIPER_TRY(
        backend.groupedLinearInputGrad(rows(chunk.d_out, r), chunk.offsets, w.mlp.down, d_act));
    PIPER_TRY(activateInputGrad(backend, spec().mlp, d_act, chunk.up.matrix(r, width), d_up));
    d_activation.reset();
    PIPER_ASSIGN(Buffer dx, rowsBuffer(kGradient, r));
    PIPER_ASSIGN(chunk.d_outgoing, rowsBuffer(kGradient, r));
    PIPER_TRY(backend.groupedLinearInputGrad(d_up, chunk.offsets, w.mlp.up, rows(dx, r)));
    return backend.scatterRows(rows(dx, r), chunk.row_of_sorted.as<std::int32_t>(),
                               rows(chunk.d_outgoing, r));
}

Status MoeBlock::expertWeightGrad(LayerTensors& dw, MoeChunk& chunk) {
    const std::int64_t r = chunk.route.received(), width = dw.mlp.up.rows / m_local_experts;
    Backend& backend = m_context.backend;
    PIPER_TRY(backend.groupedLinearWeightGrad(
        rows(chunk.d_out, r), chunk.activation.matrix(r, dw.mlp.ffn), chunk.offsets, dw.mlp.down));
    PIPER_TRY(backend.groupedLinearWeightGrad(chunk.d_up.matrix(r, width), rows(chunk.sorted, r),
                                              chunk.offsets, dw.mlp.up));
    for (Buffer* kept : {&chunk.sorted, &chunk.up, &chunk.activation, &chunk.d_out, &chunk.d_up})
        kept->reset();
    return {};
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startDispatchGrad(MoeChunk& chunk) {
    PIPER_ASSIGN(chunk.d_returned, rowsBuffer(kGradient, chunk.tokens * spec().router_topk));
    return move(chunk, ExchangeDirection::Mirrored, chunk.d_outgoing, chunk.d_returned);
}

Status MoeBlock::finishDispatchGrad(MoeState& s, std::size_t index) {
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t n = chunk.tokens * spec().router_topk;
    chunk.d_outgoing.reset();
    PIPER_TRY(m_context.backend.permuteInputGrad(
        rows(chunk.d_returned, n), chunk.row_of_slot.as<std::int32_t>(), spec().router_topk,
        m_context.rows(s.d_norm).slice(chunk.first_token, chunk.tokens), Store::Accumulate));
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
                                                static_cast<double>(t)));
        PIPER_TRY(
            c.backend.copyToDevice(std::as_bytes(std::span(values)), d_score.as<std::byte>()));
    }
    PIPER_ASSIGN(s.d_logits, c.floats(kGradient, t * experts));
    const Matrix d_logits = s.d_logits.matrix(t, experts);
    PIPER_TRY(c.backend.routerInputGrad(routerShape(), s.scores.matrix(t, experts),
                                        s.experts.as<std::int32_t>(), s.d_weights.matrix(t, k),
                                        d_score.floats(), d_logits));
    PIPER_TRY(c.backend.linearInputGrad(d_logits, w.router, c.rows(s.d_norm), Store::Accumulate));
    PIPER_ASSIGN(Buffer dx, c.copyOf(s.dy, kGradient));
    PIPER_TRY(c.backend.rmsNormInputGrad(c.rows(s.d_norm), x, w.mlp_norm,
                                         s.norm.inverse_rms.floats(), c.rows(dx),
                                         Store::Accumulate));
    return dx;
}

Status MoeBlock::routerWeightGrad(ConstMatrix x, LayerTensors& dw, MoeState& s) {
    const std::int64_t t = x.rows, experts = spec().num_experts;
    PIPER_TRY(m_context.backend.linearWeightGrad(s.d_logits.matrix(t, experts),
                                                 m_context.rows(s.norm.y), dw.router));
    return m_context.backend.rmsNormWeightGrad(m_context.rows(s.d_norm), x,
                                               s.norm.inverse_rms.floats(), dw.mlp_norm);
}

}  // namespace piper
