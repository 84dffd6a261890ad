// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/slot_generators.h"

namespace piper {
namespace {

/// zb_h1 is 1F1B whose stage s puts its weight gradients off by s micro-batches, so that the input
/// gradient of the stage before comes sooner and the tail is filled; every stage then holds pp.
/// zb_h2 takes 2 (pp - s) - 1 forwards before the first backward and puts off 2 s.
/// Source: arXiv 2401.10241, figures 3 and 4.
std::vector<Slot> zeroBubbleRow(const PipelineShape& shape, std::int64_t stage) {
    const std::int64_t m = shape.num_microbatches;
    const bool two = shape.kind == ScheduleKind::ZbH2;
    const std::int64_t left = shape.pp - stage - 1;
    const std::int64_t warmup = std::min(m, two ? 2 * left : left);
    const std::int64_t put_off = two ? 2 * stage : stage;
    RowWriter row(shape);
    while (row.forwards(0) < warmup) row.forward(0);
    while (row.inputGrads(0) < m) {
        if (row.forwards(0) < m) row.forward(0);
        row.inputGrad(0);
        if (row.inputGrads(0) - row.weightGrads(0) > put_off) row.weightGrad(0);
    }
    while (row.weightGrads(0) < m) row.weightGrad(0);
    return row.take();
}

/// A rank of zb_v. Warm-up: 2 (pp - s) - 1 forwards down, then s in turn up and down, then pp - s
/// forwards up with their gradients; steady: down, then up, each forward with the gradients of an
/// older one; cool-down: input gradients first, the weight gradients put off fill the tail.
/// With F = I = W no rank waits from its first slot to its last, at 1F1B's memory.
/// Source: arXiv 2401.10241, appendix on ZB-V; 2405.15362.
class VRow {
public:
    VRow(const PipelineShape& shape, std::int64_t stage)
        : m_shape(shape), m_stage(stage), m_row(shape) {}

    std::vector<Slot> make() {
        for (std::int64_t i = 0; i < 2 * left() - 1; ++i) m_row.forward(0);
        for (std::int64_t i = 0; i < m_stage; ++i) {
            m_row.forward(1);
            m_row.forward(0);
        }
        for (std::int64_t i = 0; i < left(); ++i) up();
        while (m_row.forwards(1) < m_row.forwards(0) ||
               m_row.forwards(0) < m_shape.num_microbatches) {
            if (m_row.forwards(0) < m_shape.num_microbatches) m_row.forward(0);
            m_row.inputGrad(0);
            m_row.weightGrad(0);
            up();
        }
        coolDown();
        return m_row.take();
    }

private:
    [[nodiscard]] std::int64_t left() const { return m_shape.pp - m_stage; }
    void up() {
        m_row.forward(1);
        m_row.inputGrad(1);
        m_row.weightGrad(1);
    }
    void coolDown() {
        for (std::int64_t i = 0; i < m_stage; ++i) {
            m_row.inputGrad(0);
            m_row.inputGrad(1);
        }
        for (std::int64_t i = 0; i < left(); ++i) {
            m_row.inputGrad(0);
            m_row.weightGrad(0);
        }
        for (const std::size_t chunk : {1U, 0U})
            while (m_row.weightGrads(chunk) < m_row.inputGrads(chunk)) m_row.weightGrad(chunk);
    }

    const PipelineShape& m_shape;
    std::int64_t m_stage;
    RowWriter m_row;
};

}  // namespace

SlotTable makeZeroBubbleH(const PipelineShape& shape) {
    SlotTable table;
    for (std::int64_t s = 0; s < shape.pp; ++s) table.push_back(zeroBubbleRow(shape, s));
    return table;
}

SlotTable makeZeroBubbleV(const PipelineShape& shape) {
    // The pattern needs 2 pp - 1 micro-batches; of fewer it is what is left without the others.
    PipelineShape padded = shape;
    padded.num_microbatches = std::max(shape.num_microbatches, 2 * shape.pp - 1);
    SlotTable table;
    for (std::int64_t s = 0; s < shape.pp; ++s) {
        table.push_back(VRow(padded, s).make());
        std::erase_if(table.back(), [&shape](const Slot& slot) {
            return slot.micro_batch.value >= shape.num_microbatches;
        });
    }
    return table;
}

}  // namespace piper
