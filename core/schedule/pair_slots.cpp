// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/schedule/expand.h"

namespace piper {
namespace {

/// One slot of a pair while its operations are given out.
class Side {
public:
    Side(SlotTemplate slot, MicroBatchId member) : m_slot(std::move(slot)), m_member(member) {}

    [[nodiscard]] std::vector<bool> waits() const {
        const std::vector<Operation>& all = m_slot.operations;
        std::vector<bool> out;
        out.reserve(all.size());
        for (const Operation& op : all)
            out.push_back(op.lane == Lane::Compute &&
                          std::ranges::any_of(op.dependencies, [&all](std::int32_t id) {
                              return all[static_cast<std::size_t>(id)].lane != Lane::Compute;
                          }));
        return out;
    }

    void give(SlotTemplate& out) {
        Operation& op = out.operations.emplace_back(m_slot.operations[m_next++]);
        op.id = static_cast<std::int32_t>(out.operations.size() - 1);
        op.micro_batch = m_member;
        for (std::int32_t& id : op.dependencies) id = m_new_id[static_cast<std::size_t>(id)];
        m_new_id.push_back(op.id);
    }

    void giveMemory(SlotTemplate& out) const {
        for (MemoryChange change : m_slot.memory) {
            change.operation = m_new_id[static_cast<std::size_t>(change.operation)];
            out.memory.push_back(change);
        }
    }

private:
    SlotTemplate m_slot;
    MicroBatchId m_member;
    std::size_t m_next = 0;
    std::vector<std::int32_t> m_new_id;
};

}  // namespace

std::vector<std::uint8_t> takeTurns(const std::vector<bool>& first_waits,
                                    const std::vector<bool>& second_waits) {
    const std::array<const std::vector<bool>*, 2> waits{&first_waits, &second_waits};
    std::array<std::size_t, 2> next{};
    std::vector<std::uint8_t> out;
    out.reserve(first_waits.size() + second_waits.size());
    for (std::uint8_t turn = 1; next[0] < waits[0]->size() || next[1] < waits[1]->size();
         turn = 1 - turn) {
        const std::vector<bool>& own = *waits[turn];
        std::size_t& at = next[turn];
        if (at == own.size()) continue;
        do {
            out.push_back(turn);
            ++at;
        } while (at < own.size() && !own[at]);
    }
    return out;
}

SlotTemplate pairSlots(SlotTemplate forward, SlotTemplate backward) {
    SlotTemplate out;
    out.blocking_messages = forward.blocking_messages || backward.blocking_messages;
    std::array<Side, 2> sides{Side(std::move(forward), MicroBatchId(0)),
                              Side(std::move(backward), MicroBatchId(1))};
    for (const std::uint8_t member : takeTurns(sides[0].waits(), sides[1].waits()))
        sides[member].give(out);
    for (const Side& side : sides) side.giveMemory(out);
    std::ranges::stable_sort(out.memory, [](const MemoryChange& a, const MemoryChange& b) {
        return std::pair(a.operation, a.at_end) < std::pair(b.operation, b.at_end);
    });
    return out;
}

}  // namespace piper
