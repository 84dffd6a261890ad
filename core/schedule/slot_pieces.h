// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cost/cost.h"
#include "core/schedule/expand.h"
#include "core/schedule/lane_matrix.h"

namespace piper {

// Concept: what a layer does to the lanes of its rank is a max-plus matrix (lane_matrix.h) between
// the hidden state that comes in and the one that goes out, and what it holds is a sum. So the slot
// of a stage chunk is the product of its layers' pieces: a search prices each kind of layer once
// under a layout and puts every pipeline together from that, to the same nanosecond and byte as
// slots that are written out operation by operation (StepModel).

/// One layer, the embedding or the head in one kind of slot.
struct SlotPiece {
    LaneMatrix matrix;         ///< arrival: the hidden state (backward: its gradient), in and out
    std::int64_t busy_ns = 0;  ///< of the compute lane
    std::int64_t exchange_ns = 0;  ///< of the lane of dispatch and combine
    Bytes net;                     ///< what it leaves held
    Bytes peak;                    ///< most that it holds at once, over what was held before
};

/// A layer of a chunk, in model order.
struct LayerUse {
    LayerKind kind = LayerKind::Moe;
    bool recomputed = false;
};

/// How the ends of a chunk look.
struct ChunkEnds {
    bool first = false;           ///< has the embedding
    bool last = false;            ///< has the head
    bool waits_for_send = false;  ///< compute waits until its gradient is with another rank
};

inline constexpr std::size_t kSlotKinds = 4;

/// The slots of a chunk by Slot::Kind.
struct ChunkSlots {
    std::array<std::int64_t, kSlotKinds> span_ns{};  ///< as if nothing had to be waited for
    /// From when the compute lane is free to when it is free again: no less passes between two
    /// slots, whatever the messages do.
    std::array<std::int64_t, kSlotKinds> lane_ns{};
    std::array<std::int64_t, kSlotKinds> busy_ns{}, exchange_ns{};  ///< of those two lanes
    /// From when the hidden state (its gradient) is there to when it can be passed on.
    std::array<std::int64_t, kSlotKinds> pass_ns{};
    std::int64_t after_pass_ns = 0;  ///< of a backward slot: what follows its message
    std::array<Bytes, kSlotKinds> net{}, peak{};
};

/// The pieces of a plan under one layout. What depends on a layer's number (a routing histogram
/// with a row for each layer) cannot be had from pieces.
class SlotPieces {
public:
    /// `split`: also input and weight gradients on their own. Reads the plan here only.
    SlotPieces(const Plan& plan, const CostModel& cost, bool split);

    /// `plain`: the same layout without recompute, for layers that are not computed again (may be
    /// these pieces).
    [[nodiscard]] ChunkSlots chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                                   const SlotPieces& plain) const;

    /// Time of an operation of a layer, or of a message, under this layout; -1 for one that no
    /// piece has.
    [[nodiscard]] std::int64_t durationOf(const OperationKey& key) const;

private:
    struct Known {
        OperationKey key;
        std::int64_t ns = 0;
    };
    using Part = std::vector<SlotPiece>;  ///< [Slot::Kind]; without split up to Backward
    class Builder;

    /// Calls visit(part) in the order of execution.
    template <class Visit>
    void walk(Slot::Kind kind, std::span<const LayerUse> layers, const ChunkEnds& ends,
              const SlotPieces& plain, const Visit& visit) const;

    std::vector<Known> m_durations;  ///< about twenty
    bool m_split = false;
    Part m_embedding, m_head;
    std::array<Part, 2> m_layers;   ///< [LayerKind]
    std::array<Part, 2> m_sending;  ///< layers after which compute waits for what it sends
};

}  // namespace piper
