// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/closed_form.h"

#include <algorithm>

namespace piper {
namespace {

/// Sum over the ranks but the one that takes longest.
std::int64_t othersOf(std::span<const RankSlots> ranks, const auto& time_of) {
    std::int64_t total = 0, most = 0;
    for (const RankSlots& rank : ranks) {
        const std::int64_t time = time_of(rank);
        total += time;
        most = std::max(most, time);
    }
    return std::max<std::int64_t>(0, total - most);
}

/// What filling and draining add to the slowest rank's own slots (closedFormBubbleNs), with every
/// rank's own times.
std::int64_t fillingNs(const PipelineShape& shape, std::span<const RankSlots> ranks,
                       bool own_spans) {
    switch (shape.kind) {
        case ScheduleKind::ZbH1:
            return othersOf(ranks, [](const RankSlots& r) {
                return r.forward_ns + r.input_grad_ns - r.weight_grad_ns;
            });
        case ScheduleKind::ZbH2:
        case ScheduleKind::ZbV:
            if (own_spans) return 0;
            return othersOf(ranks, [](const RankSlots& r) { return r.forward_ns; });
        case ScheduleKind::DualPipe:
            return othersOf(ranks,
                            [](const RankSlots& r) {
                                return r.pair_ns + r.backward_ns - 3 * r.weight_grad_ns;
                            }) *
                   (shape.pp / 2 - 1) / std::max<std::int64_t>(1, shape.pp - 1);
        case ScheduleKind::DualPipeV:
            return othersOf(ranks, [](const RankSlots& r) {
                return r.pair_ns + r.backward_ns - 3 * r.weight_grad_ns;
            });
        default:
            return othersOf(ranks, [](const RankSlots& r) { return r.forward_ns + r.backward_ns; });
    }
}

}  // namespace

std::int64_t closedFormStepNs(const PipelineShape& shape, std::span<const RankSlots> ranks,
                              bool own_spans) {
    std::int64_t slowest = 0, tail = 0, message = 0;
    for (const RankSlots& rank : ranks) {
        slowest = std::max(slowest, rank.span_ns / shape.num_microbatches);
        tail = std::max(tail, rank.tail_ns);
        message += rank.message_ns / shape.num_microbatches;
    }
    return shape.num_microbatches * slowest + fillingNs(shape, ranks, own_spans) +
           message / shape.vpp + tail;
}

}  // namespace piper
