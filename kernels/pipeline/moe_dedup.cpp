// SPDX-License-Identifier: Apache-2.0
// Exchanges of a MoeBlock whose algorithm moves a token once to a node and brings one sum back.
#include "kernels/pipeline/moe_block.h"

namespace piper {

/// One exchange tells the routes of every chunk.
Status MoeBlock::routeTokens(MoeState& s) {
    const std::int64_t k = spec().router_topk;
    std::vector<TokenRouting> routings;
    for (const MoeChunk& chunk : s.chunks)
        routings.push_back(
            {chunk.tokens, k, chunk.places,
             s.weights.floats().subspan(static_cast<std::size_t>(chunk.first_token * k),
                                        chunk.places.size())});
    PIPER_ASSIGN(TokenExchange::Routes routes, m_tokens->route(routings));
    for (std::size_t i = 0; i < routes.size(); ++i) {
        const auto offsets = routes[i]->offsets();
        s.chunks[i].offsets.assign(offsets.begin(), offsets.end());
        s.chunks[i].crossing = std::move(routes[i]);
    }
    return {};
}

MoeBlock::Transfer MoeBlock::startTokenDispatch(MoeState& s, std::size_t index) {
    if (index == 0) PIPER_TRY(routeTokens(s));
    MoeChunk& chunk = s.chunks[index];
    PIPER_ASSIGN(chunk.sorted, rowsBuffer(MemoryTerm::DispatchedRows, chunk.workedOn()));
    return m_tokens->dispatch(*chunk.crossing,
                              m_context.rows(s.norm.y).slice(chunk.first_token, chunk.tokens),
                              rows(chunk.sorted, chunk.workedOn()));
}

MoeBlock::Transfer MoeBlock::startTokenCombine(MoeChunk& chunk) {
    PIPER_ASSIGN(chunk.returned, rowsBuffer(MemoryTerm::CombineActivation, chunk.tokens));
    return m_tokens->combine(*chunk.crossing, rows(chunk.outgoing, chunk.workedOn()),
                             rows(chunk.returned, chunk.tokens), Store::Overwrite);
}

/// to [tokens, H] += from, in the schedule's order and not when the last message comes.
Status MoeBlock::addTokenRows(const Buffer& from, const MoeChunk& chunk, Matrix to) const {
    const Matrix sums = rows(from, chunk.tokens);
    PIPER_CHECK(to.size() == sums.size());
    return m_context.backend.add(sums.span(), to.span());
}

MoeBlock::Transfer MoeBlock::startTokenCombineGrad(MoeState& s, std::size_t index) {
    MoeChunk& chunk = s.chunks[index];
    const std::int64_t r = chunk.workedOn();
    PIPER_ASSIGN(chunk.d_out, rowsBuffer(MemoryTerm::GradientActivation, r));
    return m_tokens->combineGrad(*chunk.crossing,
                                 m_context.rows(s.dy).slice(chunk.first_token, chunk.tokens),
                                 rows(chunk.outgoing, r), rows(chunk.d_out, r));
}

MoeBlock::Transfer MoeBlock::startTokenDispatchGrad(MoeState& s, std::size_t index) {
    MoeChunk& chunk = s.chunks[index];
    PIPER_ASSIGN(chunk.d_returned, rowsBuffer(MemoryTerm::GradientActivation, chunk.tokens));
    const auto d_weights = s.d_weights.floats().subspan(
        static_cast<std::size_t>(chunk.first_token * spec().router_topk), chunk.places.size());
    return m_tokens->dispatchGrad(*chunk.crossing, rows(chunk.d_outgoing, chunk.workedOn()),
                                  rows(chunk.d_returned, chunk.tokens), d_weights,
                                  Store::Overwrite);
}

}  // namespace piper
