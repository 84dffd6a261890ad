// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <vector>

#include "core/schedule/expand.h"

namespace piper {

/// A dependency on everything the compute lane was given before this slot (template-local).
inline constexpr std::int32_t kComputeBefore = -1;

/// The lane an operation of that key runs on.
[[nodiscard]] Lane laneOf(const OperationKey& key);

/// Collects the operations of one slot in issue order.
class SlotBuilder {
public:
    using Ids = std::vector<std::int32_t>;

    SlotBuilder(WorkTable& work, StageId stage, ModelChunkId chunk)
        : m_work(work), m_stage(stage), m_chunk(chunk) {}

    [[nodiscard]] ModelChunkId chunk() const { return m_chunk; }
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

    [[nodiscard]] SlotTemplate take();

private:
    WorkTable& m_work;
    StageId m_stage;
    ModelChunkId m_chunk;
    LayerId m_layer;
    std::vector<Operation> m_operations;
};

/// Bytes of each term that one micro-batch keeps on a stage, shared out to the operations.
class ActivationShares {
public:
    ActivationShares(WorkTable& work, StageId stage);

    /// What the operation's forward makes of a term; and what a recomputed layer keeps of that.
    [[nodiscard]] Bytes full(const Operation& op, MemoryTerm term) const {
        return share(m_full, op, term);
    }
    [[nodiscard]] Bytes kept(const Operation& op, MemoryTerm term) const {
        return share(m_kept, op, term);
    }
    /// Held only while an operation runs.
    [[nodiscard]] Bytes transient(MemoryTerm term) const {
        return m_transient[static_cast<std::size_t>(term)];
    }

private:
    using Table = std::array<Bytes, kNumMemoryTerms>;

    static void readTable(const Plan& plan, StageId stage, Table& table, Table* transient);
    void addWeights();
    void addWeight(const OperationKey& key, double count);
    [[nodiscard]] Bytes share(const Table& table, const Operation& op, MemoryTerm term) const;

    WorkTable& m_work;
    StageId m_stage;
    Table m_full{}, m_kept{}, m_transient{};
    std::array<double, kNumMemoryTerms> m_weights{};
};

/// Activation bytes gained and lost by each operation of a slot, sorted.
[[nodiscard]] std::vector<MemoryChange> slotMemory(WorkTable& work, StageId stage,
                                                   ModelChunkId chunk,
                                                   const std::vector<Operation>& operations);

}  // namespace piper
