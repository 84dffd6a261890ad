// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/cost/cost.h"
#include "core/plan/pipeline_shape.h"
#include "core/resources/memory.h"
#include "core/schedule/lane_matrix.h"
#include "core/schedule/stage_split.h"

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

SplitPiece layerPiece(const Plan& plan, LayerKind kind) {
    Plan keep = plan, again = plan;
    keep.recompute = {};
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
    keep.recompute = {};
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

}  // namespace

Result<SplitProblem> splitProblem(const Plan& plan, Bytes capacity) {
    const PipelineShape shape = pipelineShape(plan);
    if (shape.chunks() != 1)
        return fail(ErrorCode::Unsupported,
                    "{} with {} model chunks a rank: the split is solved for one; leave "
                    "stage_layers out or set vpp=1",
                    toText(plan.schedule), shape.chunks());
    SplitProblem problem;
    std::map<LayerKind, SplitPiece> pieces;
    for (const LayerKind kind : plan.model.layers) {
        const auto [at, added] = pieces.try_emplace(kind);
        if (added) at->second = layerPiece(plan, kind);
        problem.layers.push_back(at->second);
    }
    const LayerKind first = plan.model.layers.front(), last = plan.model.layers.back();
    problem.embedding = endPiece(plan, first, pieces[first], StageId(0));
    problem.head = endPiece(plan, last, pieces[last], StageId(1));
    for (std::size_t s = 0; s < static_cast<std::size_t>(plan.layout.pp); ++s)
        problem.in_flight.push_back(inFlightBound(shape, StageId(s)));
    problem.capacity = capacity;
    problem.recompute = SplitRecompute::First;
    return problem;
}

}  // namespace piper
