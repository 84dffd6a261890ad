// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "core/schedule/expand.h"
#include "core/schedule/worker_memory.h"

namespace piper {

/// A dependency on everything the compute lane was given before this slot (template-local).
inline constexpr std::int32_t kComputeBefore = -1;

/// The lane an operation of that key runs on.
[[nodiscard]] Lane laneOf(const OperationKey& key);

/// Collects the operations of one slot in issue order.
class SlotBuilder {
public:
    using Ids = Dependencies;

    SlotBuilder(WorkTable& work, StageId stage, ModelChunkId chunk)
        : m_work(work), m_stage(stage), m_chunk(chunk) {}

    [[nodiscard]] ModelChunkId chunk() const { return m_chunk; }
    void reserve(std::int64_t operations) {
        m_operations.reserve(static_cast<std::size_t>(operations));
    }
    /// Layer of the operations that follow, -1 for none.
    void setLayer(std::int64_t layer) { m_layer = LayerId(static_cast<std::int32_t>(layer)); }

    /// False for an exchange the layout does not have and for what selective recompute keeps.
    [[nodiscard]] bool hasWork(const OperationKey& key) const;
    /// Dependencies on an earlier operation of the same lane are dropped: the lane's order implies
    /// them.
    std::int32_t add(const OperationKey& key, const Ids& after = {}, std::int64_t chunk = -1);
    /// Messages carry the model chunk of the stage that receives them.
    std::int32_t receive(Pass pass, StageId from, ModelChunkId to_chunk);
    void send(Pass pass, StageId to, ModelChunkId to_chunk, const Ids& after);

    /// `layers`: of the chunk, from whose first layer on recompute counts.
    [[nodiscard]] SlotTemplate take(const LayerRange& layers);

private:
    /// Of the message added last; one to the own stage is a hand-over.
    void address(StageId peer, ModelChunkId to_chunk);

    WorkTable& m_work;
    StageId m_stage;
    ModelChunkId m_chunk;
    LayerId m_layer;
    std::vector<Operation> m_operations;
};

/// Bytes of each term that one micro-batch keeps, shared out to the operations that make them.
class ActivationShares {
public:
    using Table = std::array<Bytes, kNumMemoryTerms>;

    ActivationShares(WorkTable& work, StageId stage);

    /// What the operation's forward makes of a term; and what a recomputed layer keeps of that.
    [[nodiscard]] Bytes full(const Operation& op, MemoryTerm term) const {
        return share(layer(op).full, op, term);
    }
    [[nodiscard]] Bytes kept(const Operation& op, MemoryTerm term) const {
        return share(layer(op).kept, op, term);
    }
    /// The same of the operation's whole layer.
    [[nodiscard]] Bytes layerFull(const Operation& op, MemoryTerm term) const {
        return layer(op).full[static_cast<std::size_t>(term)];
    }
    [[nodiscard]] Bytes layerKept(const Operation& op, MemoryTerm term) const {
        return layer(op).kept[static_cast<std::size_t>(term)];
    }
    /// Held while the backward pass of that operation's layer (or of the head) runs.
    [[nodiscard]] const Table& backwardMoment(const Operation& op) const {
        if (op.key.phase == Phase::Embedding) return m_embedding_backward;
        return op.layer.valid() ? layer(op).backward : m_head_backward;
    }
    /// Of our own worker, whose tensors are known one by one; otherwise null.
    [[nodiscard]] const WorkerTensors* worker() const { return m_worker ? &*m_worker : nullptr; }

private:
    struct LayerTables {
        Table full{}, kept{}, backward{};
    };

    [[nodiscard]] const LayerTables& layer(const Operation& op) const {
        return m_layers[static_cast<std::size_t>(op.key.layer)];
    }
    [[nodiscard]] Bytes share(const Table& layer, const Operation& op, MemoryTerm term) const;

    std::array<LayerTables, 2> m_layers{};  ///< [LayerKind]
    Table m_ends{}, m_head_backward{}, m_embedding_backward{};
    double m_chunk_share = 1.0, m_shared_share = 0.0;
    std::optional<WorkerTensors> m_worker;
};

/// Activation bytes gained and lost by each operation of a slot of a chunk of `layers`, sorted.
[[nodiscard]] std::vector<MemoryChange> slotMemory(WorkTable& work, StageId stage,
                                                   ModelChunkId chunk, const LayerRange& layers,
                                                   const std::vector<Operation>& operations);

}  // namespace piper
