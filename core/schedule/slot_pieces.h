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

/// The slots of a chunk by Slot::Kind: what they leave held, and the most and the least that they
/// hold at once, over what was held before.
struct ChunkHeld {
    std::array<Bytes, kSlotKinds> net{}, peak{}, least{};
};

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
};

/// One of the two slots of a pair.
struct PairMember {
    Slot::Kind kind = Slot::Kind::Forward;
    std::span<const LayerUse> layers;
    ChunkEnds ends;
    bool sends = false;  ///< to another rank
};

/// Two slots in turns.
struct PairSlots {
    std::int64_t span_ns = 0, lane_ns = 0, busy_ns = 0, exchange_ns = 0;  ///< as of ChunkSlots
    Bytes net, peak;                                                      ///< as of ChunkHeld
};

/// Of each kind of part [Slot::Kind]; without split backwards up to Backward.
template <class Piece>
struct SlotParts {
    using Part = std::vector<Piece>;
    Part embedding, head;
    std::array<Part, 2> layers;   ///< [LayerKind]
    std::array<Part, 2> sending;  ///< layers after which compute waits for what it sends

    [[nodiscard]] const Part& layer(const LayerUse& use, bool sends) const {
        return (sends ? sending : layers)[static_cast<std::size_t>(use.kind)];
    }
};

/// What a rank does and holds in each kind of layer, embedding and head under one split of the
/// tensors, and what its compute takes: the same for all layouts that differ in where their groups
/// lie, in the exchange's links or in the pipeline.
class SlotShapes {
public:
    /// Forward and backward slots. Reads the table's plan here and in split() only.
    SlotShapes(WorkTable& work, const CostModel& cost);
    /// Adds input and weight gradients on their own. The table is that of the constructor.
    void split(WorkTable& work, const CostModel& cost);
    [[nodiscard]] bool isSplit() const { return m_kinds == kSlotKinds; }

    /// `plain`: the same without recompute, for layers that are not computed again (may be these).
    [[nodiscard]] ChunkHeld chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                                  const SlotShapes& plain) const;

private:
    friend class SlotPieces;
    class Builder;
    /// What a step holds more when it begins and when it has ended: in the end, and at most.
    struct StepHeld {
        std::array<Bytes, 2> net{}, peak{};
    };
    struct Shape {
        std::vector<LaneStep> steps;
        std::vector<std::uint16_t> keys;  ///< [step] index into m_known
        std::vector<StepHeld> held;       ///< [step]
        Bytes net, peak, least;
    };
    /// An operation of a layer, or a message.
    struct Known {
        OperationKey key;
        std::int64_t compute_ns = -1;  ///< -1 for those of other lanes, which the layout decides
    };

    std::size_t m_kinds = 0;     ///< made so far of each part
    std::vector<Known> m_known;  ///< about twenty
    SlotParts<Shape> m_parts;
};

/// One layer, the embedding or the head in one kind of slot.
struct SlotPiece {
    LaneMatrix matrix;         ///< arrival: the hidden state (backward: its gradient), in and out
    std::int64_t busy_ns = 0;  ///< of the compute lane
    std::int64_t exchange_ns = 0;  ///< of the lane of dispatch and combine
};

/// The pieces of a plan under one layout. What depends on a layer's number (a routing histogram
/// with a row for each layer) cannot be had from pieces.
class SlotPieces {
public:
    /// Forward and backward slots. `shapes` of the plan's split of tensors, which must live on.
    /// Reads the plan here and in split() only.
    SlotPieces(const Plan& plan, const CostModel& cost, const SlotShapes& shapes);
    /// Adds input and weight gradients on their own, which the shapes have by now.
    void split(const Plan& plan, const CostModel& cost);
    [[nodiscard]] bool isSplit() const { return m_kinds == kSlotKinds; }

    /// `plain`: the same layout without recompute, for layers that are not computed again (may be
    /// these pieces).
    [[nodiscard]] ChunkSlots chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                                   const SlotPieces& plain) const;

    /// A forward and a backward slot in turns. `blocking`: compute waits for messages, each of
    /// `message_ns`.
    [[nodiscard]] PairSlots pair(const std::array<PairMember, 2>& members, const SlotPieces& plain,
                                 std::int64_t message_ns, bool blocking) const;

private:
    class MemberSteps;

    void addKinds(const Plan& plan, const CostModel& cost, std::size_t kinds);
    [[nodiscard]] SlotPiece priced(const SlotShapes::Shape& shape) const;

    const SlotShapes* m_shapes;
    bool m_sends;
    std::vector<std::int64_t> m_durations_ns;  ///< [SlotShapes::Known]
    std::size_t m_kinds = 0;
    SlotParts<SlotPiece> m_parts;
};

}  // namespace piper
