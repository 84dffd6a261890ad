// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <tuple>

#include "core/base/json.h"
#include "core/schedule/simulate.h"

namespace piper {
namespace {

Event eventOf(const Operation& op, std::int64_t start, std::int64_t end) {
    Event event;
    event.start_ns = start;
    event.duration_ns = end - start;
    event.kind = op.key.kind;
    event.phase = op.key.phase;
    event.pass = op.key.pass;
    event.pipeline_phase = op.pipeline_phase;
    event.lane = op.lane;
    event.layer = op.layer;
    event.micro_batch = op.micro_batch;
    event.chunk = op.chunk;
    event.model_chunk = op.model_chunk;
    event.operation = op.id;
    // A receive hands nothing to the transport.
    if (op.key.kind != OperationKind::Receive)
        event.bytes = static_cast<std::int64_t>(op.bytes.value + 0.5);
    event.flops = op.flops.value;
    return event;
}

/// Bytes held of each term after every change, in time.
std::vector<MemorySample> memoryOver(const StageProgram& program, const SimulatedStage& stage) {
    struct Timed {
        std::int64_t time;
        const MemoryChange* change;
    };
    std::vector<Timed> changes;
    for (const MemoryChange& change : program.memory) {
        const auto i = static_cast<std::size_t>(change.operation);
        changes.push_back({change.at_end ? stage.end_ns[i] : stage.start_ns[i], &change});
    }
    std::ranges::sort(changes, [](const Timed& a, const Timed& b) {
        return std::tuple(a.time, a.change->operation, a.change->at_end) <
               std::tuple(b.time, b.change->operation, b.change->at_end);
    });
    std::vector<MemorySample> samples;
    std::array<double, kNumMemoryTerms> held{};
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
        held[t] = program.persistent[t].value;
        if (held[t] > 0.0)
            samples.push_back(
                {0, static_cast<MemoryTerm>(t), static_cast<std::int64_t>(held[t] + 0.5)});
    }
    for (const Timed& timed : changes) {
        double& bytes = held[static_cast<std::size_t>(timed.change->term)];
        bytes += timed.change->delta.value;
        samples.push_back({timed.time, timed.change->term,
                           static_cast<std::int64_t>(std::max(0.0, bytes) + 0.5)});
    }
    return samples;
}

/// One step of one stage, from time 0.
RankTimeline stageTimeline(const StageProgram& program, const SimulatedStage& stage) {
    RankTimeline timeline;
    timeline.stage = program.stage;
    for (std::size_t i = 0; i < program.operations.size(); ++i)
        timeline.events.push_back(
            eventOf(program.operations[i], stage.start_ns[i], stage.end_ns[i]));
    std::ranges::stable_sort(timeline.events, {}, &Event::start_ns);
    timeline.memory = memoryOver(program, stage);
    return timeline;
}

RankTimeline repeated(const RankTimeline& one, std::int64_t step_ns, int steps,
                      std::int64_t tokens) {
    RankTimeline all;
    all.stage = one.stage;
    for (std::int32_t step = 0; step < steps; ++step) {
        const std::int64_t offset = step * step_ns;
        for (Event event : one.events) {
            event.start_ns += offset;
            event.step = step;
            all.events.push_back(event);
        }
        for (MemorySample sample : one.memory) {
            sample.time_ns += offset;
            all.memory.push_back(sample);
        }
        constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
        all.steps.push_back({step, offset, offset + step_ns, kNone, kNone, tokens});
    }
    return all;
}

}  // namespace

Run simulatedRun(const Plan& plan, const Schedule& schedule, const Simulation& simulation,
                 bool every_rank, int steps) {
    Run run;
    run.name = "modelled";
    run.kind = RunKind::Modelled;
    run.plan_json = writePlan(plan).dump();
    std::vector<RankTimeline> stages;
    for (std::size_t s = 0; s < schedule.stages.size(); ++s)
        stages.push_back(repeated(stageTimeline(schedule.stages[s], simulation.stages[s]),
                                  simulation.step_ns, steps,
                                  plan.global_batch_size * plan.seq_len));
    const ProcessGrid grid(plan.layout, plan.rank_order);
    std::vector<bool> seen(stages.size(), false);
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(grid.world()); ++r) {
        const auto stage = static_cast<std::size_t>(grid.coordinates(RankId(r)).pp);
        if (seen[stage] && !every_rank) continue;
        seen[stage] = true;
        run.ranks.push_back(stages[stage]);
        run.ranks.back().rank = RankId(r);
    }
    return run;
}

}  // namespace piper
