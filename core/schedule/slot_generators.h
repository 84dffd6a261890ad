// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/schedule/schedule.h"

namespace piper {

// The generators behind makeSlots, one function a kind; private to this room. They take checked
// shapes (slots.cpp) and return rows without pipeline phases where labelPhases says them.

[[nodiscard]] SlotTable makeZeroBubbleH(const PipelineShape& shape);  ///< zb_h1, zb_h2
[[nodiscard]] SlotTable makeZeroBubbleV(const PipelineShape& shape);
[[nodiscard]] SlotTable makeDualPipe(const PipelineShape& shape);  ///< dualpipe, dualpipe_v

/// Of several tables laid out for those times and the fixed one, the soonest done.
[[nodiscard]] SlotTable tuneZeroBubble(const PipelineShape& shape, const SlotTimes& times,
                                       SlotTable fixed);

/// Warm-up before the first backward of a rank, cool-down after its last forward.
void labelPhases(SlotTable& table);

/// Appends slots to a rank's row and counts them by chunk.
class RowWriter {
public:
    explicit RowWriter(const PipelineShape& shape);

    void forward(std::size_t chunk);
    /// Input and weight gradient in one slot.
    void backward(std::size_t chunk, bool with_previous = false);
    void inputGrad(std::size_t chunk);
    /// The oldest weight gradient put off, of that chunk.
    void weightGrad(std::size_t chunk);
    /// The oldest put off of any chunk.
    void nextWeightGrad();
    /// A forward and the whole backward of another micro-batch, together.
    void pair(std::size_t forward_chunk, std::size_t backward_chunk);

    [[nodiscard]] std::int64_t forwards(std::size_t chunk) const { return m_forward[chunk]; }
    [[nodiscard]] std::int64_t inputGrads(std::size_t chunk) const { return m_gradient[chunk]; }
    [[nodiscard]] std::int64_t weightGrads(std::size_t chunk) const { return m_weight[chunk]; }
    [[nodiscard]] std::vector<Slot> take() { return std::move(m_row); }

private:
    void append(Slot::Kind kind, std::size_t chunk, std::int64_t nth, bool with_previous = false);

    std::vector<std::int64_t> m_first;  ///< micro-batch of each chunk
    std::vector<std::int64_t> m_forward, m_gradient, m_weight;
    std::vector<std::size_t> m_put_off;  ///< chunks of input gradients whose weight gradient waits
    std::size_t m_next_put_off = 0;
    std::vector<Slot> m_row;
};

}  // namespace piper
