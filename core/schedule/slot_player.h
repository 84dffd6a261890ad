// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.h"
#include "core/schedule/lane_matrix.h"

namespace piper {

/// Plays a slot table with one LaneMatrix a slot; messages go to the next virtual stage.
class SlotPlayer {
public:
    /// The matrix of a slot of that stage; stays valid while playing.
    using MatrixOf = std::function<const LaneMatrix&(std::size_t stage, const Slot& slot)>;

    SlotPlayer(const SlotTable& slots, std::int64_t vpp, std::int64_t num_microbatches);

    /// Lane times of every stage after its last slot. Errors: External for a deadlock.
    [[nodiscard]] Result<std::vector<PortTimes>> play(const MatrixOf& matrix_of);

private:
    struct Row {
        const Slot* slot;
        const LaneMatrix* matrix;
    };

    [[nodiscard]] std::int64_t& arrival(bool forward, std::size_t position, MicroBatchId m);
    bool advance(std::size_t stage, const std::vector<Row>& rows);
    bool step(std::size_t stage, const Row& row);

    const SlotTable& m_slots;
    std::size_t m_positions;  ///< pp * vpp virtual stages
    std::size_t m_microbatches;
    std::vector<std::int64_t> m_forward, m_backward;  ///< [virtual stage][micro-batch]
    std::vector<std::size_t> m_next;
    std::vector<PortTimes> m_lanes;
};

}  // namespace piper
