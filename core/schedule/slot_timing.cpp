// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/schedule/slot_player.h"

namespace piper {
namespace {

/// One lane: a slot starts when the rank is free and its messages are there; its own messages are
/// there `messages` after its end.
LaneMatrix oneLane(std::int64_t duration, std::initializer_list<std::int64_t> messages) {
    LaneMatrix matrix = LaneMatrix::identity();
    PortTimes& compute = matrix.row(Port::Compute);
    compute[at(Port::Compute)] = duration;
    for (std::size_t i = 0; i < messages.size(); ++i) compute[at(arrivalPort(i))] = duration;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        PortTimes& sent = matrix.row(arrivalPort(i));
        sent = compute;
        for (std::int64_t& time : sent)
            if (time != kNever) time += messages.begin()[i];
    }
    return matrix;
}

std::int64_t duration(const SeatTimes& seat, Slot::Kind kind) {
    switch (kind) {
        case Slot::Kind::Forward:
            return seat.forward_ns;
        case Slot::Kind::Backward:
            return seat.input_grad_ns + seat.weight_grad_ns;
        case Slot::Kind::InputGrad:
            return seat.input_grad_ns;
        case Slot::Kind::WeightGrad:
            return seat.weight_grad_ns;
    }
    return 0;
}

}  // namespace

std::int64_t SlotTiming::makespan() const {
    return end_ns.empty() ? 0 : std::ranges::max(end_ns);
}

std::int64_t SlotTiming::longestSpan() const {
    std::int64_t longest = 0;
    for (std::size_t s = 0; s < end_ns.size(); ++s)
        longest = std::max(longest, end_ns[s] - start_ns[s]);
    return longest;
}

namespace {

/// Lengths and matrices of the forms of a table under given times.
class TimedForms {
public:
    TimedForms(const PipelineShape& shape, const SlotTimes& times)
        : m_shape(shape), m_times(times) {}

    [[nodiscard]] std::int64_t length(std::size_t stage, const SlotForm& form) const {
        const std::int64_t first = duration(m_times.of(m_shape, stage, form.chunk), form.kind);
        if (!form.paired) return first;
        const std::int64_t second =
            duration(m_times.of(m_shape, stage, form.second_chunk), form.second_kind);
        return static_cast<std::int64_t>(static_cast<double>(first + second) * m_times.pair_share +
                                         0.5);
    }
    [[nodiscard]] LaneMatrix matrix(std::size_t stage, const SlotForm& form) const {
        const std::int64_t ns = length(stage, form);
        const std::int64_t first = message(stage, form.kind, form.chunk);
        if (!form.paired) return oneLane(ns, {first});
        return oneLane(ns, {first, message(stage, form.second_kind, form.second_chunk)});
    }

private:
    /// Free within a rank.
    [[nodiscard]] std::int64_t message(std::size_t stage, Slot::Kind kind,
                                       ModelChunkId chunk) const {
        const ChunkSeat seat{StageId(stage), chunk};
        const auto to =
            kind == Slot::Kind::Forward ? seatAfter(m_shape, seat) : seatBefore(m_shape, seat);
        return to && to->stage == seat.stage ? 0 : m_times.message_ns;
    }

    const PipelineShape& m_shape;
    const SlotTimes& m_times;
};

}  // namespace

Result<SlotTiming> timeSlots(const SlotTable& slots, const PipelineShape& shape,
                             const SlotTimes& times) {
    const TimedForms forms(shape, times);
    const SlotPlayer player(slots, shape);
    std::vector<std::vector<LaneMatrix>> matrices(slots.size());
    SlotTiming out;
    for (std::size_t s = 0; s < slots.size(); ++s) {
        std::int64_t busy = 0;
        for (const SlotPlayer::FormCount& form : player.forms(s)) {
            matrices[s].push_back(forms.matrix(s, form.form));
            busy += form.count * forms.length(s, form.form);
        }
        out.busy_ns.push_back(busy);
    }
    std::vector<std::vector<const LaneMatrix*>> pointers(slots.size());
    for (std::size_t s = 0; s < slots.size(); ++s)
        for (const LaneMatrix& matrix : matrices[s]) pointers[s].push_back(&matrix);
    PIPER_ASSIGN(const SlotPlayer::Times played, player.play(pointers));
    for (std::size_t s = 0; s < slots.size(); ++s) {
        out.start_ns.push_back(played.start_ns[s]);
        out.end_ns.push_back(played.lanes[s][at(Port::Compute)]);
    }
    return out;
}

std::int64_t closedFormBubbleNs(const PipelineShape& shape, const SlotTimes& times) {
    if (times.seats.empty()) return 0;
    const auto [f, i, w] = times.seats.front();
    const std::int64_t fill = shape.pp - 1;
    const auto pair =
        static_cast<std::int64_t>(static_cast<double>(f + i + w) * times.pair_share + 0.5);
    switch (shape.kind) {
        case ScheduleKind::ZbH1:
            return fill * (f + i - w);
        case ScheduleKind::ZbH2:
            return fill * (f + i - 2 * w);
        case ScheduleKind::ZbV:
            return 0;
        case ScheduleKind::DualPipe:
            return (shape.pp / 2 - 1) * (pair + i + w - 3 * w);
        case ScheduleKind::DualPipeV:
            return fill * (pair + i + w - 3 * w);
        default:
            return fill * (f + i + w);
    }
}

double closedFormBubble(std::int64_t pp, std::int64_t num_microbatches) {
    return static_cast<double>(pp - 1) / static_cast<double>(num_microbatches + pp - 1);
}

}  // namespace piper
