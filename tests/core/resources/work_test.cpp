// SPDX-License-Identifier: Apache-2.0
#include "core/resources/work.h"

#include <gtest/gtest.h>

#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::mlaMoe;
using test::smallPlan;

OperationWork work(const Plan& plan, OperationKind kind, Phase phase, Pass pass = Pass::Forward,
                   LayerKind layer = LayerKind::Moe, bool shared = false, int stage = 0) {
    return operationWork(plan, {kind, phase, pass, layer, shared}, StageId(stage));
}

double layerFlops(const Plan& plan, LayerKind layer, OperationKind kind) {
    double sum = work(plan, kind, Phase::Attention, Pass::Forward, layer).flops().value +
                 work(plan, kind, Phase::Expert, Pass::Forward, layer).flops().value;
    if (layer == LayerKind::Moe)
        sum += work(plan, kind, Phase::Router).flops().value +
               work(plan, kind, Phase::Expert, Pass::Forward, layer, true).flops().value;
    return sum;
}

TEST(Work, LayerFlopsEqualTheModelsPerTokenCount) {
    Plan plan = smallPlan({});
    for (const ModelSpec& model : {test::smallMoe(), mlaMoe()}) {
        plan.model = model;
        const double tokens = 64;  // 2 sequences of 32
        for (const LayerKind layer : {LayerKind::Moe, LayerKind::Dense}) {
            const double forward =
                layerForwardFlops(model, layer, plan.seq_len, AttentionCount::CausalHalf)
                    .total()
                    .value *
                tokens;
            EXPECT_DOUBLE_EQ(layerFlops(plan, layer, OperationKind::Forward), forward);
            EXPECT_DOUBLE_EQ(layerFlops(plan, layer, OperationKind::InputGrad) +
                                 layerFlops(plan, layer, OperationKind::WeightGrad),
                             2 * forward);
        }
        EXPECT_DOUBLE_EQ(work(plan, OperationKind::Forward, Phase::HeadLoss).flops().value,
                         headForwardFlops(model).value * tokens);
    }
}

TEST(Work, StepFlopsOfAllRanksAreTheModelsWhateverTheLayout) {
    for (const Layout layout :
         {Layout{}, Layout{.tp = 2, .ep = 2, .dp = 2}, Layout{.ep = 4, .dp = 4},
          Layout{.tp = 2, .etp = 2, .dp = 2}, Layout{.cp = 2, .dp = 2}}) {
        const Plan plan = smallPlan(layout);
        const double ranks = static_cast<double>(layout.tp * layout.cp * layout.dp);
        double sum = 0;
        for (const OperationKind kind :
             {OperationKind::Forward, OperationKind::InputGrad, OperationKind::WeightGrad})
            sum += layerFlops(plan, LayerKind::Moe, kind) * ranks;
        const double tokens = 64.0 * static_cast<double>(layout.dp);
        Flops expected =
            layerForwardFlops(plan.model, LayerKind::Moe, plan.seq_len, AttentionCount::CausalHalf)
                .total();
        // Without sequence parallelism every tp rank routes all tokens.
        const double router =
            layerForwardFlops(plan.model, LayerKind::Moe, plan.seq_len, AttentionCount::CausalHalf)
                .router.value *
            static_cast<double>(layout.tp - 1);
        EXPECT_DOUBLE_EQ(sum, 3 * tokens * (expected.value + router));
    }
}

TEST(Work, GemmShapesAreTheRealOnes) {
    Plan plan = smallPlan({.ep = 4, .dp = 4});  // 64 tokens, 128 rows, 2 local experts
    const OperationWork forward = work(plan, OperationKind::Forward, Phase::Expert);
    ASSERT_EQ(forward.gemms.size(), 2u);
    EXPECT_EQ(forward.gemms[0].groups, 2);
    EXPECT_EQ(forward.gemms[0].m, 64);
    EXPECT_EQ(forward.gemms[0].n, 192);  // gate and up of 96
    EXPECT_EQ(forward.gemms[0].k, 64);
    EXPECT_EQ(forward.gemms[1].n, 64);
    EXPECT_EQ(forward.gemms[1].k, 96);
    const OperationWork weight = work(plan, OperationKind::WeightGrad, Phase::Expert);
    EXPECT_EQ(weight.gemms[0].m, 64);
    EXPECT_EQ(weight.gemms[0].n, 192);
    EXPECT_EQ(weight.gemms[0].k, 64);
    const OperationWork attention = work(plan, OperationKind::Forward, Phase::Attention);
    ASSERT_EQ(attention.gemms.size(), 2u);
    EXPECT_EQ(attention.gemms[0].n, (8 + 2 * 4) * 8);
    EXPECT_EQ(attention.gemms[1].k, 64);
    ASSERT_TRUE(attention.attention);
    EXPECT_EQ(attention.attention->flops.value, 2.0 * (8 + 8) * 8 * 2 * 32 * 16);
}

TEST(Work, MlaProjections) {
    Plan plan = smallPlan({});
    plan.model = mlaMoe();
    const OperationWork a = work(plan, OperationKind::Forward, Phase::Attention);
    ASSERT_EQ(a.gemms.size(), 4u);
    EXPECT_EQ(a.gemms[0].n, 16 * 192);
    EXPECT_EQ(a.gemms[1].n, 512 + 64);
    EXPECT_EQ(a.gemms[2].k, 512);
    EXPECT_EQ(a.gemms[2].n, 16 * 256);
    EXPECT_EQ(a.gemms[3].k, 16 * 128);
    EXPECT_EQ(a.attention->qk_head_dim, 192);
    EXPECT_EQ(a.attention->v_head_dim, 128);
}

TEST(Work, RowsThatExpertsDoNotDivideAreNotLost) {
    Plan plan = smallPlan({});
    plan.seq_len = 33;  // 66 tokens, 132 rows over 8 experts: four of 17, four of 16
    const OperationWork w = work(plan, OperationKind::Forward, Phase::Expert);
    double rows = 0;
    for (const GemmWork& g : w.gemms)
        if (g.n == 192) rows += static_cast<double>(g.groups * g.m);
    EXPECT_EQ(rows, 132);
}

TEST(Work, SlidingWindowShrinksAttention) {
    EXPECT_EQ(causalAttentionFlops(1, 1, 8, 1, 1, false).value, 2.0 * 2 * 8 * 4);
    EXPECT_EQ(causalAttentionFlops(1, 1, 8, 1, 1, true).value, 2 * 2.0 * 2 * 8 * 4);
    EXPECT_EQ(causalAttentionFlops(1, 1, 8, 1, 1, false, 4).value, 2.0 * 2 * 8 * (4 - 1));
    EXPECT_EQ(causalAttentionFlops(1, 1, 8, 1, 1, false, 100).value, 2.0 * 2 * 8 * 4);
}

TEST(Work, LayersWithAndWithoutAWindowAreTakenAsTheirMean) {
    const auto core = [](std::vector<std::int64_t> whole, std::int64_t window) {
        Plan plan = smallPlan({});
        plan.model.attention.sliding_window = window;
        plan.model.attention.full_attention_layers = std::move(whole);
        return work(plan, OperationKind::Forward, Phase::Attention).attention->flops.value;
    };
    const std::int64_t layers = smallPlan({}).model.num_layers;
    std::vector<std::int64_t> half;
    for (std::int64_t l = 0; l < layers / 2; ++l) half.push_back(l);
    EXPECT_LT(core({}, 4), core({}, 0));
    const double share = static_cast<double>(half.size()) / static_cast<double>(layers);
    EXPECT_DOUBLE_EQ(core(half, 4), (1 - share) * core({}, 4) + share * core({}, 0));
}

TEST(Work, DropoutPassesOverTheScoresThatNoKernelFuses) {
    Plan plan = smallPlan({});
    const auto traffic = [&plan](OperationKind kind) {
        return work(plan, kind, Phase::Attention).memory_traffic.value;
    };
    for (const OperationKind kind : {OperationKind::Forward, OperationKind::InputGrad}) {
        plan.fused_attention = false;
        plan.model.dropout = 0.0;
        const double plain = traffic(kind);
        plan.model.dropout = 0.1;
        const double element = activationElementBytes(plan.precision).value;
        const double scores = static_cast<double>(plan.micro_batch_size * plan.seq_len *
                                                  plan.seq_len * plan.model.attention.num_heads);
        EXPECT_DOUBLE_EQ(traffic(kind) - plain, scores * (2.0 * element + 1.0));
        plan.fused_attention = true;
        EXPECT_EQ(traffic(kind), plain);
    }
}

TEST(Work, FrozenWeightsHaveNoGradientsAndNoOptimizer) {
    Plan plan = smallPlan({.ep = 4, .dp = 4});
    plan.zero_stage = 1;
    const auto flops = [&plan](OperationKind kind, Phase phase) {
        return work(plan, kind, phase, Pass::Backward).flops().value;
    };
    const OperationKey reduce{OperationKind::ReduceScatter, Phase::DpComm, Pass::Backward,
                              LayerKind::Dense};
    const OperationKey gather{OperationKind::AllGather, Phase::DpComm, Pass::Backward,
                              LayerKind::Dense};
    const double input = flops(OperationKind::InputGrad, Phase::Attention);
    EXPECT_GT(flops(OperationKind::WeightGrad, Phase::Attention), 0.0);
    EXPECT_TRUE(operationWork(plan, reduce, StageId(0)).communication);
    OptimizerChoice& o = plan.optimizer;
    o.gradients = o.master_weights = o.first_moment = o.second_moment = StateFormat::None;
    for (const Phase phase : {Phase::Attention, Phase::Expert, Phase::Router, Phase::HeadLoss})
        EXPECT_EQ(flops(OperationKind::WeightGrad, phase), 0.0);
    EXPECT_EQ(flops(OperationKind::InputGrad, Phase::Attention), input);
    EXPECT_EQ(work(plan, OperationKind::Optimizer, Phase::Optimizer).memory_traffic.value, 0.0);
    EXPECT_FALSE(operationWork(plan, reduce, StageId(0)).communication);
    EXPECT_FALSE(operationWork(plan, gather, StageId(0)).communication);
    plan.zero_stage = 3;  // shards of frozen weights are gathered all the same
    EXPECT_TRUE(operationWork(plan, gather, StageId(0)).communication);
}

TEST(Work, TokenMoversSortRowsOnTheExpertsSideAlone) {
    Plan plan = smallPlan({.ep = 4, .dp = 4});
    const double row =
        static_cast<double>(plan.model.hidden_size) * activationElementBytes(plan.precision).value;
    const double tokens = 64, rows = tokens * static_cast<double>(plan.model.moe->router_topk);
    const auto traffic = [&](AllToAllLibrary library, Phase phase) {
        plan.all_to_all.library = library;
        return work(plan,
                    phase == Phase::Dispatch ? OperationKind::Dispatch : OperationKind::Combine,
                    phase)
                   .memory_traffic.value /
               row;
    };
    EXPECT_DOUBLE_EQ(traffic(AllToAllLibrary::Nccl, Phase::Dispatch), 4 * rows);
    EXPECT_DOUBLE_EQ(traffic(AllToAllLibrary::Nccl, Phase::Combine), 4 * rows + tokens);
    // A token lies on fewer ranks than it has experts, and on at least one.
    for (const AllToAllLibrary library : {AllToAllLibrary::DeepEp, AllToAllLibrary::HybridEp})
        for (const Phase phase : {Phase::Dispatch, Phase::Combine}) {
            EXPECT_GT(traffic(library, phase), rows + tokens);
            EXPECT_LT(traffic(library, phase), 2 * rows);
        }
    plan.layout = {.dp = 4};
    EXPECT_DOUBLE_EQ(traffic(AllToAllLibrary::DeepEp, Phase::Dispatch), 4 * rows);
}

TEST(Work, DispatchPayload) {
    const Plan plan = smallPlan({.ep = 4, .dp = 4});
    for (const Phase phase : {Phase::Dispatch, Phase::Combine}) {
        const auto kind =
            phase == Phase::Dispatch ? OperationKind::Dispatch : OperationKind::Combine;
        for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Recompute}) {
            const OperationWork w = work(plan, kind, phase, pass);
            ASSERT_TRUE(w.communication);
            EXPECT_EQ(w.communication->bytes.value, 128 * 3.0 / 4 * 64 * 4);
            EXPECT_EQ(w.communication->hottest_bytes.value, w.communication->bytes.value);
            EXPECT_EQ(w.communication->group_size, 4);
            EXPECT_EQ(w.communication->messages, 3);
        }
    }
    EXPECT_FALSE(work(smallPlan({}), OperationKind::Dispatch, Phase::Dispatch).communication);
}

TEST(Work, ChunksSplitExchangeAndExperts) {
    Plan plan = smallPlan({.ep = 2, .dp = 2});
    const OperationWork whole = work(plan, OperationKind::Dispatch, Phase::Dispatch);
    const double flops = work(plan, OperationKind::Forward, Phase::Expert).flops().value;
    plan.all_to_all.chunks = 4;
    const OperationWork part = work(plan, OperationKind::Dispatch, Phase::Dispatch);
    EXPECT_DOUBLE_EQ(part.communication->bytes.value * 4, whole.communication->bytes.value);
    EXPECT_DOUBLE_EQ(work(plan, OperationKind::Forward, Phase::Expert).flops().value * 4, flops);
}

TEST(Work, SkewRaisesTheHottestRankOnly) {
    Plan plan = smallPlan({.ep = 4, .dp = 4});
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 1.0;
    const OperationWork w = work(plan, OperationKind::Dispatch, Phase::Dispatch);
    const double imbalance = routingImbalance(plan, LayerId(0));
    EXPECT_GT(imbalance, 1.5);
    EXPECT_EQ(w.communication->bytes.value, 128 * 3.0 / 4 * 64 * 4);
    EXPECT_DOUBLE_EQ(w.communication->hottest_bytes.value,
                     w.communication->bytes.value * imbalance);
    EXPECT_DOUBLE_EQ(work(plan, OperationKind::Forward, Phase::Expert).imbalance, imbalance);
    EXPECT_DOUBLE_EQ(work(plan, OperationKind::Forward, Phase::Attention).imbalance, 1.0);
}

TEST(Work, GradientsOfBothGrids) {
    Plan plan = smallPlan({.ep = 2, .dp = 4});  // edp 2
    const StageParameters p = stageParameters(plan, StageId(0));
    const ModelParameters all = modelParameters(plan.model);
    EXPECT_DOUBLE_EQ(p.dense + 2 * p.expert, static_cast<double>(all.total));
    const auto dense =
        work(plan, OperationKind::AllReduce, Phase::DpComm, Pass::Backward, LayerKind::Dense);
    EXPECT_EQ(dense.communication->dimension, "dp");
    EXPECT_EQ(dense.communication->group_size, 4);
    EXPECT_EQ(dense.communication->bytes.value, p.dense * 4 * 2 * 3 / 4);
    const auto expert = work(plan, OperationKind::AllReduce, Phase::DpComm, Pass::Backward);
    EXPECT_EQ(expert.communication->dimension, "edp");
    EXPECT_EQ(expert.communication->group_size, 2);
    EXPECT_EQ(expert.communication->bytes.value, p.expert * 4 * 2 * 1 / 2);
    plan.zero_stage = 1;
    EXPECT_FALSE(work(plan, OperationKind::AllReduce, Phase::DpComm, Pass::Backward).communication);
    EXPECT_TRUE(
        work(plan, OperationKind::ReduceScatter, Phase::DpComm, Pass::Backward).communication);
    EXPECT_TRUE(work(plan, OperationKind::AllGather, Phase::DpComm, Pass::Backward).communication);
}

TEST(Work, OptimizerTrafficIsShardedByZero) {
    Plan plan = smallPlan({.dp = 4});
    const StageParameters p = stageParameters(plan, StageId(0));
    const auto traffic = [&] {
        return work(plan, OperationKind::Optimizer, Phase::Optimizer).memory_traffic.value;
    };
    // fp32 AdamW: reads gradient, weight, m, v; writes weight, m, v.
    EXPECT_DOUBLE_EQ(traffic(), (p.dense + p.expert) * 28);
    plan.zero_stage = 1;
    EXPECT_DOUBLE_EQ(traffic(), (p.dense + p.expert) * 28 / 4);
    plan.zero_stage = 0;
    plan.precision = Precision::Bf16;  // + fp32 master, bf16 weight written
    EXPECT_DOUBLE_EQ(traffic(), (p.dense + p.expert) * (4 + 8 + 16 + 2));
}

TEST(Work, TensorAndPipelineParallelPayloads) {
    Plan plan = smallPlan({.tp = 2, .pp = 2});
    const double stream = 64.0 * 64 * 4;
    const auto reduce =
        work(plan, OperationKind::AllReduce, Phase::TpComm, Pass::Forward, LayerKind::Dense);
    EXPECT_EQ(reduce.communication->bytes.value, 2 * stream * 2 * 1 / 2);
    EXPECT_EQ(reduce.communication->calls, 2);
    EXPECT_FALSE(work(plan, OperationKind::AllGather, Phase::TpComm).communication);
    EXPECT_EQ(work(plan, OperationKind::Send, Phase::PpComm).communication->bytes.value, stream);
    plan.layout.sp = true;
    EXPECT_FALSE(work(plan, OperationKind::AllReduce, Phase::TpComm).communication);
    EXPECT_EQ(work(plan, OperationKind::AllGather, Phase::TpComm, Pass::Backward, LayerKind::Dense)
                  .communication->bytes.value,
              4 * stream / 2);
    EXPECT_EQ(work(plan, OperationKind::Send, Phase::PpComm).communication->bytes.value,
              stream / 2);
    EXPECT_FALSE(work(smallPlan({}), OperationKind::Send, Phase::PpComm).communication);
}

TEST(Work, SelectiveRecomputeRepeatsOnlyItsModules) {
    Plan plan = smallPlan({});
    const double forward = work(plan, OperationKind::Forward, Phase::Attention).flops().value;
    EXPECT_EQ(work(plan, OperationKind::Recompute, Phase::Attention).flops().value, forward);
    plan.recompute.granularity = RecomputeGranularity::Selective;
    plan.recompute.modules = {"core_attn"};
    const OperationWork core = work(plan, OperationKind::Recompute, Phase::Attention);
    EXPECT_TRUE(core.gemms.empty());
    EXPECT_EQ(core.flops().value, 2.0 * (8 + 8) * 8 * 2 * 32 * 16);
    EXPECT_EQ(work(plan, OperationKind::Recompute, Phase::Expert).flops().value, 0);
    plan.recompute.modules = {"moe"};
    EXPECT_GT(work(plan, OperationKind::Recompute, Phase::Expert).flops().value, 0);
    EXPECT_EQ(work(plan, OperationKind::Recompute, Phase::Attention).flops().value, 0);
}

}  // namespace
}  // namespace piper
