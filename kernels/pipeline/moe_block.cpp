// SPDX-License-Identifier: Apache-2.0
// The forward of a mixture-of-experts block; its gradients are in moe_gradient.cpp.
#include "kernels/pipeline/moe_block.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/resources/shard.h"
#include "kernels/ops/permutation.h"

namespace piper {
namespace {

constexpr MemoryTerm kRouter = MemoryTerm::RouterActivation;
constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int32_t));

}  // namespace

MoeBlock::MoeBlock(BlockContext context, Communicator& group, AllToAll& exchange,
                   ExpertSlices slices, const std::vector<std::int64_t>& owners)
    : m_context(context), m_exchange(exchange), m_slices(slices), m_position(owners.size()) {
    const ExchangeTopology& topology = exchange.topology();
    m_local_experts = static_cast<std::int64_t>(owners.size()) / topology.size();
    std::vector<std::int64_t> held(static_cast<std::size_t>(topology.size()), 0);
    for (std::size_t e = 0; e < owners.size(); ++e) {
        std::int64_t& place = held[static_cast<std::size_t>(owners[e])];
        m_position[e] = static_cast<std::int32_t>(owners[e] * m_local_experts + place++);
        m_node_of_expert.push_back(static_cast<std::int32_t>(topology.node(owners[e])));
    }
    if (exchange.choice().algorithm != AllToAllAlgorithm::NodeDedup || owners.empty()) return;
    TokenExchangeOptions options;
    options.algorithm = TokenAlgorithm::NodeDedup;
    options.hidden = context.hidden();
    options.local_experts = m_local_experts;
    m_tokens = makeTokenExchange(group, context.backend.allocator(), options).value();
}

RouterShape MoeBlock::routerShape(const LayerTensors& w) const {
    const MoeSpec& moe = spec();
    RouterShape shape{moe.num_experts, moe.router_topk, moe.scoring, moe.norm_topk_prob,
                      moe.routed_scaling_factor};
    shape.num_groups = moe.num_groups;
    shape.topk_groups = moe.topk_groups;
    shape.bias = w.router_bias;
    const std::int64_t limit = m_context.plan.all_to_all.node_limit;
    if (limit > 0 && limit < m_exchange.topology().numNodes()) {
        shape.node_limit = limit;
        shape.node_of_expert = m_node_of_expert;
    }
    return shape;
}
Result<Buffer> MoeBlock::rowsBuffer(MemoryTerm term, std::int64_t rows) const {
    return m_context.floats(term, rows * m_context.hidden());
}
Matrix MoeBlock::rows(const Buffer& buffer, std::int64_t rows) const {
    return buffer.matrix(rows, m_context.hidden());
}

Status MoeBlock::routerForward(const LayerTensors& w, ConstMatrix x, ConstIndices replayed,
                               MoeState& s, double* aux_loss) {
    const BlockContext& c = m_context;
    const std::int64_t t = x.rows, experts = spec().num_experts, k = spec().router_topk;
    if (s.norm.y.empty()) PIPER_TRY(normForward(c, x, w.mlp_norm, kRouter, s.norm));
    PIPER_ASSIGN(Buffer logits, c.floats(kRouter, t * experts));
    PIPER_ASSIGN(s.scores, c.floats(kRouter, t * experts));
    PIPER_ASSIGN(s.weights, c.floats(kRouter, t * k));
    PIPER_ASSIGN(s.experts, c.backend.allocator().allocate(kRouter, t * k * kIndexBytes));
    const Indices chosen = s.experts.as<std::int32_t>();
    std::copy(replayed.begin(), replayed.end(), chosen.begin());
    PIPER_TRY(c.backend.linearForward(c.rows(s.norm.y), w.router, logits.matrix(t, experts),
                                      Store::Overwrite));
    PIPER_TRY(c.backend.routerForward(
        routerShape(w), replayed.empty() ? RouterMode::Choose : RouterMode::Replay,
        logits.matrix(t, experts), s.scores.matrix(t, experts), chosen, s.weights.matrix(t, k)));
    PIPER_TRY(balance(s, aux_loss));
    const std::int64_t chunks = std::max<std::int64_t>(1, c.plan.all_to_all.chunks);
    s.counts.clear();
    s.dropped = s.combined = 0;
    s.chunks.clear();
    s.chunks.resize(static_cast<std::size_t>(chunks));
    for (std::int64_t i = 0; i < chunks; ++i)
        PIPER_TRY(makeChunk(s, i, s.chunks[static_cast<std::size_t>(i)]));
    return {};
}

/// Load of the experts and the auxiliary loss over all tokens of the micro-batch.
Status MoeBlock::balance(MoeState& s, double* aux_loss) {
    const BlockContext& c = m_context;
    const auto experts = static_cast<std::size_t>(spec().num_experts);
    const std::int64_t t = c.tokens(), all = c.allTokens();
    const bool has_loss = spec().aux_loss_coefficient > 0.0;
    std::vector<double> sums(has_loss ? 2 * experts : experts, 0.0);
    for (const std::int32_t e : s.experts.as<std::int32_t>())
        sums[static_cast<std::size_t>(e)] += 1.0;
    if (has_loss)
        PIPER_TRY(c.backend.columnSums(s.scores.matrix(t, spec().num_experts),
                                       std::span(sums).subspan(experts)));
    if (c.tensor.splitsRows()) PIPER_TRY(c.tensor.sum(std::span<double>(sums)));
    s.load.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(experts));
    for (double& load : s.load) load /= static_cast<double>(all * spec().router_topk);
    if (!has_loss || aux_loss == nullptr) return {};
    const double dot = std::inner_product(s.load.begin(), s.load.end(),
                                          sums.begin() + static_cast<std::ptrdiff_t>(experts), 0.0);
    *aux_loss +=
        spec().aux_loss_coefficient * static_cast<double>(experts) * dot / static_cast<double>(all);
    return {};
}

/// Rows of every expert in a chunk: its share of those of the whole micro-batch.
std::int64_t MoeBlock::capacityOf(std::int64_t chunk, std::int64_t chunks) const {
    const std::int64_t whole = expertCapacity(m_context.tokens() * spec().router_topk,
                                              spec().num_experts, *m_context.plan.capacity_factor);
    return whole * (chunk + 1) / chunks - whole * chunk / chunks;
}

Status MoeBlock::makeChunk(MoeState& s, std::int64_t index, MoeChunk& chunk) {
    const std::int64_t t = m_context.tokens(), k = spec().router_topk, e = spec().num_experts;
    const auto chunks = static_cast<std::int64_t>(s.chunks.size());
    chunk.first_token = t * index / chunks;
    chunk.tokens = t * (index + 1) / chunks - chunk.first_token;
    const bool limited = m_context.plan.capacity_factor.has_value();
    const std::int64_t capacity = limited ? capacityOf(index, chunks) : 0;
    chunk.routed = limited ? e * capacity : chunk.tokens * k;
    chunk.places.resize(static_cast<std::size_t>(chunk.tokens * k));
    const Indices experts = s.experts.as<std::int32_t>().subspan(
        static_cast<std::size_t>(chunk.first_token * k), chunk.places.size());
    std::transform(experts.begin(), experts.end(), chunk.places.begin(),
                   [&](std::int32_t i) { return m_position[static_cast<std::size_t>(i)]; });
    return m_tokens ? Status{} : permuteChunk(s, capacity, chunk);
}

/// Rows of the slots in order of the experts, and their counts; capacity 0 without a limit.
Status MoeBlock::permuteChunk(MoeState& s, std::int64_t capacity, MoeChunk& chunk) {
    const std::int64_t e = spec().num_experts;
    TaggedAllocator& allocator = m_context.backend.allocator();
    PIPER_ASSIGN(chunk.slot_of_row, allocator.allocate(kRouter, chunk.routed * kIndexBytes));
    PIPER_ASSIGN(
        chunk.row_of_slot,
        allocator.allocate(kRouter, static_cast<std::int64_t>(chunk.places.size()) * kIndexBytes));
    const Indices slot_of_row = chunk.slot_of_row.as<std::int32_t>();
    const Indices row_of_slot = chunk.row_of_slot.as<std::int32_t>();
    if (m_context.plan.capacity_factor) {
        PIPER_ASSIGN(const std::int64_t dropped,
                     makeCapacityPermutation(chunk.places, e, capacity, slot_of_row, row_of_slot));
        s.dropped += dropped;
        s.counts.insert(s.counts.end(), static_cast<std::size_t>(e), capacity);
        return {};
    }
    std::vector<std::int64_t> offsets(m_position.size() + 1);
    PIPER_TRY(makePermutation(chunk.places, e, slot_of_row, row_of_slot, offsets));
    for (std::size_t i = 0; i < m_position.size(); ++i)
        s.counts.push_back(offsets[i + 1] - offsets[i]);
    return {};
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::move(const MoeChunk& chunk,
                                                        ExchangeDirection direction,
                                                        const Buffer& from, Buffer& to) {
    return m_exchange.start(chunk.route, direction, from.as<std::byte>(), to.as<std::byte>(),
                            m_context.hidden() * static_cast<std::int64_t>(sizeof(float)));
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startDispatch(MoeState& s, std::size_t index) {
    if (m_tokens) return startTokenDispatch(s, index);
    if (index == 0) {
        // One exchange tells the counts of every chunk.
        PIPER_ASSIGN(std::vector<ExchangeRoute> routes,
                     m_exchange.exchangeCounts(s.counts, static_cast<std::int64_t>(s.chunks.size()),
                                               m_local_experts));
        for (std::size_t i = 0; i < routes.size(); ++i) s.chunks[i].route = std::move(routes[i]);
    }
    MoeChunk& chunk = s.chunks[index];
    PIPER_ASSIGN(chunk.permuted, rowsBuffer(MemoryTerm::DispatchedRows, chunk.routed));
    PIPER_ASSIGN(chunk.received, rowsBuffer(MemoryTerm::DispatchedRows, chunk.route.received()));
    PIPER_TRY(m_context.backend.permuteForward(
        m_context.rows(s.norm.y).slice(chunk.first_token, chunk.tokens),
        chunk.slot_of_row.as<std::int32_t>(), spec().router_topk,
        rows(chunk.permuted, chunk.routed)));
    return move(chunk, ExchangeDirection::Forward, chunk.permuted, chunk.received);
}

Status MoeBlock::finishDispatch(MoeChunk& chunk) {
    if (m_tokens) return {};
    chunk.permuted.reset();
    // Rows of other ranks' slices are fetched by the experts, at a fixed place of the program.
    if (m_slices.split()) return {};
    return sortReceived(chunk, rows(chunk.received, chunk.route.received()));
}

/// Received rows by local expert; `received` holds those of every slice's rank.
Status MoeBlock::sortReceived(MoeChunk& chunk, ConstMatrix received) {
    std::vector<std::int64_t> counts = chunk.route.recv_counts;
    if (m_slices.split()) {
        PIPER_ASSIGN(counts, m_slices.gatherCounts(chunk.route.recv_counts));
    }
    PIPER_ASSIGN(chunk.row_of_sorted,
                 m_context.backend.allocator().allocate(kRouter, received.rows * kIndexBytes));
    chunk.offsets.resize(static_cast<std::size_t>(m_local_experts) + 1);
    makeReceiveOrder(counts, m_local_experts, chunk.row_of_sorted.as<std::int32_t>(),
                     chunk.offsets);
    PIPER_ASSIGN(chunk.sorted, rowsBuffer(MemoryTerm::DispatchedRows, received.rows));
    PIPER_TRY(m_context.backend.gatherRows(received, chunk.row_of_sorted.as<std::int32_t>(),
                                           rows(chunk.sorted, received.rows)));
    chunk.received.reset();
    return {};
}

Status MoeBlock::biasRows(const Vector& bias, const MoeChunk& chunk, Matrix y, bool gradient) {
    if (bias.empty()) return {};
    const auto width = static_cast<std::size_t>(y.cols);
    for (std::size_t e = 0; e + 1 < chunk.offsets.size(); ++e) {
        const Matrix own = y.slice(chunk.offsets[e], chunk.offsets[e + 1] - chunk.offsets[e]);
        const Vector part = bias.subspan(e * width, width);
        PIPER_TRY(gradient ? m_context.backend.biasWeightGrad(own, part)
                           : m_context.backend.biasForward(part, own));
    }
    return {};
}

Status MoeBlock::expertForward(const LayerTensors& w, MoeChunk& chunk) {
    Backend& backend = m_context.backend;
    if (m_slices.split()) {
        const std::int64_t own = chunk.route.received();
        PIPER_ASSIGN(chunk.slice_rows, m_slices.gatherCounts({&own, 1}));
        const std::int64_t all =
            std::accumulate(chunk.slice_rows.begin(), chunk.slice_rows.end(), std::int64_t{0});
        PIPER_ASSIGN(const Buffer spread, rowsBuffer(MemoryTerm::CommunicationBuffer, all));
        PIPER_TRY(m_slices.spread(rows(chunk.received, own), chunk.slice_rows, rows(spread, all)));
        PIPER_TRY(sortReceived(chunk, rows(spread, all)));
    }
    const std::int64_t r = chunk.workedOn(), width = w.mlp.up.rows / m_local_experts;
    PIPER_ASSIGN(chunk.up, m_context.floats(MemoryTerm::ExpertIntermediate, r * width));
    const Matrix up = chunk.up.matrix(r, width);
    PIPER_TRY(backend.groupedLinearForward(rows(chunk.sorted, r), chunk.offsets, w.mlp.up, up));
    PIPER_TRY(biasRows(w.mlp.up_bias, chunk, up, false));
    PIPER_TRY(recomputeActivation(w, chunk));
    PIPER_ASSIGN(Buffer out, rowsBuffer(MemoryTerm::CombineActivation, r));
    PIPER_TRY(backend.groupedLinearForward(chunk.activation.matrix(r, w.mlp.ffn), chunk.offsets,
                                           w.mlp.down, rows(out, r)));
    PIPER_TRY(biasRows(w.mlp.down_bias, chunk, rows(out, r), false));
    return unsort(chunk, std::move(out), MemoryTerm::CombineActivation, chunk.outgoing);
}

Status MoeBlock::unsort(MoeChunk& chunk, Buffer sorted, MemoryTerm term, Buffer& out) {
    if (m_tokens) {
        out = std::move(sorted);
        return {};
    }
    const ConstMatrix from = rows(sorted, chunk.workedOn());
    const std::int64_t own = chunk.route.received();
    PIPER_ASSIGN(out, rowsBuffer(term, own));
    const ConstIndices order = chunk.row_of_sorted.as<std::int32_t>();
    if (!m_slices.split()) return m_context.backend.scatterRows(from, order, rows(out, own));
    PIPER_ASSIGN(const Buffer all, rowsBuffer(MemoryTerm::CommunicationBuffer, from.rows));
    PIPER_TRY(m_context.backend.scatterRows(from, order, rows(all, from.rows)));
    return m_slices.collect(rows(all, from.rows), chunk.slice_rows, rows(out, own));
}

Status MoeBlock::recomputeActivation(const LayerTensors& w, MoeChunk& chunk) {
    const std::int64_t r = chunk.workedOn(), width = w.mlp.up.rows / m_local_experts;
    PIPER_ASSIGN(chunk.activation, m_context.floats(MemoryTerm::ExpertIntermediate, r * w.mlp.ffn));
    return activate(m_context.backend, spec().mlp, chunk.up.matrix(r, width),
                    chunk.activation.matrix(r, w.mlp.ffn));
}

Result<std::unique_ptr<PendingTransfer>> MoeBlock::startCombine(MoeChunk& chunk) {
    if (m_tokens) return startTokenCombine(chunk);
    PIPER_ASSIGN(chunk.returned, rowsBuffer(MemoryTerm::CombineActivation, chunk.routed));
    return move(chunk, ExchangeDirection::Mirrored, chunk.outgoing, chunk.returned);
}

Status MoeBlock::finishCombine(MoeState& s, std::size_t index, Matrix y) {
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t k = spec().router_topk;
    ++s.combined;
    if (m_tokens) {
        const Buffer sums = std::exchange(chunk.returned, {});
        if (y.data == nullptr) return {};
        return addTokenRows(sums, chunk, y.slice(chunk.first_token, chunk.tokens));
    }
    chunk.outgoing.reset();
    if (y.data == nullptr) return {};
    return m_context.backend.combineForward(
        rows(chunk.returned, chunk.routed), chunk.row_of_slot.as<std::int32_t>(),
        s.weights.matrix(m_context.tokens(), k).slice(chunk.first_token, chunk.tokens),
        y.slice(chunk.first_token, chunk.tokens), Store::Accumulate);
}

void MoeBlock::drop(MoeState& s) const {
    const Plan& plan = m_context.plan;
    if (recomputes(plan, "moe")) {
        NormState norm = std::move(s.norm);
        s = MoeState{};
        s.norm = std::move(norm);
    }
    if (recomputes(plan, "layernorm")) s.norm.y.reset();
    if (recomputes(plan, "shared_experts")) s.shared = MlpState{};
    if (!recomputes(plan, "moe_act")) return;
    for (MoeChunk& chunk : s.chunks) chunk.activation.reset();
}

}  // namespace piper
