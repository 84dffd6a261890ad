// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/resources/memory.h"
#include "core/schedule/lane_matrix.h"
#include "core/schedule/simulate.h"
#include "core/schedule/step_model.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using test::tinyPlan;
using testing::ElementsAre;

/// Two layers a stage at pp 2: short enough to write down.
Plan shortPlan() {
    Plan plan = tinyPlan(2, 2, 2, 2);
    plan.model.num_layers = 2;
    plan.model.layers.resize(2);
    return plan;
}

Schedule build(const Plan& plan) {
    Result<Schedule> schedule = buildSchedule(plan);
    EXPECT_TRUE(schedule.ok()) << (schedule.ok() ? "" : schedule.error().text());
    return std::move(schedule).value();
}

std::vector<std::string> texts(const StageProgram& program, std::int32_t micro_batch) {
    std::vector<std::string> out;
    for (const Operation& op : program.operations)
        if (op.micro_batch.value == micro_batch) {
            std::string text = describe(op);
            out.push_back(text.substr(0, text.find(" micro-batch")));
        }
    return out;
}

const Operation& find(const StageProgram& program, const OperationKey& key, std::int32_t chunk) {
    const auto at = std::ranges::find_if(program.operations, [&](const Operation& op) {
        return op.key == key && op.chunk.value == chunk;
    });
    EXPECT_NE(at, program.operations.end());
    return *at;
}

TEST(BuildSchedule, FirstAndLastStageInIssueOrder) {
    const Schedule schedule = build(shortPlan());
    EXPECT_THAT(
        texts(schedule.stages[0], 0),
        ElementsAre("forward embedding", "forward attention layer 0", "forward router layer 0",
                    "dispatch layer 0 chunk 0", "forward expert layer 0 chunk 0",
                    "combine layer 0 chunk 0", "send pp_comm", "receive pp_comm backward",
                    "combine backward layer 0 chunk 0", "input_grad expert layer 0 chunk 0",
                    "dispatch backward layer 0 chunk 0", "weight_grad expert layer 0 chunk 0",
                    "input_grad router layer 0", "weight_grad router layer 0",
                    "input_grad attention layer 0", "weight_grad attention layer 0",
                    "weight_grad embedding"));
    EXPECT_THAT(
        texts(schedule.stages[1], 1),
        ElementsAre("receive pp_comm", "forward attention layer 1", "forward router layer 1",
                    "dispatch layer 1 chunk 0", "forward expert layer 1 chunk 0",
                    "combine layer 1 chunk 0", "forward head_loss", "input_grad head_loss",
                    "weight_grad head_loss", "combine backward layer 1 chunk 0",
                    "input_grad expert layer 1 chunk 0", "dispatch backward layer 1 chunk 0",
                    "weight_grad expert layer 1 chunk 0", "input_grad router layer 1",
                    "weight_grad router layer 1", "input_grad attention layer 1",
                    "send pp_comm backward", "weight_grad attention layer 1"));
}

TEST(BuildSchedule, DependenciesPointBackAndCrossLanesOnly) {
    Plan plan = tinyPlan(2, 2, 2, 3);
    plan.all_to_all.chunks = 2;
    for (const StageProgram& program : build(plan).stages)
        for (std::size_t i = 0; i < program.operations.size(); ++i) {
            const Operation& op = program.operations[i];
            EXPECT_EQ(op.id, static_cast<std::int32_t>(i));
            for (std::int32_t id : op.dependencies) {
                EXPECT_GE(id, 0);
                EXPECT_LT(id, op.id) << describe(op);
                EXPECT_NE(program.operations[static_cast<std::size_t>(id)].lane, op.lane);
            }
        }
}

TEST(BuildSchedule, ChunksAreSentAheadOfTheExperts) {
    Plan plan = shortPlan();
    plan.all_to_all.chunks = 2;
    const StageProgram program = build(plan).stages[0];
    const OperationKey dispatch{OperationKind::Dispatch, Phase::Dispatch};
    const OperationKey expert{OperationKind::Forward, Phase::Expert};
    const OperationKey combine{OperationKind::Combine, Phase::Combine};
    for (std::int32_t c : {0, 1}) {
        EXPECT_THAT(find(program, expert, c).dependencies,
                    ElementsAre(find(program, dispatch, c).id));
        EXPECT_THAT(find(program, combine, c).dependencies,
                    ElementsAre(find(program, expert, c).id));
    }
    EXPECT_LT(find(program, dispatch, 1).id, find(program, expert, 0).id);
}

TEST(BuildSchedule, FullRecomputeRepeatsTheForwardWithItsExchanges) {
    Plan plan = shortPlan();
    const auto exchanges = [](const Schedule& schedule) {
        return std::ranges::count_if(schedule.stages[0].operations, [](const Operation& op) {
            return op.lane == Lane::Ep && op.micro_batch.value == 0;
        });
    };
    EXPECT_EQ(exchanges(build(plan)), 4);
    plan.recompute.granularity = RecomputeGranularity::Full;
    const Schedule again = build(plan);
    EXPECT_EQ(exchanges(again), 6);
    EXPECT_THAT(texts(again.stages[0], 0), testing::Contains("recompute attention layer 0"));
}

TEST(BuildSchedule, GradientsAreReducedByGroupBeforeTheOptimizer) {
    Plan plan = tinyPlan(1, 2, 4, 1);
    const auto tail = [](const Schedule& schedule) {
        std::vector<std::string> out;
        for (const Operation& op : schedule.stages[0].operations)
            if (!op.micro_batch.valid()) out.push_back(describe(op));
        return out;
    };
    EXPECT_THAT(tail(build(plan)), ElementsAre("all_reduce dp_comm backward",
                                               "all_reduce dp_comm backward", "optimizer"));
    plan.zero_stage = 1;
    EXPECT_THAT(
        tail(build(plan)),
        ElementsAre("reduce_scatter dp_comm backward", "reduce_scatter dp_comm backward",
                    "optimizer", "all_gather dp_comm backward", "all_gather dp_comm backward"));
    // The reduction waits for the last weight gradient.
    const Schedule schedule = build(plan);
    const auto& ops = schedule.stages[0].operations;
    const auto reduce = std::ranges::find(ops, OperationKind::ReduceScatter,
                                          [](const Operation& op) { return op.key.kind; });
    ASSERT_EQ(reduce->dependencies.size(), 1u);
    EXPECT_EQ(describe(ops[static_cast<std::size_t>(reduce->dependencies[0])]),
              "weight_grad embedding micro-batch 0");
}

TEST(BuildSchedule, FlopsOfAllRanksAreTheModels) {
    Plan plan = tinyPlan(2, 2, 2, 4);
    double sum = 0.0;
    for (const StageProgram& program : build(plan).stages)
        for (const Operation& op : program.operations)
            sum += op.flops.value * static_cast<double>(plan.layout.dp);
    const double tokens = static_cast<double>(plan.global_batch_size * plan.seq_len);
    const double model = modelFlopsPerToken(plan.model, plan.seq_len).total().value * tokens;
    // Attention's backward is counted 2.5 times its forward on a device, twice in the model.
    EXPECT_GE(sum, model);
    EXPECT_LT(sum, 1.1 * model);
}

class Memory : public testing::TestWithParam<Recompute> {};

TEST_P(Memory, WhatComesGoesAndThePeakIsTheTables) {
    Plan plan = tinyPlan(4, 2, 2, 8);
    plan.recompute = GetParam();
    const Schedule schedule = build(plan);
    for (const StageProgram& program : schedule.stages) {
        std::array<double, kNumMemoryTerms> held{};
        for (const MemoryChange& change : program.memory) {
            held[static_cast<std::size_t>(change.term)] += change.delta.value;
            EXPECT_GE(held[static_cast<std::size_t>(change.term)], -1e-3);
        }
        for (double bytes : held) EXPECT_NEAR(bytes, 0.0, 1e-3);
    }
    const Simulation simulation = simulate(plan, schedule, CostModel(plan)).value();
    const std::vector<StageMemory> table = stageMemory(plan);
    for (std::size_t s = 0; s < table.size(); ++s)
        // The table counts a message on its way, and a recomputed layer's input twice.
        EXPECT_NEAR(simulation.stages[s].peak / table[s].peak, 1.0, 0.05) << "stage " << s;
}

INSTANTIATE_TEST_SUITE_P(
    Recompute, Memory,
    testing::Values(Recompute{}, Recompute{RecomputeGranularity::Full, 0, {}},
                    Recompute{RecomputeGranularity::Full, 1, {}},
                    Recompute{RecomputeGranularity::Selective, 0, {"moe_act", "core_attn"}}));

Plan planOf(ScheduleKind kind, std::int64_t pp, std::int64_t micro_batches) {
    Plan plan = tinyPlan(pp, 2, 2, micro_batches);
    plan.schedule = kind;
    if (placementOf(kind) == ChunkPlacement::V || kind == ScheduleKind::InterleavedOneF1B)
        plan.layout.vpp = 2;
    return plan;
}

TEST(BuildSchedule, EveryKindGivesBackWhatItTakes) {
    for (const ScheduleKind kind : generatedSchedules()) {
        const Schedule schedule = build(planOf(kind, 2, 6));
        for (const StageProgram& stage : schedule.stages) {
            double held = 0.0;
            for (const MemoryChange& change : stage.memory) held += change.delta.value;
            EXPECT_NEAR(held, 0.0, 1.0) << toText(kind) << " stage " << stage.stage.value;
        }
    }
}

TEST(BuildSchedule, DualPipeHoldsBothEndsOfTheModelTwice) {
    const Schedule one = build(planOf(ScheduleKind::OneF1B, 4, 8));
    const Schedule two = build(planOf(ScheduleKind::DualPipe, 4, 8));
    for (const MemoryTerm term : {MemoryTerm::Weights, MemoryTerm::OptimizerState}) {
        const auto of = [term](const Schedule& schedule, std::size_t stage) {
            return schedule.stages[stage].persistent[static_cast<std::size_t>(term)].value;
        };
        for (std::size_t s = 0; s < 4; ++s)
            EXPECT_DOUBLE_EQ(of(two, s), of(one, s) + of(one, 3 - s));
    }
    // And reduces its gradients over both: the mirror rank is a replica.
    const auto last = std::ranges::find_if(two.stages[0].operations, [](const Operation& op) {
        return op.key.phase == Phase::DpComm && op.key.layer == LayerKind::Dense;
    });
    ASSERT_NE(last, two.stages[0].operations.end());
    EXPECT_GT(last->bytes.value, 0.0);
}

TEST(BuildSchedule, AFoldHandsOverWithoutALane) {
    const Schedule schedule = build(planOf(ScheduleKind::ZbV, 2, 6));
    int handed = 0;
    for (const Operation& op : schedule.stages[1].operations) {
        if (op.peer != StageId(1)) continue;
        EXPECT_TRUE(isHandOver(op)) << describe(op);
        EXPECT_EQ(op.bytes.value, 0.0);
        ++handed;
    }
    EXPECT_EQ(handed, 6 * 4) << "a send and a receive of each micro-batch and direction";
    for (const Operation& op : schedule.stages[0].operations) EXPECT_FALSE(isHandOver(op));
}

TEST(PairedSlots, EitherSideComputesWhileTheOtherExchanges) {
    const Plan plan = planOf(ScheduleKind::DualPipeV, 2, 6);
    WorkTable work(plan);
    const StageExpander expander(work, StageId(0));
    const SlotForm forward{Slot::Kind::Forward, ModelChunkId(0), false, Slot::Kind::Forward,
                           ModelChunkId()};
    const SlotForm backward{Slot::Kind::Backward, ModelChunkId(1), false, Slot::Kind::Forward,
                            ModelChunkId()};
    SlotForm both = forward;
    both.paired = true;
    both.second_kind = backward.kind;
    both.second_chunk = backward.chunk;
    const SlotTemplate a = expander.slot(forward), b = expander.slot(backward);
    const SlotTemplate pair = expander.slot(both);
    ASSERT_EQ(pair.operations.size(), a.operations.size() + b.operations.size());
    EXPECT_EQ(pair.memory.size(), a.memory.size() + b.memory.size());
    std::vector<std::int64_t> durations[3];
    const SlotTemplate* slots[] = {&a, &b, &pair};
    for (int i = 0; i < 3; ++i)  // exchanges as long as compute
        for (const Operation& op : slots[i]->operations)
            durations[i].push_back(op.lane == Lane::Compute || op.lane == Lane::Ep ? 100 : 0);
    const std::int64_t apart =
        isolatedTimes(a, durations[0]).span_ns + isolatedTimes(b, durations[1]).span_ns;
    const std::int64_t together = isolatedTimes(pair, durations[2]).span_ns;
    std::int64_t compute = 0;
    for (const Operation& op : pair.operations)
        if (op.lane == Lane::Compute) compute += 100;
    EXPECT_LT(together, apart);
    EXPECT_LT(together - compute, (apart - compute) / 2) << "most of the exchanges are hidden";
    // Either side keeps its own order.
    for (const std::size_t member : {0U, 1U}) {
        std::vector<std::string> own, alone;
        for (const Operation& op : pair.operations)
            if (memberOf(op) == member) own.push_back(std::string(toText(op.key.phase)));
        for (const Operation& op : slots[member]->operations)
            alone.push_back(std::string(toText(op.key.phase)));
        EXPECT_EQ(own, alone);
    }
}

TEST(StepModel, AgreesWithTheOperationsToTheNanosecond) {
    std::vector<Plan> plans = {tinyPlan(1, 2, 4, 3), tinyPlan(2, 2, 2, 5), tinyPlan(4, 2, 2, 8),
                               tinyPlan(4, 1, 2, 2)};
    for (std::size_t i = 0, n = plans.size(); i < n; ++i) {
        Plan plan = plans[i];
        plan.all_to_all.chunks = 2;
        plans.push_back(plan);
        plan.recompute.granularity = RecomputeGranularity::Full;
        plan.zero_stage = 1;
        plan.schedule = ScheduleKind::GPipe;
        plans.push_back(plan);
    }
    Plan interleaved = tinyPlan(2, 2, 2, 4);
    interleaved.layout.vpp = 2;
    interleaved.schedule = ScheduleKind::InterleavedOneF1B;
    plans.push_back(interleaved);
    for (const ScheduleKind kind : generatedSchedules()) plans.push_back(planOf(kind, 2, 6));
    plans.push_back(planOf(ScheduleKind::DualPipe, 4, 10));
    plans.push_back(planOf(ScheduleKind::ZbH1, 4, 9));
    Plan dense = test::h100Plan("configs/DeepSeek-V2-Lite.json", 2, 1024, 16);
    dense.layout = {2, true, 1, 3, 1, 2, 1, 2};
    plans.push_back(dense);
    for (std::size_t i = 0, n = plans.size(); i < n; ++i) {
        Plan plan = plans[i];
        plan.overlap = Overlap{true, true, true, false, true, true};
        plans.push_back(plan);
    }
    for (const Plan& plan : plans) {
        const CostModel cost(plan);
        const Simulation played = simulate(plan, build(plan), cost).value();
        const StepEstimate estimate = StepModel::make(plan, cost).value().estimate().value();
        EXPECT_EQ(estimate.step_ns, played.step_ns)
            << toText(plan.schedule) << " pp " << plan.layout.pp << " chunks "
            << plan.all_to_all.chunks;
        for (std::size_t s = 0; s < played.stages.size(); ++s) {
            EXPECT_EQ(estimate.stages[s].busy_compute_ns, played.stages[s].busy_compute_ns);
            // In the order of issue, not of time: lanes that overlap hold a little more.
            EXPECT_NEAR(estimate.stages[s].peak / played.stages[s].peak, 1.0, 0.05);
        }
    }
}

TEST(SimulatedRun, HasEveryRankOrTheFirstOfEachStage) {
    const Plan plan = tinyPlan(2, 2, 2, 2);
    const Schedule schedule = build(plan);
    const Simulation simulation = simulate(plan, schedule, CostModel(plan)).value();
    const piper::Run every = simulatedRun(plan, schedule, simulation, true, 2);
    EXPECT_EQ(every.ranks.size(), 4u);
    EXPECT_EQ(every.kind, RunKind::Modelled);
    const piper::Run first = simulatedRun(plan, schedule, simulation, false);
    ASSERT_EQ(first.ranks.size(), 2u);
    EXPECT_EQ(first.ranks[0].rank, RankId(0));
    EXPECT_EQ(first.ranks[1].rank, RankId(2));
    EXPECT_EQ(first.ranks[1].stage, StageId(1));
    for (const RankTimeline& rank : every.ranks) {
        ASSERT_EQ(rank.steps.size(), 2u);
        EXPECT_EQ(rank.steps[1].end_ns, 2 * simulation.step_ns);
        EXPECT_TRUE(std::isnan(rank.steps[0].loss));
        EXPECT_EQ(rank.steps[0].tokens, plan.global_batch_size * plan.seq_len);
        EXPECT_EQ(rank.events.size(), 2 * schedule.stages[rank.stage.index()].operations.size());
        EXPECT_TRUE(std::ranges::is_sorted(rank.events, {}, &Event::start_ns));
        EXPECT_LE(rank.events.back().end_ns(), 2 * simulation.step_ns);
    }
    // The samples' own peak is the simulation's.
    std::array<std::int64_t, kNumMemoryTerms> held{};
    std::int64_t total = 0, peak = 0;
    for (const MemorySample& sample : first.ranks[0].memory) {
        std::int64_t& term = held[static_cast<std::size_t>(sample.term)];
        total += sample.bytes - term;
        term = sample.bytes;
        peak = std::max(peak, total);
    }
    EXPECT_NEAR(static_cast<double>(peak), simulation.stages[0].peak.value, 64.0);
}

}  // namespace
}  // namespace piper
