// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/token_exchange.h"
#include "kernels/pipeline/blocks.h"
#include "kernels/pipeline/expert_slices.h"

namespace piper {

/// One slice of a micro-batch's tokens on its way to the experts and back.
/// n: rows this rank routes away, r: rows it receives, R: rows its experts work on (r, or those of
/// all ranks that hold slices of them).
struct MoeChunk {
    std::int64_t first_token = 0, tokens = 0;
    std::int64_t routed = 0;          ///< n
    Buffer slot_of_row, row_of_slot;  ///< [n], [tokens * k] int32, the permutation
    ExchangeRoute route;
    std::vector<std::int64_t> slice_rows;  ///< [etp] rows received by each; empty without slices
    Buffer row_of_sorted;                  ///< [R] int32, received rows by local expert
    std::vector<std::int64_t> offsets;     ///< [local experts + 1] into the sorted rows
    Buffer permuted, received;             ///< dispatch under way
    Buffer sorted, up, activation;         ///< kept for the gradients
    Buffer outgoing, returned;             ///< combine under way; returned is kept
    Buffer d_permuted, d_received, d_out, d_up, d_outgoing, d_returned;

    std::vector<std::int32_t> places;  ///< [tokens * k] experts in order of their owners

    // Where a token crosses to a node once: rows come sorted by expert, sums come back. There is
    // no permutation then.
    std::unique_ptr<RoutedTokens> crossing;  ///< instead of route

    [[nodiscard]] std::int64_t workedOn() const { return offsets.back(); }
};

struct MoeState {
    NormState norm;
    Buffer scores, experts, weights;   ///< [t, E], int32 [t * k], [t, k]
    std::vector<double> load;          ///< [E] share of the slots each expert got
    std::vector<std::int64_t> counts;  ///< [chunks][E] rows routed, experts ordered by owner
    std::vector<MoeChunk> chunks;
    MlpState shared;
    Buffer dy, d_weights, d_norm, d_logits;
    std::int64_t combined = 0;  ///< chunks whose rows are back
    std::int64_t dropped = 0;   ///< slots beyond an expert's capacity
};

/// Router, routed experts and their exchanges. Each exchange is a start that packs and begins and a
/// finish that takes the arrived rows in.
class MoeBlock {
public:
    /// owners: ep rank of each expert, the same number on each.
    MoeBlock(BlockContext context, Communicator& group, AllToAll& exchange, ExpertSlices slices,
             const std::vector<std::int64_t>& owners);

    /// Reads x, chooses experts (or keeps those in `replayed` [t * k]) and makes the permutation.
    /// aux_loss gets coefficient * E * sum of load * mean score; null when the forward is run
    /// again.
    [[nodiscard]] Status routerForward(const LayerTensors& w, ConstMatrix x, ConstIndices replayed,
                                       MoeState& s, double* aux_loss);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> startDispatch(MoeState& s,
                                                                         std::size_t chunk);
    [[nodiscard]] Status finishDispatch(MoeChunk& chunk);
    [[nodiscard]] Status expertForward(const LayerTensors& w, MoeChunk& chunk);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> startCombine(MoeChunk& chunk);
    /// y += weighted sums of the rows that came back; an empty y when the forward is run again.
    [[nodiscard]] Status finishCombine(MoeState& s, std::size_t chunk, Matrix y);

    /// Gives up what the plan's selective recompute makes again.
    void drop(MoeState& s) const;
    /// The activation of a chunk out of its pre-activation.
    [[nodiscard]] Status recomputeActivation(const LayerTensors& w, MoeChunk& chunk);

    /// Takes over dy with the first chunk, and makes again what nobody else does.
    [[nodiscard]] Status beginBackward(const LayerTensors& w, ConstMatrix x, MoeState& s,
                                       Buffer dy);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> startCombineGrad(MoeState& s,
                                                                            std::size_t chunk);
    [[nodiscard]] Status finishCombineGrad(MoeChunk& chunk);
    [[nodiscard]] Status expertInputGrad(const LayerTensors& w, MoeChunk& chunk);
    [[nodiscard]] Status expertWeightGrad(LayerTensors& dw, MoeChunk& chunk);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> startDispatchGrad(MoeState& s,
                                                                             std::size_t chunk);
    [[nodiscard]] Status finishDispatchGrad(MoeState& s, std::size_t chunk);
    /// aux_scale: the part of the auxiliary loss that counts, 1 / micro-batches of the global
    /// batch.
    [[nodiscard]] Result<Buffer> routerInputGrad(const LayerTensors& w, ConstMatrix x,
                                                 double aux_scale, MoeState& s);
    [[nodiscard]] Status routerWeightGrad(ConstMatrix x, LayerTensors& dw, MoeState& s);

private:
    using Transfer = Result<std::unique_ptr<PendingTransfer>>;

    // The exchanges of an algorithm that moves a token once (moe_dedup.cpp).
    Status routeTokens(MoeState& s);
    [[nodiscard]] Transfer startTokenDispatch(MoeState& s, std::size_t chunk);
    [[nodiscard]] Transfer startTokenCombine(MoeChunk& chunk);
    Status addTokenRows(const Buffer& from, const MoeChunk& chunk, Matrix to) const;
    [[nodiscard]] Transfer startTokenCombineGrad(MoeState& s, std::size_t chunk);
    [[nodiscard]] Transfer startTokenDispatchGrad(MoeState& s, std::size_t chunk);

    [[nodiscard]] const MoeSpec& spec() const { return *m_context.plan.model.moe; }
    [[nodiscard]] RouterShape routerShape(const LayerTensors& w) const;
    [[nodiscard]] Result<Buffer> rowsBuffer(MemoryTerm term, std::int64_t rows) const;
    [[nodiscard]] Matrix rows(const Buffer& buffer, std::int64_t rows) const;
    Status balance(MoeState& s, double* aux_loss);
    Status makeChunk(MoeState& s, std::int64_t index, MoeChunk& chunk);
    Status permuteChunk(MoeState& s, std::int64_t capacity, MoeChunk& chunk);
    [[nodiscard]] std::int64_t capacityOf(std::int64_t chunk, std::int64_t chunks) const;
    Status sortReceived(MoeChunk& chunk, ConstMatrix received);
    Status biasRows(const Vector& bias, const MoeChunk& chunk, Matrix y, bool gradient);
    /// Rows of the experts in local-expert order back to the order and the rank they came in.
    Status unsort(MoeChunk& chunk, Buffer sorted, MemoryTerm term, Buffer& out);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> move(const MoeChunk& chunk,
                                                                ExchangeDirection direction,
                                                                const Buffer& from, Buffer& to);

    BlockContext m_context;
    AllToAll& m_exchange;
    ExpertSlices m_slices;
    std::unique_ptr<TokenExchange> m_tokens;     ///< null: rows of slots go through m_exchange
    std::vector<std::int32_t> m_position;        ///< [E] expert -> place ordered by owner
    std::vector<std::int32_t> m_node_of_expert;  ///< [E]
    std::int64_t m_local_experts = 1;
};

}  // namespace piper
