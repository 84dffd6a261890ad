// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/stage_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/schedule/step_model.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SplitPiece piece(double time, double persistent, double kept) {
    return {Seconds(time), Seconds(time / 3.0), Bytes(persistent),
            Bytes(kept),   Bytes(kept / 8.0),   Bytes(kept / 4.0)};
}

SplitProblem uniform(std::size_t layers, std::int64_t stages) {
    SplitProblem problem;
    problem.layers.assign(layers, piece(3.0, 10.0, 8.0));
    for (std::int64_t s = 0; s < stages; ++s) problem.in_flight.push_back(stages - s);
    problem.capacity = Bytes(1e9);
    return problem;
}

/// Time and bytes of a stage with these layers recomputed, written down again from the header.
std::pair<double, double> stageOf(const SplitProblem& p, std::size_t stage, std::size_t begin,
                                  std::size_t end, unsigned again) {
    double time = 0.0, persistent = 0.0, kept = 0.0, transient = 0.0;
    const auto fixed = [&](const SplitPiece& piece) {
        time += piece.time.value;
        persistent += piece.persistent.value;
        kept += piece.kept.value;
        transient = std::max(transient, piece.transient.value);
    };
    if (stage == 0) fixed(p.embedding);
    if (stage + 1 == p.in_flight.size()) fixed(p.head);
    for (std::size_t l = begin; l < end; ++l) {
        const SplitPiece& layer = p.layers[l];
        if ((again >> (l - begin) & 1U) == 0U) {
            fixed(layer);
            continue;
        }
        time += layer.time.value + layer.recompute.value;
        persistent += layer.persistent.value;
        kept += layer.kept_recomputed.value;
        transient = std::max(
            transient, layer.transient.value + layer.kept.value - layer.kept_recomputed.value);
    }
    return {time, persistent + static_cast<double>(p.in_flight[stage]) * kept + transient};
}

/// The least slowest stage (and, of those, the least sum) over every split and every set.
std::pair<double, double> bruteForce(const SplitProblem& p, std::size_t stage, std::size_t begin) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    if (stage == p.in_flight.size())
        return begin == p.layers.size() ? std::pair(0.0, 0.0) : std::pair(kInfinite, kInfinite);
    std::pair<double, double> best(kInfinite, kInfinite);
    const auto least = static_cast<std::size_t>(p.least_layers);
    for (std::size_t end = begin + least; end <= p.layers.size(); ++end) {
        double time = kInfinite;
        const std::size_t n = end - begin;
        for (unsigned again = 0; again < (1U << n); ++again) {
            const bool prefix = (again & (again + 1)) == 0;
            if (p.recompute == SplitRecompute::None && again != 0) continue;
            if (p.recompute == SplitRecompute::First && !prefix) continue;
            const auto [t, memory] = stageOf(p, stage, begin, end, again);
            if (memory <= p.capacity.value) time = std::min(time, t);
        }
        if (time == kInfinite) continue;
        const auto rest = bruteForce(p, stage + 1, end);
        best = std::min(best, std::pair(std::max(time, rest.first), time + rest.second));
    }
    return best;
}

TEST(StageSplit, IsTheBestOfAllSplitsAndAllSets) {
    std::mt19937 random(7);
    const auto pick = [&random](int from, int to) {
        return static_cast<double>(std::uniform_int_distribution(from, to)(random));
    };
    int solved = 0, refused = 0, recomputed = 0;
    for (int trial = 0; trial < 400; ++trial) {
        SplitProblem p;
        const SplitPiece dense = piece(pick(2, 9), pick(4, 20), pick(4, 16));
        const SplitPiece moe = piece(pick(2, 9), pick(10, 60), pick(8, 40));
        const auto layers = static_cast<int>(pick(2, 7));
        for (int l = 0; l < layers; ++l)
            p.layers.push_back(trial % 3 == 0 ? piece(pick(1, 9), pick(1, 40), pick(1, 40))
                                              : (pick(0, 3) < 1 ? dense : moe));
        p.embedding = piece(pick(0, 4), pick(0, 30), pick(0, 3));
        p.head = piece(pick(0, 8), pick(0, 30), pick(0, 20));
        const auto stages = static_cast<int>(pick(1, std::min(layers, 4)));
        for (int s = 0; s < stages; ++s) p.in_flight.push_back(stages - s);
        p.capacity = Bytes(pick(60, 400));
        p.least_layers = trial % 2;
        p.recompute = static_cast<SplitRecompute>(trial % 3);
        const auto [slowest, total] = bruteForce(p, 0, 0);
        const Result<StageSplit> split = splitStages(p);
        ASSERT_EQ(split.ok(), slowest < 1e18) << trial;
        if (!split.ok()) {
            ++refused;
            continue;
        }
        ++solved;
        EXPECT_NEAR(split->slowest().value, slowest, 1e-9) << trial;
        double sum = 0.0;
        std::size_t begin = 0;
        for (std::size_t s = 0; s < p.in_flight.size(); ++s) {
            const auto end = begin + static_cast<std::size_t>(split->stage_layers[s]);
            unsigned again = 0;
            for (const LayerId layer : split->recomputed[s]) again |= 1U << (layer.index() - begin);
            const auto [time, memory] = stageOf(p, s, begin, end, again);
            EXPECT_NEAR(time, split->time[s].value, 1e-9);
            EXPECT_NEAR(memory, split->memory[s].value, 1e-9);
            EXPECT_LE(memory, p.capacity.value);
            sum += time;
            recomputed += again != 0 ? 1 : 0;
            begin = end;
        }
        EXPECT_EQ(begin, p.layers.size());
        EXPECT_NEAR(sum, total, 1e-9) << trial;
    }
    EXPECT_GT(solved, 100);
    EXPECT_GT(refused, 20);
    EXPECT_GT(recomputed, 20) << "the memory limit must matter in some";
}

TEST(StageSplit, HeavyEndsGetFewerLayers) {
    SplitProblem problem = uniform(16, 4);
    problem.embedding = piece(3.0, 0.0, 0.0);
    problem.head = piece(6.0, 0.0, 0.0);
    // 57 over 4 leaves no stage above five layers: the first has room for 4, the last for 3.
    const StageSplit split = splitStages(problem).value();
    EXPECT_DOUBLE_EQ(split.slowest().value, 15.0);
    EXPECT_LE(split.stage_layers.front(), 4);
    EXPECT_LE(split.stage_layers.back(), 3);
}

TEST(StageSplit, RecomputesOnlyWhereMemoryIsShort) {
    SplitProblem problem = uniform(8, 2);
    // Stage 0 holds two micro-batches: 40 + 2 * 32 + 2 at rest, stage 1 one.
    problem.capacity = Bytes(95);
    const StageSplit split = splitStages(problem).value();
    EXPECT_THAT(split.stage_layers, ElementsAre(4, 4));
    EXPECT_EQ(split.recomputed[0].size(), 2U);
    EXPECT_TRUE(split.recomputed[1].empty());
    problem.recompute = SplitRecompute::None;
    EXPECT_THAT(splitStages(problem)->stage_layers, ElementsAre(3, 5));
}

TEST(StageSplit, SaysWhatCapacityWouldDo) {
    SplitProblem problem = uniform(8, 2);
    problem.capacity = gib(0.25);
    for (SplitPiece& layer : problem.layers) layer.persistent = gib(0.1);
    const Result<StageSplit> split = splitStages(problem);
    ASSERT_FALSE(split.ok());
    EXPECT_THAT(split.error().text(), HasSubstr("no split of 8 layers over 2 stages fits 0.250"));
    EXPECT_THAT(split.error().text(), HasSubstr("needs 0.400 GiB"));
    problem.in_flight.assign(9, 1);
    EXPECT_THAT(splitStages(problem).error().text(), HasSubstr("legal pp: up to 8"));
}

TEST(SplitProblem, PiecesAddUpToTheStepsOwnStages) {
    Plan plan = test::tinyPlan(2, 2, 2, 2);
    const SplitProblem problem = splitProblem(plan, gib(80)).value();
    ASSERT_EQ(problem.layers.size(), static_cast<std::size_t>(plan.model.num_layers));
    const CostModel cost(plan);
    const StepEstimate step = StepModel::make(plan, cost)->estimate().value();
    const StageSplit split = splitStages(problem).value();
    // The plan's own split is even; the pieces of its first stage are its slots.
    const auto m = static_cast<double>(plan.numMicroBatches());
    double first = problem.embedding.time.value;
    for (std::int64_t l = 0; l < stageLayers(plan, StageId(0), ModelChunkId(0)).size(); ++l)
        first += problem.layers[static_cast<std::size_t>(l)].time.value;
    const StageEstimate& stage = step.stages[0];
    const double slots = static_cast<double>(stage.span_ns) * 1e-9;
    EXPECT_LT(first * m, slots) << "the end of the step comes besides";
    EXPECT_GT(first * m, 0.5 * slots);
    EXPECT_LE(split.slowest().value, first + 1e-9 + problem.head.time.value);
    plan.layout.vpp = 2;
    plan.schedule = ScheduleKind::InterleavedOneF1B;
    EXPECT_FALSE(splitProblem(plan, gib(80)).ok());
}

}  // namespace
}  // namespace piper
