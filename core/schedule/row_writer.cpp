// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/slot_generators.h"

namespace piper {

RowWriter::RowWriter(const PipelineShape& shape)
    : m_forward(static_cast<std::size_t>(shape.chunks()), 0),
      m_gradient(m_forward),
      m_weight(m_forward) {
    for (std::int32_t c = 0; c < shape.chunks(); ++c)
        m_first.push_back(microBatchesOf(shape, ModelChunkId(c)).begin);
}

void RowWriter::append(Slot::Kind kind, std::size_t chunk, std::int64_t nth, bool with_previous) {
    Slot slot;
    slot.kind = kind;
    slot.micro_batch = MicroBatchId(static_cast<std::int32_t>(m_first[chunk] + nth));
    slot.model_chunk = ModelChunkId(chunk);
    slot.with_previous = with_previous;
    m_row.push_back(slot);
}

void RowWriter::forward(std::size_t chunk) {
    append(Slot::Kind::Forward, chunk, m_forward[chunk]++);
}

void RowWriter::backward(std::size_t chunk, bool with_previous) {
    append(Slot::Kind::Backward, chunk, m_gradient[chunk]++, with_previous);
    ++m_weight[chunk];
}

void RowWriter::inputGrad(std::size_t chunk) {
    append(Slot::Kind::InputGrad, chunk, m_gradient[chunk]++);
    m_put_off.push_back(chunk);
}

void RowWriter::weightGrad(std::size_t chunk) {
    append(Slot::Kind::WeightGrad, chunk, m_weight[chunk]++);
}

void RowWriter::nextWeightGrad() {
    PIPER_CHECK(m_next_put_off < m_put_off.size());
    weightGrad(m_put_off[m_next_put_off++]);
}

void RowWriter::pair(std::size_t forward_chunk, std::size_t backward_chunk) {
    forward(forward_chunk);
    backward(backward_chunk, true);
}

void labelPhases(SlotTable& table) {
    for (std::vector<Slot>& row : table) {
        const auto is_forward = [](const Slot& slot) { return slot.kind == Slot::Kind::Forward; };
        const auto first_backward = std::ranges::find_if_not(row, is_forward);
        const auto last_forward = std::find_if(row.rbegin(), row.rend(), is_forward).base();
        for (auto at = row.begin(); at != row.end(); ++at)
            at->phase = at >= last_forward    ? PipelinePhase::Cooldown
                        : at < first_backward ? PipelinePhase::Warmup
                                              : PipelinePhase::Steady;
    }
}

}  // namespace piper
