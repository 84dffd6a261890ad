// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "kernels/ops/permutation.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

TEST_F(CpuTest, EmbeddingLooksUpAndAddsGradientsOfRepeatedTokens) {
    Owned table = random(10, 6), out(7, 6), dout = random(7, 6), dtable = random(10, 6);
    const reference::Tensor before = dtable.ref();
    const std::vector<std::int32_t> tokens{3, 0, 3, 9, 9, 9, 1};
    EXPECT_OK(cpu().embeddingForward(tokens, table.m, out.m));
    expectClose(out.m, reference::embedding(tokens, table.ref()), 0.0);
    EXPECT_OK(cpu().embeddingWeightGrad(tokens, dout.m, dtable.m));
    expectClose(dtable.m,
                reference::add(before, reference::embeddingWeightGrad(tokens, dout.ref(), 10)));
}

TEST_F(CpuTest, EmbeddingRefusesATokenOutsideTheVocabulary) {
    Owned table = random(4, 2), out(2, 2);
    for (const std::int32_t bad : {4, -1}) {
        const Status status =
            cpu().embeddingForward(std::vector<std::int32_t>{0, bad}, table.m, out.m);
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::InvalidInput);
        EXPECT_THAT(status.error().message, HasSubstr("row 1"));
    }
}

class CpuRouter : public CpuTest, public ::testing::WithParamInterface<RouterShape> {};

TEST_P(CpuRouter, ForwardAndGradientMatchTheReference) {
    const RouterShape s = GetParam();
    Owned logits = random(23, s.num_experts), scores(23, s.num_experts);
    Owned weights(23, s.router_topk), dweights = random(23, s.router_topk);
    Owned dscore = random(1, s.num_experts), dlogits(23, s.num_experts);
    reference::Ids experts(static_cast<std::size_t>(23 * s.router_topk), -7);
    EXPECT_OK(cpu().routerForward(s, RouterMode::Choose, logits.m, scores.m, experts, weights.m));
    const auto want = reference::router(s, logits.ref(), {});
    EXPECT_EQ(experts, want.experts);
    expectClose(scores.m, want.scores);
    expectClose(weights.m, want.weights);
    EXPECT_OK(cpu().routerInputGrad(s, scores.m, experts, dweights.m, {}, dlogits.m));
    expectClose(dlogits.m, reference::routerGrad(s, want, dweights.ref(), {}), 5e-5);
    EXPECT_OK(cpu().routerInputGrad(s, scores.m, experts, dweights.m, dscore.v(), dlogits.m));
    expectClose(dlogits.m, reference::routerGrad(s, want, dweights.ref(), dscore.ref()), 5e-5);

    // Replay of other experts: their weights follow from the same logits.
    for (std::int32_t& e : experts)
        e = static_cast<std::int32_t>((e + 1) % static_cast<std::int32_t>(s.num_experts));
    const reference::Ids given = experts;
    EXPECT_OK(cpu().routerForward(s, RouterMode::Replay, logits.m, scores.m, experts, weights.m));
    EXPECT_EQ(experts, given);
    expectClose(weights.m, reference::router(s, logits.ref(), given).weights);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CpuRouter,
                         ::testing::Values(RouterShape{8, 2, ScoringFunction::Softmax, false, 1.0},
                                           RouterShape{8, 2, ScoringFunction::Softmax, true, 1.0},
                                           RouterShape{13, 5, ScoringFunction::Sigmoid, true, 2.5},
                                           RouterShape{4, 4, ScoringFunction::Sigmoid, false, 1.0},
                                           RouterShape{3, 1, ScoringFunction::Softmax, false,
                                                       1.0}));

TEST_F(CpuTest, RouterBreaksTiesTowardsTheLowerExpert) {
    Owned logits(1, 4), scores(1, 4), weights(1, 2);
    logits.data = {1.0F, 2.0F, 2.0F, 2.0F};
    std::vector<std::int32_t> experts(2, -1);
    const RouterShape s{4, 2, ScoringFunction::Softmax, true, 1.0};
    EXPECT_OK(cpu().routerForward(s, RouterMode::Choose, logits.m, scores.m, experts, weights.m));
    EXPECT_EQ(experts, (std::vector<std::int32_t>{1, 2}));
}

TEST_F(CpuTest, RouterRefusesBadReplayAndNaN) {
    Owned logits = random(2, 4), scores(2, 4), weights(2, 1);
    const RouterShape s{4, 1, ScoringFunction::Softmax, false, 1.0};
    std::vector<std::int32_t> experts{0, 4};
    const Status bad =
        cpu().routerForward(s, RouterMode::Replay, logits.m, scores.m, experts, weights.m);
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(bad.error().message, HasSubstr("expert 4 of slot 1"));
    logits.m.at(1, 2) = std::numeric_limits<float>::quiet_NaN();
    const Status nan =
        cpu().routerForward(s, RouterMode::Choose, logits.m, scores.m, experts, weights.m);
    ASSERT_FALSE(nan.ok());
    EXPECT_EQ(nan.error().code, ErrorCode::External);
}

TEST_F(CpuTest, PermuteAndCombineMatchWithEmptyExpertsAndDroppedSlots) {
    const std::int64_t t = 17, k = 3, experts = 9, h = 21;
    std::vector<std::int32_t> chosen = randomIds(t * k, 4);  // experts 4 to 8 get nothing
    std::vector<std::int32_t> slot_of_row(chosen.size()), row_of_slot(chosen.size());
    std::vector<std::int64_t> offsets(experts + 1);
    ASSERT_TRUE(makePermutation(chosen, experts, slot_of_row, row_of_slot, offsets).ok());

    Owned x = random(t, h), rows(t * k, h), dx(t, h), weights = random(t, k);
    EXPECT_OK(cpu().permuteForward(x.m, slot_of_row, k, rows.m));
    expectClose(rows.m, reference::permute(x.ref(), slot_of_row, k), 0.0);
    EXPECT_OK(cpu().permuteInputGrad(rows.m, row_of_slot, k, dx.m, Store::Overwrite));
    expectClose(dx.m, reference::permuteGrad(rows.ref(), row_of_slot, k));

    row_of_slot[4] = -1;
    Owned y(t, h), more = random(t, h), dy = random(t, h), drows = random(t * k, h), dw(t, k);
    const reference::Tensor more0 = more.ref();
    const reference::Tensor want = reference::combine(rows.ref(), row_of_slot, weights.ref());
    EXPECT_OK(cpu().combineForward(rows.m, row_of_slot, weights.m, y.m, Store::Overwrite));
    expectClose(y.m, want);
    EXPECT_OK(cpu().combineForward(rows.m, row_of_slot, weights.m, more.m, Store::Accumulate));
    expectClose(more.m, reference::add(more0, want));
    EXPECT_OK(cpu().fill(drows.v(), 0.0F));
    EXPECT_OK(cpu().combineInputGrad(dy.m, rows.m, row_of_slot, weights.m, drows.m, dw.m));
    const auto grad = reference::combineGrad(dy.ref(), rows.ref(), row_of_slot, weights.ref());
    expectClose(drows.m, grad.drows);
    expectClose(dw.m, grad.dweights);
    const reference::Tensor before = dx.ref();
    EXPECT_OK(cpu().permuteInputGrad(drows.m, row_of_slot, k, dx.m, Store::Accumulate));
    expectClose(dx.m, reference::add(before, reference::permuteGrad(drows.ref(), row_of_slot, k)));
}

TEST_F(CpuTest, GatherAndScatterAreInverse) {
    Owned x = random(5, 4), sorted(5, 4), back(5, 4);
    const std::vector<std::int32_t> index{4, 0, 3, 1, 2};
    EXPECT_OK(cpu().gatherRows(x.m, index, sorted.m));
    EXPECT_EQ(sorted.m.at(0, 1), x.m.at(4, 1));
    EXPECT_OK(cpu().scatterRows(sorted.m, index, back.m));
    EXPECT_EQ(back.data, x.data);
}

TEST_F(CpuTest, CrossEntropyAndItsGradient) {
    for (const std::int64_t vocab : {2, 37, 256}) {
        Owned logits = random(12, vocab, 3.0F), lse(1, 12);
        const reference::Tensor before = logits.ref();
        std::vector<std::int32_t> targets = randomIds(12, static_cast<std::int32_t>(vocab));
        targets[3] = -100;
        double loss = std::nan("");
        EXPECT_OK(cpu().crossEntropyForward(logits.m, targets, lse.v(), loss));
        EXPECT_NEAR(loss, reference::crossEntropy(before, targets), 1e-5 * loss);
        EXPECT_OK(cpu().crossEntropyInputGrad(logits.m, targets, lse.v(), 0.125F));
        expectClose(logits.m, reference::crossEntropyGrad(before, targets, 0.125));
    }
}

TEST_F(CpuTest, CrossEntropyRefusesATargetOutsideTheVocabulary) {
    Owned logits = random(2, 3), lse(1, 2);
    double loss = 0.0;
    const Status status =
        cpu().crossEntropyForward(logits.m, std::vector<std::int32_t>{0, 3}, lse.v(), loss);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("token 3 at row 1"));
}

}  // namespace
}  // namespace piper
