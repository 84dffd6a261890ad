// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_player.h"

#include <algorithm>

namespace piper {

SlotPlayer::SlotPlayer(const SlotTable& slots, const PipelineShape& shape)
    : m_microbatches(static_cast<std::size_t>(shape.num_microbatches)),
      m_num_messages(2 * slots.size() * static_cast<std::size_t>(shape.chunks()) * m_microbatches),
      m_stages(slots.size()) {
    for (std::size_t s = 0; s < slots.size(); ++s) {
        Stage& stage = m_stages[s];
        stage.rows.reserve(slots[s].size());
        forEachForm(slots[s], [&](const SlotForm& form, const Slot& first, const Slot* second) {
            auto at = std::ranges::find(stage.forms, form, &FormCount::form);
            if (at == stage.forms.end()) at = stage.forms.insert(at, FormCount{form, 0});
            ++at->count;
            Row row;
            row.form = static_cast<std::uint32_t>(at - stage.forms.begin());
            row.micro_batch[0] = first.micro_batch;
            resolve(shape, s, first, 0, row);
            if (second != nullptr) {
                row.micro_batch[1] = second->micro_batch;
                resolve(shape, s, *second, 1, row);
            }
            stage.rows.push_back(row);
        });
    }
}

void SlotPlayer::resolve(const PipelineShape& shape, std::size_t stage, const Slot& slot,
                         std::size_t member, Row& row) const {
    if (slot.kind == Slot::Kind::WeightGrad) return;
    const bool forward = slot.kind == Slot::Kind::Forward;
    const auto message = [&](const ChunkSeat& to) {
        const std::size_t seat =
            to.stage.index() * static_cast<std::size_t>(shape.chunks()) + to.chunk.index();
        return static_cast<std::int32_t>((2 * seat + (forward ? 0 : 1)) * m_microbatches +
                                         slot.micro_batch.index());
    };
    const ChunkSeat own{StageId(stage), slot.model_chunk};
    const auto before = seatBefore(shape, own), after = seatAfter(shape, own);
    if (forward ? before : after) row.takes[member] = message(own);
    if (const auto& to = forward ? after : before) row.makes[member] = message(*to);
}

bool SlotPlayer::step(const Row& row, const LaneMatrix& matrix, std::size_t stage, bool first,
                      Playing& playing) {
    PortTimes& lanes = playing.times.lanes[stage];
    for (std::size_t i = 0; i < 2; ++i) {
        std::int64_t& arrival = lanes[static_cast<std::size_t>(arrivalPort(i))];
        arrival = kNever;
        if (row.takes[i] == kNone) continue;
        arrival = playing.messages[static_cast<std::size_t>(row.takes[i])];
        if (arrival == kNever) return false;
        if (first) playing.times.start_ns[stage] = std::max(playing.times.start_ns[stage], arrival);
    }
    lanes = matrix.apply(lanes);
    for (std::size_t i = 0; i < 2; ++i)
        if (row.makes[i] != kNone)
            playing.messages[static_cast<std::size_t>(row.makes[i])] =
                lanes[static_cast<std::size_t>(arrivalPort(i))];
    return true;
}

bool SlotPlayer::advance(std::size_t stage, const std::vector<const LaneMatrix*>& matrices,
                         Playing& playing) const {
    const std::vector<Row>& rows = m_stages[stage].rows;
    std::size_t& next = playing.next[stage];
    const std::size_t before = next;
    while (next < rows.size() &&
           step(rows[next], *matrices[rows[next].form], stage, next == 0, playing))
        ++next;
    return next != before;
}

Result<SlotPlayer::Times> SlotPlayer::play(
    const std::vector<std::vector<const LaneMatrix*>>& matrices) const {
    Playing playing;
    playing.messages.assign(m_num_messages, kNever);
    playing.next.assign(m_stages.size(), 0);
    playing.times.lanes.assign(m_stages.size(), PortTimes{});
    playing.times.start_ns.assign(m_stages.size(), 0);
    bool moved = true;
    while (moved) {
        moved = false;
        for (std::size_t s = 0; s < m_stages.size(); ++s) moved |= advance(s, matrices[s], playing);
    }
    for (std::size_t s = 0; s < m_stages.size(); ++s)
        if (playing.next[s] < m_stages[s].rows.size())
            return fail(ErrorCode::External,
                        "deadlock: stage {} waits in slot {} (micro-batch {}) for a message that "
                        "is never sent",
                        s, playing.next[s], m_stages[s].rows[playing.next[s]].micro_batch[0].value);
    for (PortTimes& lanes : playing.times.lanes)
        for (std::size_t i = 0; i < 2; ++i) lanes[static_cast<std::size_t>(arrivalPort(i))] = 0;
    return std::move(playing.times);
}

}  // namespace piper
