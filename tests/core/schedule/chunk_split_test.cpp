// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/chunk_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "core/schedule/step_model.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::HasSubstr;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

SplitPiece piece(double time, double persistent, double kept) {
    return {Seconds(time), Seconds(time / 3.0), Bytes(persistent),
            Bytes(kept),   Bytes(kept / 8.0),   Bytes(kept / 4.0)};
}

/// Slowest rank and slowest chunk of one split, written down again from the header; infinite where
/// it does not fit.
std::pair<double, double> valueOf(const ChunkSplitProblem& p,
                                  const std::vector<std::int64_t>& split, std::int64_t again) {
    double slowest_rank = 0.0, slowest_chunk = 0.0;
    const bool both = placementOf(p.shape.kind) == ChunkPlacement::Bidirectional;
    for (std::int64_t rank = 0; rank < p.shape.pp; ++rank) {
        double time = 0.0, persistent = 0.0, transient = 0.0;
        std::vector<double> kept;
        for (std::int64_t c = 0; c < p.shape.chunks(); ++c) {
            const auto position = static_cast<std::size_t>(
                positionOf(p.shape, {StageId(static_cast<std::size_t>(rank)),
                                     ModelChunkId(static_cast<std::size_t>(c))}));
            std::int64_t begin = 0;
            for (std::size_t i = 0; i < position; ++i) begin += split[i];
            double here = 0.0, keeps = 0.0;
            const auto whole = [&](const SplitPiece& piece) {
                here += piece.time.value;
                persistent += piece.persistent.value;
                keeps += piece.kept.value;
                transient = std::max(transient, piece.transient.value);
            };
            if (position == 0) whole(p.embedding);
            if (position + 1 == split.size()) whole(p.head);
            for (std::int64_t l = 0; l < split[position]; ++l) {
                const SplitPiece& layer = p.layers[static_cast<std::size_t>(begin + l)];
                if (l >= again) {
                    whole(layer);
                    continue;
                }
                here += layer.time.value + layer.recompute.value;
                persistent += layer.persistent.value;
                keeps += layer.kept_recomputed.value;
                transient = std::max(transient, layer.transient.value + layer.kept.value -
                                                    layer.kept_recomputed.value);
            }
            slowest_chunk = std::max(slowest_chunk, here);
            time += both ? 0.5 * here : here;
            kept.push_back(keeps);
        }
        double held = 0.0;
        for (const auto& moment : p.in_flight[static_cast<std::size_t>(rank)]) {
            double sum = 0.0;
            for (std::size_t c = 0; c < kept.size(); ++c)
                sum += static_cast<double>(moment[c]) * kept[c];
            held = std::max(held, sum);
        }
        if (persistent + held + transient > p.capacity.value) return {kInfinite, kInfinite};
        slowest_rank = std::max(slowest_rank, time);
    }
    return {slowest_rank, slowest_chunk};
}

/// The best over every split with at least one layer a chunk and every number recomputed.
std::pair<double, double> bruteForce(const ChunkSplitProblem& p) {
    std::pair<double, double> best(kInfinite, kInfinite);
    std::vector<std::int64_t> split;
    const auto positions = static_cast<std::size_t>(p.shape.positions());
    const std::function<void(std::int64_t)> fill = [&](std::int64_t left) {
        if (split.size() + 1 == positions) {
            split.push_back(left);
            for (std::int64_t n = p.least_recompute; n <= p.most_recompute; ++n) {
                const auto value = valueOf(p, split, n);
                if (value.first < best.first - 1e-9 ||
                    (value.first < best.first + 1e-9 && value.second < best.second))
                    best = value;
            }
            split.pop_back();
            return;
        }
        for (std::int64_t n = 1;
             n + static_cast<std::int64_t>(positions - split.size()) - 1 <= left; ++n) {
            split.push_back(n);
            fill(left - n);
            split.pop_back();
        }
    };
    fill(static_cast<std::int64_t>(p.layers.size()));
    return best;
}

ChunkSplitProblem problemOf(const PipelineShape& shape, std::size_t lead, std::size_t layers,
                            const std::function<double(int, int)>& pick) {
    ChunkSplitProblem p;
    p.shape = shape;
    p.layers.assign(lead, piece(pick(2, 9), pick(4, 20), pick(4, 16)));
    p.layers.resize(layers, piece(pick(2, 9), pick(10, 60), pick(8, 40)));
    p.embedding = piece(pick(0, 4), pick(0, 30), pick(0, 3));
    p.head = piece(pick(0, 9), pick(0, 30), pick(0, 20));
    for (std::int64_t rank = 0; rank < shape.pp; ++rank) {
        auto& moments = p.in_flight.emplace_back();
        for (int m = 0; m < 2; ++m) {
            auto& moment = moments.emplace_back();
            for (std::int64_t c = 0; c < shape.chunks(); ++c)
                moment.push_back(static_cast<std::int64_t>(pick(1, 4)));
        }
    }
    p.capacity = Bytes(pick(150, 900));
    return p;
}

TEST(SplitChunks, IsTheBestOfAllSplits) {
    std::mt19937 random(17);
    const auto pick = [&random](int from, int to) {
        return static_cast<double>(std::uniform_int_distribution(from, to)(random));
    };
    const PipelineShape shapes[] = {{ScheduleKind::InterleavedOneF1B, 2, 2, 8},
                                    {ScheduleKind::InterleavedOneF1B, 2, 3, 8},
                                    {ScheduleKind::InterleavedOneF1B, 3, 2, 9},
                                    {ScheduleKind::ZbV, 2, 2, 8},
                                    {ScheduleKind::ZbV, 3, 2, 8},
                                    {ScheduleKind::OneF1B, 4, 1, 8},
                                    {ScheduleKind::DualPipe, 4, 1, 8}};
    int solved = 0, refused = 0, recomputed = 0, uneven = 0;
    for (const PipelineShape& shape : shapes)
        for (int trial = 0; trial < 40; ++trial) {
            const auto layers =
                static_cast<std::size_t>(pick(static_cast<int>(shape.positions()), 11));
            const auto lead = static_cast<std::size_t>(trial % 4);
            ChunkSplitProblem p = problemOf(shape, std::min(lead, layers - 1), layers, pick);
            if (trial % 3 != 0) p.most_recompute = static_cast<std::int64_t>(layers);
            const auto [rank, chunk] = bruteForce(p);
            const Result<ChunkSplit> split = splitChunks(p);
            ASSERT_EQ(split.ok(), rank < kInfinite) << toText(shape.kind) << trial;
            if (!split.ok()) {
                ++refused;
                continue;
            }
            ++solved;
            EXPECT_NEAR(split->slowestRank().value, rank, 1e-6) << toText(shape.kind) << trial;
            EXPECT_NEAR(split->slowestChunk().value, chunk, 1e-6) << toText(shape.kind) << trial;
            const auto own = valueOf(p, split->stage_layers, split->recompute_layers);
            EXPECT_NEAR(own.first, split->slowestRank().value, 1e-9);
            EXPECT_NEAR(own.second, split->slowestChunk().value, 1e-9);
            recomputed += split->recompute_layers > 0 ? 1 : 0;
            uneven +=
                std::ranges::max(split->stage_layers) > std::ranges::min(split->stage_layers) + 1
                    ? 1
                    : 0;
        }
    EXPECT_GT(solved, 100);
    EXPECT_GT(refused, 10);
    EXPECT_GT(recomputed, 5);
    EXPECT_GT(uneven, 10);
}

/// Many chunks a rank with unlike moments: all splits are far too many to look at.
ChunkSplitProblem manyChunks(std::int64_t pp, std::int64_t vpp, std::size_t layers) {
    std::mt19937 random(5);
    ChunkSplitProblem p = problemOf(
        {ScheduleKind::InterleavedOneF1B, pp, vpp, 4 * pp}, 0, layers, [&random](int from, int to) {
            return static_cast<double>(std::uniform_int_distribution(from, to)(random));
        });
    p.most_recompute = 3;
    return p;
}

TEST(SplitChunks, SaysAtOnceThatNothingFits) {
    for (const auto& [pp, vpp, layers] :
         {std::tuple{2, 8, 16}, std::tuple{2, 16, 96}, std::tuple{4, 8, 61}}) {
        ChunkSplitProblem p = manyChunks(pp, vpp, static_cast<std::size_t>(layers));
        p.capacity = Bytes(1.0);
        EXPECT_EQ(splitChunks(p).error().code, ErrorCode::RuleBroken) << vpp;
    }
}

TEST(SplitChunks, ManyChunksARank) {
    for (const auto& [pp, vpp, layers] : {std::tuple{2, 8, 40}, std::tuple{4, 8, 61}}) {
        ChunkSplitProblem p = manyChunks(pp, vpp, static_cast<std::size_t>(layers));
        p.capacity = Bytes(kInfinite);
        const ChunkSplit roomy = splitChunks(p).value();
        double all = p.embedding.time.value + p.head.time.value;
        for (const SplitPiece& layer : p.layers) all += layer.time.value;
        EXPECT_GE(roomy.slowestRank().value * pp, all * (1.0 - 1e-12));
        EXPECT_LE(roomy.slowestRank().value, all / pp + p.layers.front().time.value);
        // Memory that falls to what refuses every split never makes the slowest rank faster.
        double before = roomy.slowestRank().value;
        int solved = 0;
        for (double capacity = std::ranges::max(roomy.memory).value;; capacity *= 0.97) {
            p.capacity = Bytes(capacity);
            const Result<ChunkSplit> split = splitChunks(p);
            if (!split.ok()) {
                EXPECT_EQ(split.error().code, ErrorCode::RuleBroken) << split.error().text();
                break;
            }
            ++solved;
            EXPECT_GE(split->slowestRank().value, before * (1.0 - 1e-9));
            EXPECT_LT(valueOf(p, split->stage_layers, split->recompute_layers).first, kInfinite);
            before = split->slowestRank().value;
        }
        EXPECT_GT(solved, 3);
    }
}

TEST(SplitChunks, PatternsOfTwoKindsAreCutWhole) {
    // Dense and MoE layers in turn, as GLaM and Switch have them.
    ChunkSplitProblem p;
    p.shape = {ScheduleKind::InterleavedOneF1B, 2, 2, 8};
    for (int l = 0; l < 16; ++l) p.layers.push_back(l % 2 == 0 ? piece(1, 1, 1) : piece(3, 4, 2));
    p.head = piece(4, 0, 0);
    p.in_flight.assign(2, {{2, 1}});
    p.capacity = Bytes(1e9);
    const ChunkSplit split = splitChunks(p).value();
    for (const std::int64_t n : split.stage_layers) EXPECT_EQ(n % 2, 0);
    EXPECT_EQ(std::accumulate(split.stage_layers.begin(), split.stage_layers.end(), 0L), 16);
    // 32 and the head 4 over two ranks: 20 and 16.
    EXPECT_DOUBLE_EQ(split.slowestRank().value, 20.0);
    std::mt19937 random(1);
    for (SplitPiece& layer : p.layers)
        layer.time = Seconds(std::uniform_real_distribution(1.0, 2.0)(random));
    EXPECT_THAT(splitChunks(p).error().text(), HasSubstr("follow no pattern"));
    p.layers.resize(3);
    EXPECT_THAT(splitChunks(p).error().text(), HasSubstr("3 layers over 4 stage chunks"));
}

TEST(BalancedPlan, WeighsEmbeddingAndHeadAndTheStepGainsByIt) {
    // A small model with a large vocabulary: the head costs as much as several layers.
    Plan plan = test::h100Plan("models/olmoe-tiny.json", 1, 512, 32);
    plan.model = test::exampleModel("configs/OLMoE-1B-7B-0924.json");
    plan.model.vocab_size = 400000;
    plan.layout.pp = 4;
    plan.layout.dp = plan.layout.ep = 2;
    plan.zero_stage = 1;
    for (const auto& [kind, vpp] :
         {std::pair{ScheduleKind::OneF1B, 1}, std::pair{ScheduleKind::InterleavedOneF1B, 2},
          std::pair{ScheduleKind::ZbV, 2}}) {
        plan.schedule = kind;
        plan.layout.vpp = vpp;
        const Result<BalancedPlan> balanced = balancedPlan(plan);
        ASSERT_TRUE(balanced.ok()) << balanced.error().text();
        EXPECT_TRUE(validatePlan(balanced->plan).empty());
        const ChunkSplit even =
            evaluateSplit(chunkSplitProblem(plan).value(),
                          balancedStageLayers(plan.model.num_layers, plan.layout.pp * vpp), 0);
        EXPECT_LT(balanced->split.slowestRank(), even.slowestRank()) << toText(kind);
        const CostModel cost(plan);
        const std::int64_t before = StepModel::make(plan, cost)->estimate()->step_ns;
        const std::int64_t after = StepModel::make(balanced->plan, cost)->estimate()->step_ns;
        EXPECT_LT(after, before) << toText(kind);
    }
}

TEST(BalancedPlan, RecomputesWhatDoesNotFitOtherwise) {
    Plan plan = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 4096, 64);
    plan.layout.pp = 4;
    plan.layout.dp = plan.layout.ep = 2;
    plan.micro_batch_size = 4;
    plan.zero_stage = 1;
    const BalancedPlan roomy = balancedPlan(plan).value();
    EXPECT_EQ(roomy.split.recompute_layers, 0);
    EXPECT_EQ(roomy.plan.recompute, plan.recompute);
    plan.cluster.device.memory = gib(40);
    const BalancedPlan tight = balancedPlan(plan).value();
    EXPECT_GT(tight.split.recompute_layers, 0);
    EXPECT_EQ(tight.plan.recompute.granularity, RecomputeGranularity::Full);
    EXPECT_EQ(tight.plan.recompute.num_layers, tight.split.recompute_layers);
    plan.cluster.device.memory = gib(6);
    EXPECT_THAT(balancedPlan(plan).error().text(), HasSubstr("no split of 16 layers"));
    plan.layout.pp = 0;
    EXPECT_FALSE(balancedPlan(plan).ok());
}

}  // namespace
}  // namespace piper
