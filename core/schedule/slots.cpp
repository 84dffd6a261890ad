// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>

#include "core/schedule/slot_generators.h"

namespace piper {
namespace {

/// A new schedule is one such function and one row of kGenerators.
using Generator = SlotTable (*)(const PipelineShape&);
struct ScheduleGenerator {
    ScheduleKind kind;
    std::int64_t chunks;  ///< vpp it needs, 0 for any
    Generator make;
};

Slot makeSlot(Slot::Kind kind, std::int64_t micro_batch, std::int64_t chunk, PipelinePhase phase) {
    return {kind, MicroBatchId(static_cast<std::int32_t>(micro_batch)),
            ModelChunkId(static_cast<std::int32_t>(chunk)), phase};
}

SlotTable makeGPipe(const PipelineShape& shape) {
    std::vector<Slot> row;
    for (std::int64_t m = 0; m < shape.num_microbatches; ++m)
        row.push_back(makeSlot(Slot::Kind::Forward, m, 0, PipelinePhase::Warmup));
    for (std::int64_t m = 0; m < shape.num_microbatches; ++m)
        row.push_back(makeSlot(Slot::Kind::Backward, m, 0, PipelinePhase::Cooldown));
    return SlotTable(static_cast<std::size_t>(shape.pp), row);
}

/// `warmup` forwards, then one forward and one backward in turn, then the backwards left.
/// `place` maps the n-th forward (or backward) of the stage to its micro-batch and chunk.
template <class Place>
std::vector<Slot> alternate(std::int64_t warmup, std::int64_t total, const Place& place) {
    std::vector<Slot> row;
    row.reserve(static_cast<std::size_t>(2 * total));
    for (std::int64_t i = 0; i < warmup; ++i)
        row.push_back(place(Slot::Kind::Forward, i, PipelinePhase::Warmup));
    for (std::int64_t i = warmup; i < total; ++i) {
        row.push_back(place(Slot::Kind::Forward, i, PipelinePhase::Steady));
        row.push_back(place(Slot::Kind::Backward, i - warmup, PipelinePhase::Steady));
    }
    for (std::int64_t i = total - warmup; i < total; ++i)
        row.push_back(place(Slot::Kind::Backward, i, PipelinePhase::Cooldown));
    return row;
}

SlotTable makeOneF1B(const PipelineShape& shape) {
    SlotTable table;
    for (std::int64_t s = 0; s < shape.pp; ++s)
        table.push_back(alternate(std::min(shape.num_microbatches, shape.pp - s - 1),
                                  shape.num_microbatches,
                                  [](Slot::Kind kind, std::int64_t i, PipelinePhase phase) {
                                      return makeSlot(kind, i, 0, phase);
                                  }));
    return table;
}

/// Micro-batches go in groups of pp; within a group a rank runs chunk 0 for all of them, then
/// chunk 1, and so on; the backward walks the chunks from the last.
/// Source: Narayanan et al., SC'21 (arXiv 2104.04473), section 2.2.
SlotTable makeInterleaved(const PipelineShape& shape) {
    SlotTable table;
    const std::int64_t total = shape.num_microbatches * shape.vpp;
    for (std::int64_t s = 0; s < shape.pp; ++s) {
        const std::int64_t warmup =
            std::min(total, (shape.pp - s - 1) * 2 + (shape.vpp - 1) * shape.pp);
        table.push_back(alternate(warmup, total,
                                  [&shape](Slot::Kind kind, std::int64_t i, PipelinePhase phase) {
                                      const std::int64_t turn = i / shape.pp % shape.vpp;
                                      const bool forward = kind == Slot::Kind::Forward;
                                      const std::int64_t group = i / (shape.pp * shape.vpp);
                                      return makeSlot(kind, group * shape.pp + i % shape.pp,
                                                      forward ? turn : shape.vpp - 1 - turn, phase);
                                  }));
    }
    return table;
}

constexpr std::array kGenerators{
    ScheduleGenerator{ScheduleKind::GPipe, 1, makeGPipe},
    ScheduleGenerator{ScheduleKind::OneF1B, 1, makeOneF1B},
    ScheduleGenerator{ScheduleKind::InterleavedOneF1B, 0, makeInterleaved},
    ScheduleGenerator{ScheduleKind::ZbH1, 1, makeZeroBubbleH},
    ScheduleGenerator{ScheduleKind::ZbH2, 1, makeZeroBubbleH},
    ScheduleGenerator{ScheduleKind::ZbV, 2, makeZeroBubbleV},
    ScheduleGenerator{ScheduleKind::DualPipe, 1, makeDualPipe},
    ScheduleGenerator{ScheduleKind::DualPipeV, 2, makeDualPipe},
};

bool isZeroBubble(ScheduleKind kind) {
    return kind == ScheduleKind::ZbH1 || kind == ScheduleKind::ZbH2 || kind == ScheduleKind::ZbV;
}

Status checkChunks(const PipelineShape& shape, std::int64_t chunks) {
    if (chunks == 0 || shape.vpp == chunks) return {};
    Error error = fail(ErrorCode::RuleBroken, "schedule {} needs vpp {}, the layout has vpp {}",
                       toText(shape.kind), chunks, shape.vpp);
    error.hint = fmt::format("set vpp={} or choose {}", chunks,
                             shape.vpp == 2   ? "interleaved_1f1b, zb_v or dualpipe_v"
                             : shape.vpp == 1 ? "1f1b"
                                              : "interleaved_1f1b");
    return error;
}

/// Micro-batches in whole rounds of `round`, at least `least` of them.
Status checkMicroBatches(const PipelineShape& shape, std::int64_t round, std::int64_t least) {
    const std::int64_t m = shape.num_microbatches;
    if (m >= least && m % round == 0) return {};
    const std::int64_t below = m / round * round;
    Error error = fail(ErrorCode::RuleBroken,
                       "{} at pp {} needs micro-batches in multiples of {} from {}: {} leaves {}",
                       toText(shape.kind), shape.pp, round, least, m, m % round);
    error.hint = below >= least ? fmt::format("legal near it: {}, {}", below, below + round)
                                : fmt::format("legal near it: {}", least);
    return error;
}

Status checkShape(const PipelineShape& shape, const ScheduleGenerator& row) {
    if (shape.pp < 1 || shape.vpp < 1 || shape.num_microbatches < 1)
        return fail(ErrorCode::RuleBroken,
                    "a schedule needs pp, vpp and micro-batches of at least 1, got pp {}, vpp {}, "
                    "{} micro-batches",
                    shape.pp, shape.vpp, shape.num_microbatches);
    PIPER_TRY(checkChunks(shape, row.chunks));
    switch (shape.kind) {
        case ScheduleKind::InterleavedOneF1B:
            return checkMicroBatches(shape, shape.pp, shape.pp);
        case ScheduleKind::DualPipe:
            if (shape.pp % 2 != 0)
                return fail(ErrorCode::RuleBroken,
                            "dualpipe runs two models against each other: pp is even, not {}; "
                            "legal near it: {}, {}",
                            shape.pp, shape.pp - 1, shape.pp + 1);
            return checkMicroBatches(shape, 2, 2 * shape.pp);
        case ScheduleKind::DualPipeV:
            return checkMicroBatches(shape, 1, 2 * shape.pp);
        default:
            return {};
    }
}

const ScheduleGenerator& generatorOf(ScheduleKind kind) {
    return *std::ranges::find(kGenerators, kind, &ScheduleGenerator::kind);
}

}  // namespace

SlotTimes SlotTimes::equal(const PipelineShape& shape, SeatTimes seat) {
    SlotTimes times;
    times.seats.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, shape.pp) *
                                                std::max<std::int64_t>(0, shape.chunks())),
                       seat);
    return times;
}

std::vector<ScheduleKind> generatedSchedules() {
    std::vector<ScheduleKind> kinds;
    for (const ScheduleGenerator& row : kGenerators) kinds.push_back(row.kind);
    return kinds;
}

Result<SlotTable> makeSlots(const PipelineShape& shape, const SlotTimes& times) {
    const ScheduleGenerator& row = generatorOf(shape.kind);
    PIPER_TRY(checkShape(shape, row));
    PIPER_CHECK(times.seats.size() == static_cast<std::size_t>(shape.pp * shape.chunks()));
    SlotTable table = row.make(shape);
    const bool equal =
        times.message_ns == 0 &&
        std::ranges::all_of(times.seats,
                            [](const SeatTimes& seat) {
                                return seat.forward_ns == seat.input_grad_ns &&
                                       seat.forward_ns == seat.weight_grad_ns;
                            }) &&
        std::ranges::adjacent_find(times.seats, std::not_equal_to<>()) == times.seats.end();
    // With equal times the fixed layout reaches the closed form; of zb_v from 2 pp micro-batches.
    const bool optimal =
        equal && (shape.kind != ScheduleKind::ZbV || shape.num_microbatches >= 2 * shape.pp);
    if (isZeroBubble(shape.kind) && !optimal)
        table = tuneZeroBubble(shape, times, std::move(table));
    if (isZeroBubble(shape.kind) || placementOf(shape.kind) != ChunkPlacement::Loop)
        labelPhases(table);
    return table;
}

Result<SlotTable> makeSlots(const PipelineShape& shape) {
    return makeSlots(shape, SlotTimes::equal(shape));
}

Result<SlotTable> makeSlots(ScheduleKind kind, std::int64_t pp, std::int64_t vpp,
                            std::int64_t num_microbatches) {
    return makeSlots({kind, pp, vpp, num_microbatches});
}

std::vector<std::int64_t> inFlight(const SlotTable& slots) {
    std::vector<std::int64_t> most(slots.size(), 0);
    for (std::size_t s = 0; s < slots.size(); ++s) {
        std::int64_t held = 0;
        for (const Slot& slot : slots[s]) {
            if (slot.kind == Slot::Kind::Forward) most[s] = std::max(most[s], ++held);
            if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::WeightGrad) --held;
        }
    }
    return most;
}

}  // namespace piper
