// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>

#include "core/cost/cost.h"
#include "core/plan/pipeline_shape.h"
#include "core/plan/validated.h"
#include "core/resources/memory.h"
#include "core/schedule/chunk_split.h"
#include "core/schedule/lane_matrix.h"

// Concept: a layer is what a stage of two has more than a stage of one; the embedding and the head
// are what is left of the outer stages then. So the pieces come from the very slots and tables that
// a step is made of, with all their exchanges and overlaps.

namespace piper {
namespace {

/// The plan with two stages of `layers` layers of one kind.
Plan probePlan(const Plan& plan, LayerKind kind, std::int64_t layers) {
    Plan probe = plan;
    probe.schedule = ScheduleKind::OneF1B;
    probe.layout.pp = 2;
    probe.layout.vpp = 1;
    probe.stage_layers.clear();
    probe.model.num_layers = 2 * layers;
    probe.model.layers.assign(static_cast<std::size_t>(2 * layers), kind);
    return probe;
}

/// Seconds of the forward and backward slot of a stage on its own, and its bytes at rest.
struct StageProbe {
    Seconds time;
    Bytes persistent;
};

StageProbe probe(const Plan& plan, StageId stage) {
    WorkTable work(plan);
    const CostModel cost(plan);
    StageProbe out;
    for (const Slot::Kind kind : {Slot::Kind::Forward, Slot::Kind::Backward}) {
        const SlotTemplate slot =
            StageExpander(work, stage)
                .slot({kind, ModelChunkId(0), false, Slot::Kind::Forward, ModelChunkId()});
        std::vector<std::int64_t> durations;
        for (const Operation& op : slot.operations)
            durations.push_back(inNs(cost.operation(work.of(op.key, stage), op.key.phase).time));
        out.time += Seconds(static_cast<double>(isolatedTimes(slot, durations).span_ns) * 1e-9);
    }
    out.persistent = sumOf(persistentMemory(plan, stage));
    return out;
}

/// What the pieces keep without being recomputed as a whole: selective recompute is part of them.
Recompute keptRecompute(const Plan& plan) {
    return plan.recompute.granularity == RecomputeGranularity::Selective ? plan.recompute
                                                                         : Recompute{};
}

SplitPiece layerPiece(const Plan& plan, LayerKind kind) {
    Plan keep = plan, again = plan;
    keep.recompute = keptRecompute(plan);
    again.recompute = {};
    again.recompute.granularity = RecomputeGranularity::Full;
    const Plan one = probePlan(keep, kind, 1), two = probePlan(keep, kind, 2);
    const StageProbe small = probe(one, StageId(0)), large = probe(two, StageId(0));
    SplitPiece piece;
    piece.time = large.time - small.time;
    piece.persistent = large.persistent - small.persistent;
    const Seconds with_recompute = probe(probePlan(again, kind, 2), StageId(0)).time -
                                   probe(probePlan(again, kind, 1), StageId(0)).time;
    piece.recompute = with_recompute - piece.time;
    const double imbalance =
        plan.model.moe && kind == LayerKind::Moe ? routingImbalance(plan, LayerId(0)) : 1.0;
    piece.kept = sumOf(layerActivations(keep, kind, imbalance));
    piece.kept_recomputed = sumOf(layerCheckpoint(again));
    piece.transient = sumOf(layerTransients(keep, kind, imbalance));
    return piece;
}

/// The embedding (stage 0) or the head (stage 1) of a plan whose layers are like `layer`.
SplitPiece endPiece(const Plan& plan, LayerKind kind, const SplitPiece& layer, StageId stage) {
    Plan keep = plan;
    keep.recompute = keptRecompute(plan);
    const StageProbe stage_of_one = probe(probePlan(keep, kind, 1), stage);
    SplitPiece piece;
    piece.time = stage_of_one.time - layer.time;
    piece.persistent = stage_of_one.persistent - layer.persistent;
    const bool head = stage.value == 1;
    piece.kept = sumOf(head ? headActivations(plan) : embeddingActivations(plan));
    if (head) piece.kept += layer.kept * static_cast<double>(plan.model.mtp_num_layers);
    if (head) piece.transient = sumOf(headTransients(plan));
    return piece;
}

/// Layers, embedding and head of a plan.
struct Pieces {
    std::vector<SplitPiece> layers;
    SplitPiece embedding, head;
};

Pieces piecesOf(const Plan& plan) {
    Pieces out;
    std::map<LayerKind, SplitPiece> pieces;
    for (const LayerKind kind : plan.model.layers) {
        const auto [at, added] = pieces.try_emplace(kind);
        if (added) at->second = layerPiece(plan, kind);
        out.layers.push_back(at->second);
    }
    const LayerKind first = plan.model.layers.front(), last = plan.model.layers.back();
    out.embedding = endPiece(plan, first, pieces[first], StageId(0));
    out.head = endPiece(plan, last, pieces[last], StageId(1));
    return out;
}

/// Micro-batches that a rank holds by chunk, at the moments that none other covers.
std::vector<std::vector<std::int64_t>> heldMoments(const std::vector<Slot>& row,
                                                   std::size_t chunks) {
    std::vector<std::vector<std::int64_t>> most;
    std::vector<std::int64_t> held(chunks, 0);
    const auto covers = [](const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
        return std::ranges::equal(a, b, std::greater_equal<>());
    };
    for (const Slot& slot : row) {
        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::WeightGrad)
            --held[slot.model_chunk.index()];
        if (slot.kind != Slot::Kind::Forward) continue;
        ++held[slot.model_chunk.index()];
        if (std::ranges::any_of(most, [&](const auto& moment) { return covers(moment, held); }))
            continue;
        std::erase_if(most, [&](const auto& moment) { return covers(held, moment); });
        most.push_back(held);
    }
    return most;
}

/// Bytes of a device for what the allocator hands out.
Bytes allocatorCapacity(const Plan& plan) {
    const DeviceReserve reserve = deviceReserve(plan);
    const Bytes outside = reserve.total(Bytes(0.0));
    return (plan.cluster.device.memory - outside) / (1.0 + reserve.allocator_slack);
}

/// What the plan's own recompute leaves open: none, its blocks, or every number of layers.
void setRecompute(ChunkSplitProblem& problem, const Plan& plan) {
    const Recompute& r = plan.recompute;
    if (r.granularity == RecomputeGranularity::Selective) return;
    problem.most_recompute = plan.model.num_layers;
    if (r.granularity == RecomputeGranularity::None) return;
    if (r.method == RecomputeMethod::Block && r.num_layers > 0)
        problem.most_recompute = r.num_layers;
    problem.least_recompute = problem.most_recompute;
}

}  // namespace

Result<SplitProblem> splitProblem(const Plan& plan, Bytes capacity) {
    const PipelineShape shape = pipelineShape(plan);
    if (shape.chunks() != 1)
        return fail(ErrorCode::Unsupported,
                    "{} with {} model chunks a rank: this split is of one; splitChunks takes "
                    "several",
                    toText(plan.schedule), shape.chunks());
    SplitProblem problem;
    Pieces pieces = piecesOf(plan);
    problem.layers = std::move(pieces.layers);
    problem.embedding = pieces.embedding;
    problem.head = pieces.head;
    for (std::size_t s = 0; s < static_cast<std::size_t>(plan.layout.pp); ++s)
        problem.in_flight.push_back(inFlightBound(shape, StageId(s)));
    problem.capacity = capacity;
    problem.recompute = SplitRecompute::First;
    return problem;
}

Result<ChunkSplitProblem> chunkSplitProblem(const Plan& plan) {
    ChunkSplitProblem problem;
    problem.shape = pipelineShape(plan);
    PIPER_ASSIGN(const SlotTable slots, makeSlots(problem.shape));
    for (const std::vector<Slot>& row : slots)
        problem.in_flight.push_back(
            heldMoments(row, static_cast<std::size_t>(problem.shape.chunks())));
    Pieces pieces = piecesOf(plan);
    problem.layers = std::move(pieces.layers);
    problem.embedding = pieces.embedding;
    problem.head = pieces.head;
    problem.capacity = allocatorCapacity(plan);
    setRecompute(problem, plan);
    return problem;
}

Result<BalancedPlan> balancedPlan(const Plan& plan) {
    BalancedPlan out{plan, {}};
    const std::int64_t positions = plan.layout.pp * plan.layout.vpp;
    if (plan.stage_layers.empty() && positions > 0)
        out.plan.stage_layers = balancedStageLayers(plan.model.num_layers, positions);
    PIPER_TRY(validated(out.plan));
    PIPER_ASSIGN(const ChunkSplitProblem problem, chunkSplitProblem(plan));
    PIPER_ASSIGN(out.split, splitChunks(problem));
    out.plan.stage_layers = out.split.stage_layers;
    if (out.split.recompute_layers > 0 &&
        plan.recompute.granularity == RecomputeGranularity::None) {
        out.plan.recompute.granularity = RecomputeGranularity::Full;
        out.plan.recompute.num_layers = out.split.recompute_layers;
    }
    PIPER_TRY(validated(out.plan));
    return out;
}

}  // namespace piper
