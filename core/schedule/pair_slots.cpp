// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/expand.h"

namespace piper {
namespace {

/// One slot of a pair while its operations are given out.
class Side {
public:
    Side(SlotTemplate slot, MicroBatchId member) : m_slot(std::move(slot)), m_member(member) {}

    [[nodiscard]] bool done() const { return m_next == m_slot.operations.size(); }

    /// Operations up to the next that computes with what an exchange brings.
    void takeTurn(SlotTemplate& out) {
        do give(out);
        while (!done() && !waits());
    }

    void giveMemory(SlotTemplate& out) const {
        for (MemoryChange change : m_slot.memory) {
            change.operation = m_new_id[static_cast<std::size_t>(change.operation)];
            out.memory.push_back(change);
        }
    }

private:
    [[nodiscard]] bool waits() const {
        const Operation& next = m_slot.operations[m_next];
        return next.lane == Lane::Compute &&
               std::ranges::any_of(next.dependencies, [this](std::int32_t id) {
                   return m_slot.operations[static_cast<std::size_t>(id)].lane != Lane::Compute;
               });
    }

    void give(SlotTemplate& out) {
        Operation op = std::move(m_slot.operations[m_next++]);
        m_slot.operations[m_next - 1].lane = op.lane;
        op.id = static_cast<std::int32_t>(out.operations.size());
        op.micro_batch = m_member;
        for (std::int32_t& id : op.dependencies) id = m_new_id[static_cast<std::size_t>(id)];
        m_new_id.push_back(op.id);
        out.operations.push_back(std::move(op));
    }

    SlotTemplate m_slot;
    MicroBatchId m_member;
    std::size_t m_next = 0;
    std::vector<std::int32_t> m_new_id;
};

}  // namespace

SlotTemplate pairSlots(SlotTemplate forward, SlotTemplate backward) {
    SlotTemplate out;
    out.blocking_messages = forward.blocking_messages || backward.blocking_messages;
    Side first(std::move(forward), MicroBatchId(0)), second(std::move(backward), MicroBatchId(1));
    for (bool backward_turn = true; !first.done() || !second.done();
         backward_turn = !backward_turn) {
        Side& side = backward_turn ? second : first;
        if (!side.done()) side.takeTurn(out);
    }
    first.giveMemory(out);
    second.giveMemory(out);
    std::ranges::stable_sort(out.memory, [](const MemoryChange& a, const MemoryChange& b) {
        return std::pair(a.operation, a.at_end) < std::pair(b.operation, b.at_end);
    });
    return out;
}

}  // namespace piper
