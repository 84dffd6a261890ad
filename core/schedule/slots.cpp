// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/schedule/schedule.h"

namespace piper {
namespace {

struct SlotShape {
    std::int64_t pp = 1, vpp = 1, num_microbatches = 1;
};

/// A new schedule is one such function and one row of kGenerators.
using Generator = Result<SlotTable> (*)(const SlotShape&);
struct ScheduleGenerator {
    ScheduleKind kind;
    Generator make;
};

Slot makeSlot(Slot::Kind kind, std::int64_t micro_batch, std::int64_t chunk, PipelinePhase phase) {
    return {kind, MicroBatchId(static_cast<std::int32_t>(micro_batch)),
            ModelChunkId(static_cast<std::int32_t>(chunk)), phase};
}

Status requireOneChunk(const SlotShape& shape, ScheduleKind kind) {
    if (shape.vpp == 1) return {};
    Error error = fail(ErrorCode::RuleBroken, "schedule {} needs vpp 1, the layout has vpp {}",
                       toText(kind), shape.vpp);
    error.hint = "set vpp=1 or choose interleaved_1f1b";
    return error;
}

Result<SlotTable> makeGPipe(const SlotShape& shape) {
    PIPER_TRY(requireOneChunk(shape, ScheduleKind::GPipe));
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

Result<SlotTable> makeOneF1B(const SlotShape& shape) {
    PIPER_TRY(requireOneChunk(shape, ScheduleKind::OneF1B));
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
Result<SlotTable> makeInterleaved(const SlotShape& shape) {
    if (shape.num_microbatches % shape.pp != 0) {
        const std::int64_t below = shape.num_microbatches / shape.pp * shape.pp;
        Error error = fail(ErrorCode::RuleBroken,
                           "interleaved_1f1b needs micro-batches in multiples of pp: {} over pp {} "
                           "leaves {}",
                           shape.num_microbatches, shape.pp, shape.num_microbatches - below);
        error.hint = below > 0 ? fmt::format("legal near it: {}, {}", below, below + shape.pp)
                               : fmt::format("legal near it: {}", shape.pp);
        return error;
    }
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
    ScheduleGenerator{ScheduleKind::GPipe, makeGPipe},
    ScheduleGenerator{ScheduleKind::OneF1B, makeOneF1B},
    ScheduleGenerator{ScheduleKind::InterleavedOneF1B, makeInterleaved},
};

}  // namespace

std::vector<ScheduleKind> generatedSchedules() {
    std::vector<ScheduleKind> kinds;
    for (const ScheduleGenerator& row : kGenerators) kinds.push_back(row.kind);
    return kinds;
}

Result<SlotTable> makeSlots(ScheduleKind kind, std::int64_t pp, std::int64_t vpp,
                            std::int64_t num_microbatches) {
    if (pp < 1 || vpp < 1 || num_microbatches < 1)
        return fail(ErrorCode::RuleBroken,
                    "a schedule needs pp, vpp and micro-batches of at least 1, got pp {}, vpp {}, "
                    "{} micro-batches",
                    pp, vpp, num_microbatches);
    for (const ScheduleGenerator& row : kGenerators)
        if (row.kind == kind) return row.make({pp, vpp, num_microbatches});
    std::string known;
    for (const ScheduleGenerator& row : kGenerators)
        known += (known.empty() ? "" : ", ") + std::string(toText(row.kind));
    Error error = fail(ErrorCode::Unsupported, "schedule {} is not generated", toText(kind));
    error.hint = "generated: " + known;
    return error;
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

double closedFormBubble(std::int64_t pp, std::int64_t num_microbatches) {
    return static_cast<double>(pp - 1) / static_cast<double>(num_microbatches + pp - 1);
}

}  // namespace piper
