// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "core/base/result.h"
#include "core/schedule/lane_matrix.h"
#include "core/schedule/slot_form.h"

namespace piper {

/// Plays a slot table with one LaneMatrix a form of slot. Made once for a table; who sends to whom
/// is resolved then, so that a play is one matrix product a slot.
class SlotPlayer {
public:
    struct FormCount {
        SlotForm form;
        std::int64_t count = 0;
    };
    struct Times {
        std::vector<PortTimes> lanes;        ///< [stage], after its last slot
        std::vector<std::int64_t> start_ns;  ///< [stage], of its first slot
    };

    SlotPlayer(const SlotTable& slots, const PipelineShape& shape);

    /// The forms of a stage in order of first use.
    [[nodiscard]] const std::vector<FormCount>& forms(std::size_t stage) const {
        return m_stages[stage].forms;
    }
    /// What a stage runs, in order.
    struct Row {
        std::uint32_t form = 0;
        std::array<MicroBatchId, 2> micro_batch;                   ///< of either member
        std::array<std::int32_t, 2> takes{-1, -1}, makes{-1, -1};  ///< messages, -1 for none
    };
    [[nodiscard]] const std::vector<Row>& rows(std::size_t stage) const {
        return m_stages[stage].rows;
    }
    /// matrices [stage][form]. Errors: External for a deadlock.
    [[nodiscard]] Result<Times> play(
        const std::vector<std::vector<const LaneMatrix*>>& matrices) const;

private:
    static constexpr std::int32_t kNone = -1;
    struct Stage {
        std::vector<FormCount> forms;
        std::vector<Row> rows;
    };
    struct Playing {
        std::vector<std::int64_t> messages;  ///< kNever before they are there
        std::vector<std::size_t> next;
        Times times;
    };

    void resolve(const PipelineShape& shape, std::size_t stage, const Slot& slot,
                 std::size_t member, Row& row) const;
    bool advance(std::size_t stage, const std::vector<const LaneMatrix*>& matrices,
                 Playing& playing) const;
    static bool step(const Row& row, const LaneMatrix& matrix, std::size_t stage, bool first,
                     Playing& playing);

    std::size_t m_microbatches;
    std::size_t m_num_messages;
    std::vector<Stage> m_stages;
};

}  // namespace piper
