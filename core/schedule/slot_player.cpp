// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_player.h"

namespace piper {

SlotPlayer::SlotPlayer(const SlotTable& slots, std::int64_t vpp, std::int64_t num_microbatches)
    : m_slots(slots),
      m_positions(slots.size() * static_cast<std::size_t>(vpp)),
      m_microbatches(static_cast<std::size_t>(num_microbatches)),
      m_forward(m_positions * m_microbatches, kNever),
      m_backward(m_forward),
      m_next(slots.size(), 0),
      m_lanes(slots.size()) {}

std::int64_t& SlotPlayer::arrival(bool forward, std::size_t position, MicroBatchId m) {
    return (forward ? m_forward : m_backward)[position * m_microbatches + m.index()];
}

bool SlotPlayer::step(std::size_t stage, const Row& row) {
    const Slot& slot = *row.slot;
    const bool forward = slot.kind == Slot::Kind::Forward;
    const std::size_t position = slot.model_chunk.index() * m_slots.size() + stage;
    PortTimes& lanes = m_lanes[stage];
    lanes[static_cast<std::size_t>(Port::Arrival)] = kNever;
    if (row.matrix->receives) {
        const std::int64_t time = arrival(forward, position, slot.micro_batch);
        if (time == kNever) return false;
        lanes[static_cast<std::size_t>(Port::Arrival)] = time;
    }
    lanes = row.matrix->apply(lanes);
    if (row.matrix->sends)
        arrival(forward, forward ? position + 1 : position - 1, slot.micro_batch) =
            lanes[static_cast<std::size_t>(Port::Send)];
    return true;
}

bool SlotPlayer::advance(std::size_t stage, const std::vector<Row>& rows) {
    const std::size_t before = m_next[stage];
    while (m_next[stage] < rows.size() && step(stage, rows[m_next[stage]])) ++m_next[stage];
    return m_next[stage] != before;
}

Result<std::vector<PortTimes>> SlotPlayer::play(const MatrixOf& matrix_of) {
    std::vector<std::vector<Row>> rows(m_slots.size());
    for (std::size_t s = 0; s < m_slots.size(); ++s)
        for (const Slot& slot : m_slots[s]) rows[s].push_back({&slot, &matrix_of(s, slot)});
    bool moved = true;
    while (moved) {
        moved = false;
        for (std::size_t s = 0; s < rows.size(); ++s) moved |= advance(s, rows[s]);
    }
    for (std::size_t s = 0; s < rows.size(); ++s)
        if (m_next[s] < rows[s].size())
            return fail(ErrorCode::External,
                        "deadlock: stage {} waits in slot {} (micro-batch {}) for a message that "
                        "is never sent",
                        s, m_next[s], rows[s][m_next[s]].slot->micro_batch.value);
    return std::move(m_lanes);
}

}  // namespace piper
