// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/slot_generators.h"

// Concept: a rank of DualPipe works in two directions, "near" (the one whose first stage is closer)
// and "far". With n ranks on its half and h the rank's distance from the outer end, the order is
//   1  2 (n - h - 1)   forwards near
//   2  h + 1           a forward near, a forward far
//   3  n - h - 1       a far backward whose weight gradient follows at once, a forward far
//   4  the rest        near forward with far backward, far forward with near backward, as pairs
//   5  n - h - 1       a far backward, then far forward with near backward
//   6  h + 1           a far and a near backward; the second half puts its weight gradients off
//   7  n - h - 1       a weight gradient, then a near input gradient
//   8  h + 1           the weight gradients left
// DualPipe-V is one half of it folded: near is chunk 0 (down), far is chunk 1 (up).
// Source: arXiv 2412.19437, section 3.2.1; its counts are those that give (pp/2-1)(FB+B-3W).

namespace piper {
namespace {

class DualRow {
public:
    DualRow(const PipelineShape& shape, std::int64_t stage) : m_row(shape) {
        const bool folded = shape.kind == ScheduleKind::DualPipeV;
        const std::int64_t pp = shape.pp;
        m_half = folded ? pp : pp / 2;
        m_outer = folded ? stage : std::min(stage, pp - 1 - stage);
        const bool mirrored = !folded && stage >= m_half;
        m_near = mirrored ? 1 : 0;
        m_far = mirrored ? 0 : 1;
        m_each = folded ? shape.num_microbatches : shape.num_microbatches / 2;
    }

    std::vector<Slot> make() {
        warmUp();
        steady();
        coolDown();
        return m_row.take();
    }

private:
    [[nodiscard]] std::int64_t inner() const { return m_half - m_outer - 1; }

    void warmUp() {
        for (std::int64_t i = 0; i < 2 * inner(); ++i) m_row.forward(m_near);
        for (std::int64_t i = 0; i <= m_outer; ++i) {
            m_row.forward(m_near);
            m_row.forward(m_far);
        }
        for (std::int64_t i = 0; i < inner(); ++i) {
            m_row.inputGrad(m_far);
            m_row.nextWeightGrad();
            m_row.forward(m_far);
        }
    }

    void steady() {
        const std::int64_t rounds = m_each - 2 * m_half + m_outer + 1;
        for (std::int64_t i = 0; i < rounds; ++i) {
            if (i == 0 && inner() == 0) {  // the innermost gains by sending the forward sooner
                m_row.forward(m_near);
                m_row.backward(m_far);
            } else {
                m_row.pair(m_near, m_far);
            }
            m_row.pair(m_far, m_near);
        }
        for (std::int64_t i = 0; i < inner(); ++i) {
            m_row.backward(m_far);
            m_row.pair(m_far, m_near);
        }
    }

    void coolDown() {
        const std::int64_t both = m_outer + 1;
        for (std::int64_t i = 0; i < 2 * both; ++i) {
            const std::size_t chunk = i % 2 == 0 ? m_far : m_near;
            if (i < both)
                m_row.backward(chunk);
            else
                m_row.inputGrad(chunk);
        }
        for (std::int64_t i = 0; i < inner(); ++i) {
            m_row.nextWeightGrad();
            m_row.inputGrad(m_near);
        }
        for (std::int64_t i = 0; i < both; ++i) m_row.nextWeightGrad();
    }

    RowWriter m_row;
    std::int64_t m_half = 1, m_outer = 0, m_each = 0;
    std::size_t m_near = 0, m_far = 1;
};

}  // namespace

SlotTable makeDualPipe(const PipelineShape& shape) {
    SlotTable table;
    for (std::int64_t s = 0; s < shape.pp; ++s) table.push_back(DualRow(shape, s).make());
    return table;
}

}  // namespace piper
