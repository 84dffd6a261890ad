// SPDX-License-Identifier: Apache-2.0
#include "core/resources/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/resources/work.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::mlaMoe;
using test::smallPlan;

double termOf(const std::vector<MemoryEntry>& entries, MemoryTerm term) {
    double sum = 0;
    for (const MemoryEntry& e : entries)
        if (e.term == term) sum += e.bytes.value;
    return sum;
}

const MemoryEntry* find(const std::vector<MemoryEntry>& entries, std::string_view name) {
    const auto it = std::find_if(entries.begin(), entries.end(),
                                 [&](const MemoryEntry& e) { return e.name == name; });
    return it == entries.end() ? nullptr : &*it;
}

TEST(Memory, LayerActivationsTensorByTensor) {
    const Plan plan =
        smallPlan({.ep = 4, .dp = 4});  // T 64, H 64, nh 8, nkv 4, hd 8, E 8, k 2, F 96
    const std::vector<MemoryEntry> kept = layerActivations(plan, LayerKind::Moe);
    const double t = 64, h = 64, rows = 128;
    EXPECT_EQ(find(kept, "layer input")->bytes.value, t * h * 4);
    EXPECT_EQ(find(kept, "normed attention input")->bytes.value, t * h * 4);
    EXPECT_EQ(find(kept, "query, key, value")->bytes.value, t * (8 + 2 * 4) * 8 * 4);
    EXPECT_EQ(find(kept, "attention output")->bytes.value, t * 8 * 8 * 4);
    EXPECT_EQ(find(kept, "attention log-sum-exp")->bytes.value, t * 8 * 4);
    EXPECT_EQ(find(kept, "hidden state after attention")->bytes.value, t * h * 4);
    EXPECT_EQ(find(kept, "normed router input")->bytes.value, t * h * 4);
    EXPECT_EQ(find(kept, "router scores")->bytes.value, t * 8 * 4);
    EXPECT_EQ(find(kept, "routing tables")->bytes.value, t * 2 * 4 * 4);
    EXPECT_EQ(find(kept, "received rows")->bytes.value, rows * h * 4);
    EXPECT_EQ(find(kept, "expert pre-activation")->bytes.value, rows * 2 * 96 * 4);
    EXPECT_EQ(find(kept, "returned expert rows")->bytes.value, rows * h * 4);
    EXPECT_EQ(find(kept, "expert activation")->bytes.value, rows * 96 * 4);
    EXPECT_EQ(find(kept, "order of received rows")->bytes.value, rows * 4);
    for (const MemoryEntry& e : kept) {
        EXPECT_EQ(e.lifetime, Lifetime::PerMicroBatch);
        EXPECT_FALSE(e.formula().empty());
    }
}

TEST(Memory, ExpertParallelDoesNotDivideRoutedActivations) {
    const auto routed = [](std::int64_t ep) {
        return termOf(layerActivations(smallPlan({.ep = ep, .dp = 8}), LayerKind::Moe),
                      MemoryTerm::ExpertIntermediate);
    };
    EXPECT_EQ(routed(1), routed(8));
    const auto by_tp = [](std::int64_t tp) {
        return termOf(layerActivations(smallPlan({.tp = tp, .dp = 8}), LayerKind::Moe),
                      MemoryTerm::ExpertIntermediate);
    };
    EXPECT_EQ(by_tp(1), 4 * by_tp(4));
}

TEST(Memory, StateOfOneRankIsSixteenOrEighteenBytesAParameter) {
    Plan plan = smallPlan({});
    const double parameters = static_cast<double>(modelParameters(plan.model).total);
    EXPECT_DOUBLE_EQ(stageMemory(plan)[0].persistent.value, 16 * parameters);
    plan.precision = Precision::Bf16;
    EXPECT_DOUBLE_EQ(stageMemory(plan)[0].persistent.value, 18 * parameters);
    plan.framework = Framework::DeepSpeed;
    const StageMemory deepspeed = stageMemory(plan)[0];
    EXPECT_DOUBLE_EQ(deepspeed.persistent.value - termOf(deepspeed.entries, MemoryTerm::Workspace),
                     16 * parameters);
}

TEST(Memory, ZeroShardsDenseOverDpAndExpertsOverEdp) {
    Plan plan = smallPlan({.ep = 2, .dp = 8});  // edp 4
    plan.precision = Precision::Bf16;
    const StageParameters p = stageParameters(plan, StageId(0));
    const double dense = p.dense / 8, expert = p.expert / 4, all = p.dense + p.expert;
    const std::array<double, 4> expected = {18 * all, 6 * all + 12 * (dense + expert),
                                            2 * all + 16 * (dense + expert), 18 * (dense + expert)};
    for (int zero = 0; zero < 4; ++zero) {
        plan.zero_stage = zero;
        EXPECT_NEAR(stageMemory(plan)[0].persistent.value, expected[static_cast<std::size_t>(zero)],
                    1e-6);
    }
    plan.zero_stage = 0;
    plan.offload = {true, 1.0};
    EXPECT_NEAR(stageMemory(plan)[0].persistent.value, 6 * all, 1e-6);
}

TEST(Memory, StagesTogetherHoldTheWholeModelOnce) {
    Plan plan = smallPlan({.pp = 4});
    double held = 0;
    for (const StageMemory& s : stageMemory(plan)) held += s.persistent.value;
    EXPECT_DOUBLE_EQ(held, 16.0 * static_cast<double>(modelParameters(plan.model).total));
    plan.model.tie_word_embeddings = true;  // the last stage needs a copy of its own
    double tied = 0;
    for (const StageMemory& s : stageMemory(plan)) tied += s.persistent.value;
    EXPECT_DOUBLE_EQ(tied, held);
}

TEST(Memory, InFlightFollowsTheSchedule) {
    Plan plan = smallPlan({.pp = 4}, 8);
    const auto in_flight = [&] {
        std::vector<std::int64_t> out;
        for (const StageMemory& s : stageMemory(plan)) out.push_back(s.in_flight);
        return out;
    };
    EXPECT_EQ(in_flight(), (std::vector<std::int64_t>{4, 3, 2, 1}));
    plan.schedule = ScheduleKind::GPipe;
    EXPECT_EQ(in_flight(), (std::vector<std::int64_t>{8, 8, 8, 8}));
    plan = smallPlan({.pp = 4}, 2);
    EXPECT_EQ(in_flight(), (std::vector<std::int64_t>{2, 2, 2, 1}));
}

TEST(Memory, PeakIsTheSumOfItsTermsAndHeadIsOnTheLastStage) {
    const std::vector<StageMemory> stages = stageMemory(smallPlan({.pp = 2, .ep = 2, .dp = 2}));
    for (const StageMemory& s : stages) {
        Bytes sum;
        for (const Bytes b : s.at_peak) sum += b;
        EXPECT_DOUBLE_EQ(sum.value, s.peak.value);
        EXPECT_DOUBLE_EQ(
            s.peak.value,
            (s.persistent + s.per_micro_batch * static_cast<double>(s.in_flight) + s.transient)
                .value);
        EXPECT_GT(s.transient.value, 0);
    }
    const auto head = static_cast<std::size_t>(MemoryTerm::HeadActivation);
    EXPECT_EQ(stages[0].at_peak[head].value, 0);
    EXPECT_DOUBLE_EQ(stages[1].at_peak[head].value, 64.0 * (2 * 64 + 512 + 3) * 4);
    EXPECT_EQ(find(stages[1].entries, "embedding weights"), nullptr);
    EXPECT_NE(find(stages[0].entries, "embedding weights"), nullptr);
}

TEST(Memory, FullRecomputeKeepsLayerInputsAndPaysOneLayer) {
    Plan plan = smallPlan({.pp = 2}, 8);
    const StageMemory kept = stageMemory(plan)[0];
    plan.recompute.granularity = RecomputeGranularity::Full;
    const StageMemory again = stageMemory(plan)[0];
    EXPECT_DOUBLE_EQ(again.per_micro_batch.value, 2.0 * 64 * 64 * 4 + 64 * 4);
    EXPECT_GT(again.transient, kept.transient);
    EXPECT_LT(again.peak, kept.peak);
    plan.recompute.num_layers = 1;  // one of the two layers of the stage
    const StageMemory half = stageMemory(plan)[0];
    EXPECT_GT(half.per_micro_batch, again.per_micro_batch);
    EXPECT_LT(half.per_micro_batch, kept.per_micro_batch);
}

TEST(Memory, SelectiveRecomputeDropsItsModules) {
    Plan plan = smallPlan({});
    plan.framework = Framework::Megatron;
    const double all = sumOf(layerActivations(plan, LayerKind::Moe)).value;
    plan.recompute.granularity = RecomputeGranularity::Selective;
    plan.recompute.modules = {"moe_act"};
    EXPECT_EQ(all - sumOf(layerActivations(plan, LayerKind::Moe)).value, 128.0 * 96 * 4);
    plan.recompute.modules = {"core_attn"};
    // A fused core keeps its output for the projection: only its log-sum-exp goes.
    EXPECT_EQ(all - sumOf(layerActivations(plan, LayerKind::Moe)).value, 64.0 * 8 * 4);
    plan.recompute.modules = {"layernorm"};
    EXPECT_EQ(all - sumOf(layerActivations(plan, LayerKind::Moe)).value, 2 * 64.0 * 64 * 4);
    plan.recompute.modules = {"moe"};
    EXPECT_EQ(termOf(layerActivations(plan, LayerKind::Moe), MemoryTerm::ExpertIntermediate), 0);
}

TEST(Memory, LargestMomentOfABackwardPass) {
    const Plan plan = smallPlan({.ep = 4, .dp = 4});
    // Two hidden states, then rows out [R, H], pre-activation [R, 2F] and two row buffers [R, 2H].
    EXPECT_EQ(sumOf(layerTransients(plan, LayerKind::Moe)).value,
              2 * 64.0 * 64 * 4 + 128.0 * (64 + 192 + 128) * 4);
    EXPECT_EQ(sumOf(headTransients(plan)).value, 64.0 * 128 * 4);  // logits turn in place
    Plan megatron = plan;
    megatron.framework = Framework::Megatron;
    // Its weights' gradient [V, H] less the fp32 softmax that is gone by then, and dx.
    EXPECT_EQ(sumOf(headTransients(megatron)).value,
              512.0 * 64 * 4 - 64.0 * 512 * 2 + 64.0 * 64 * 4);
    megatron.fused_cross_entropy = true;
    EXPECT_EQ(sumOf(headTransients(megatron)).value, 512.0 * 64 * 4 + 64.0 * 64 * 4);
}

TEST(Memory, FormulasNameTheirNumbers) {
    Plan plan = smallPlan({.pp = 2, .ep = 2, .dp = 4});
    plan.zero_stage = 1;
    const StageMemory s = stageMemory(plan)[0];
    EXPECT_EQ(find(s.entries, "layer input")->formula(), "[T, H] = [64, 64] x 4 B x 2 layers");
    EXPECT_EQ(find(s.entries, "expert optimizer state")->formula(),
              "147456 parameters x 8 B / 2 ranks");
    plan.recompute.granularity = RecomputeGranularity::Full;
    EXPECT_EQ(find(stageMemory(plan)[0].entries, "received rows")->formula(),
              "[R, H] = [128, 64] x 4 B, computed again");
}

/// Mixtral-8x7B's shape, as its config.json gives it.
ModelSpec mixtral(std::int64_t layers) {
    ModelSpec m;
    m.hidden_size = 4096;
    m.num_layers = layers;
    m.vocab_size = 32000;
    m.attention.num_heads = 32;
    m.attention.num_kv_heads = 8;
    m.attention.head_dim = 128;
    MoeSpec moe;
    moe.num_experts = 8;
    moe.router_topk = 2;
    moe.moe_ffn_hidden_size = 14336;
    m.moe = moe;
    m.layers.assign(static_cast<std::size_t>(layers), LayerKind::Moe);
    return m;
}

TEST(Memory, MixtralAgreesWithAnotherEstimator) {
    // Source: SimuMax 4dcaae5 run on Mixtral-8x7B, BF16, ZeRO 1, 4096 tokens, micro-batch 1: its
    // peaks in GiB (its "GB"), 8 layers on EP8 and 32 layers on PP4 x EP8.
    Plan plan = smallPlan({.ep = 8, .dp = 8}, 8);
    plan.framework = Framework::Megatron;
    plan.precision = Precision::Bf16;
    plan.zero_stage = 1;
    plan.seq_len = 4096;
    plan.micro_batch_size = 1;
    plan.global_batch_size = 64;
    plan.model = mixtral(8);
    const StageMemory one = stageMemory(plan)[0];
    const Bytes workspace(termOf(one.entries, MemoryTerm::Workspace));
    EXPECT_NEAR(inGiB(one.persistent - workspace) / 27.8021, 1.0, 0.005);
    EXPECT_NEAR(inGiB(one.peak) / 36.4760, 1.0, 0.03);
    plan.model = mixtral(32);
    plan.layout = {.pp = 4, .ep = 8, .dp = 16};
    plan.global_batch_size = 16 * 32;
    const std::vector<StageMemory> stages = stageMemory(plan);
    EXPECT_NEAR(inGiB(stages[0].peak) / 50.5760, 1.0, 0.04);
    EXPECT_NEAR(inGiB(stages[1].peak) / 41.8732, 1.0, 0.04);
    EXPECT_NEAR(inGiB(stages[3].peak) / 27.3593, 1.0, 0.04);
}

double stateBytesOf(const Plan& plan) {
    double sum = 0.0;
    for (const MemoryEntry& e : persistentMemory(plan, StageId(0)))
        if (isPersistent(e.term)) sum += e.bytes.value;
    return sum;
}

TEST(Memory, OptimizerKindsAndFormats) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    const StageParameters p = stageParameters(plan, StageId(0));
    const double all = p.dense + p.expert, ends = p.embedding + p.head;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 18 * all);
    plan.optimizer.kind = OptimizerKind::Sgd;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 14 * all);
    plan.optimizer.kind = OptimizerKind::Muon;  // embedding and head stay under AdamW
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 14 * all + 4 * ends);
    plan.optimizer.kind = OptimizerKind::Adafactor;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), (10 + 8.0 / 64) * all);
    plan.optimizer = {OptimizerKind::AdamW, StateFormat::Bf16, StateFormat::Bf16,
                      StateFormat::None,    StateFormat::Bf16, StateFormat::Bf16};
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 8 * all);
}

/// Qwen3-VL issue 2053: 4 bytes of 30.6e9 parameters over 32 ranks, 3.56 GiB, is the allocation
/// that failed; the copy is there while the optimizer runs and at no other time.
TEST(Memory, SixteenBitGradientsAreCopiedForTheOptimizer) {
    Plan plan = smallPlan({.ep = 1, .dp = 8});
    plan.framework = Framework::DeepSpeed;
    plan.precision = Precision::Bf16;
    plan.zero_stage = 2;
    const StageParameters p = stageParameters(plan, StageId(0));
    EXPECT_DOUBLE_EQ(sumOf(optimizerTransients(plan, StageId(0))).value,
                     4 * (p.dense + p.expert) / 8);
    plan.optimizer.first_moment = plan.optimizer.second_moment = StateFormat::Bf16;
    EXPECT_TRUE(optimizerTransients(plan, StageId(0)).empty());
    plan.framework = Framework::Megatron;
    plan.optimizer = {};
    EXPECT_TRUE(optimizerTransients(plan, StageId(0)).empty());
    plan.optimizer.gradients = StateFormat::Bf16;
    EXPECT_FALSE(optimizerTransients(plan, StageId(0)).empty());
}

TEST(Memory, ThePeakMayBeTheOptimizerStep) {
    Plan plan = smallPlan({});
    plan.framework = Framework::DeepSpeed;
    plan.precision = Precision::Bf16;
    plan.seq_len = 1;
    plan.micro_batch_size = 1;
    plan.model.vocab_size = 128;
    plan.model.moe->moe_ffn_hidden_size = 4096;
    const StageMemory s = stageMemory(plan)[0];
    EXPECT_EQ(s.peak_moment, "optimizer step");
    EXPECT_DOUBLE_EQ(s.peak.value,
                     (s.persistent + sumOf(optimizerTransients(plan, StageId(0)))).value);
    Bytes sum;
    for (const Bytes b : s.at_peak) sum += b;
    EXPECT_NEAR(sum.value, s.peak.value, 1.0);
}

TEST(Memory, MegatronOffloadsMomentsOthersTheMasterWeightsToo) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.offload = {true, 1.0};
    const StageParameters p = stageParameters(plan, StageId(0));
    const double all = p.dense + p.expert;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 6 * all);
    plan.framework = Framework::Megatron;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 10 * all);
}

TEST(Memory, Fp8WeightsAndCopies) {
    Plan plan = smallPlan({});
    plan.framework = Framework::Megatron;
    plan.precision = Precision::Fp8;
    const StageParameters p = stageParameters(plan, StageId(0));
    const double ends = p.embedding + p.head, layers = p.dense + p.expert - ends;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 20 * layers + 18 * ends);  // two fp8 copies besides
    plan.fp8_parameters = true;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), 18 * layers + 18 * ends);
    plan.precision = Precision::Mxfp8;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), (18 + 2.0 / 32) * layers + 18 * ends);
    plan.precision = Precision::Nvfp4;
    EXPECT_DOUBLE_EQ(stateBytesOf(plan), (16 + 1.125) * layers + 18 * ends);
}

TEST(Memory, QuantizedInputsAreKeptQuantized) {
    Plan plan = smallPlan({});
    plan.framework = Framework::Megatron;
    plan.precision = Precision::Fp8;
    plan.model.moe->num_experts = 2;  // 64 rows an expert: nothing to pad
    const std::vector<MemoryEntry> kept = layerActivations(plan, LayerKind::Moe);
    EXPECT_EQ(find(kept, "normed attention input")->bytes.value, 64.0 * 64);
    EXPECT_EQ(find(kept, "received rows")->bytes.value, 128.0 * 64);
    EXPECT_EQ(find(kept, "expert pre-activation")->bytes.value, 128.0 * 192 * 2);
    EXPECT_EQ(find(kept, "attention output")->bytes.value, 64.0 * 64 * 2);
    EXPECT_EQ(find(kept, "attention output, quantized")->bytes.value, 64.0 * 64);
    plan.model.moe->num_experts = 32;  // 4 rows an expert, padded to 16
    EXPECT_EQ(find(layerActivations(plan, LayerKind::Moe), "received rows")->bytes.value,
              32.0 * 16 * 64);
    plan.precision = Precision::Mxfp8;  // to 32, a byte of scale for 32 elements
    EXPECT_DOUBLE_EQ(find(layerActivations(plan, LayerKind::Moe), "received rows")->bytes.value,
                     32.0 * 32 * 64 * (1 + 1.0 / 32));
}

/// Per layer s b h (34 + 5 a s / h) without tensor parallelism: arXiv 2205.05198, equation 1.
TEST(Memory, UnfusedGptLayerIsTheClassicFormula) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Fp16;
    plan.fused_attention = false;
    plan.model.moe.reset();
    plan.model.layers.assign(4, LayerKind::Dense);
    plan.model.dense_mlp = MlpKind::TwoMatrix;
    plan.model.attention.num_kv_heads = 8;
    plan.model.dropout = 0.1;
    const double sbh = 64.0 * 64, a = 8, s = 32, h = 64;
    const double statistics = 64.0 * 2 * 4;
    const auto kept = [&] { return sumOf(layerActivations(plan, LayerKind::Dense)).value; };
    EXPECT_DOUBLE_EQ(kept(), sbh * (34 + 5 * a * s / h) + statistics);
    plan.recompute.granularity = RecomputeGranularity::Selective;
    plan.recompute.modules = {"core_attn"};
    EXPECT_DOUBLE_EQ(kept(), sbh * 34 + statistics);
}

TEST(Memory, UniformRecomputeKeepsOneInputForSeveralLayers) {
    Plan plan = smallPlan({});
    plan.recompute.granularity = RecomputeGranularity::Full;
    const StageMemory each = stageMemory(plan)[0];
    plan.recompute.method = RecomputeMethod::Uniform;
    plan.recompute.num_layers = 2;
    const StageMemory two = stageMemory(plan)[0];
    EXPECT_DOUBLE_EQ((each.per_micro_batch - two.per_micro_batch).value, 2 * 64.0 * 64 * 4);
    EXPECT_DOUBLE_EQ((two.transient - each.transient).value,
                     sumOf(layerActivations(smallPlan({}), LayerKind::Moe)).value);
}

TEST(Memory, SharedExpertsAreAModuleOfTheirOwn) {
    Plan plan = smallPlan({});
    plan.model.moe->shared_ffn_hidden_size = 32;
    const double all = sumOf(layerActivations(plan, LayerKind::Moe)).value;
    plan.recompute.granularity = RecomputeGranularity::Selective;
    plan.recompute.modules = {"shared_experts"};
    EXPECT_DOUBLE_EQ(all - sumOf(layerActivations(plan, LayerKind::Moe)).value, 64.0 * 3 * 32 * 4);
    plan.recompute.modules = {"op"};
    EXPECT_LT(sumOf(layerActivations(plan, LayerKind::Moe)).value, all);
}

TEST(Memory, FsdpGathersTwoLayersUnlessItKeepsThemAll) {
    Plan plan = smallPlan({.ep = 2, .dp = 4});
    plan.framework = Framework::Torchtitan;
    plan.precision = Precision::Bf16;
    plan.zero_stage = 3;
    const StageMemory resharded = stageMemory(plan)[0];
    EXPECT_NE(find(resharded.entries, "gathered weights of two layers"), nullptr);
    plan.reshard_after_forward = false;
    const StageMemory kept = stageMemory(plan)[0];
    EXPECT_EQ(find(kept.entries, "gathered weights of two layers"), nullptr);
    const StageParameters p = stageParameters(plan, StageId(0));
    EXPECT_DOUBLE_EQ(find(kept.entries, "gathered weights of the stage")->bytes.value,
                     2 * (p.dense + p.expert));
}

TEST(Memory, OffloadedActivationsLeaveTwoLayers) {
    Plan plan = smallPlan({});
    const StageMemory all = stageMemory(plan)[0];
    plan.offload.activations = 1.0;
    const StageMemory half = stageMemory(plan)[0];
    const double layers = 4 * sumOf(layerActivations(plan, LayerKind::Moe)).value;
    EXPECT_NEAR((all.per_micro_batch - half.per_micro_batch).value, layers / 2, 1e-3);
}

TEST(Memory, WhatLiesOutsideTheTensors) {
    Plan plan = smallPlan({.tp = 2, .ep = 2, .dp = 4});
    plan.framework = Framework::Megatron;
    plan.precision = Precision::Bf16;
    EXPECT_EQ(numCommunicators(plan), 5);  // world, tp, dp, ep, edp (4)
    const StageMemory s = stageMemory(plan)[0];
    EXPECT_GT(s.device_total, s.peak * 1.06);
    plan.memory = {.communication_buffer_bytes = 1e6,
                   .workspace_bytes = 0.0,
                   .context_bytes = 2e6,
                   .allocator_slack = 0.1};
    const StageMemory given = stageMemory(plan)[0];
    EXPECT_DOUBLE_EQ(given.device_total.value, given.peak.value * 1.1 + 5e6 + 2e6);
    plan.framework = Framework::Plain;
    plan.memory = {};
    plan.cluster.device.kind = DeviceKind::Cpu;
    EXPECT_EQ(stageMemory(plan)[0].device_total, stageMemory(plan)[0].peak);
}

/// Rank 0 is hot in one layer and rank 1 in the other: time waits twice, memory evens out.
TEST(Memory, TheHottestRankIsThatOfTheWholeStage) {
    Plan plan = smallPlan({.ep = 2, .dp = 2});
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    const std::vector<double> left = {3, 3, 3, 3, 1, 1, 1, 1}, right = {1, 1, 1, 1, 3, 3, 3, 3};
    plan.routing_load.histogram = {left, right, left, right};
    EXPECT_DOUBLE_EQ(memoryImbalance(plan, StageId(0)), 1.0);
    EXPECT_DOUBLE_EQ(
        operationWork(plan, {OperationKind::Forward, Phase::Expert}, StageId(0)).imbalance, 1.5);
    plan.routing_load.histogram = {left, left, left, right};
    EXPECT_DOUBLE_EQ(memoryImbalance(plan, StageId(0)), 1.25);
}

TEST(Memory, SkewRaisesTheHottestRank) {
    Plan plan = smallPlan({.ep = 4, .dp = 4});
    const Bytes balanced = stageMemory(plan)[0].peak;
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 1.0;
    EXPECT_GT(stageMemory(plan)[0].peak, balanced);
}

TEST(Memory, MlaKeepsItsLatents) {
    Plan plan = smallPlan({});
    plan.model = mlaMoe();
    plan.precision = Precision::Bf16;
    const std::vector<MemoryEntry> kept = layerActivations(plan, LayerKind::Moe);
    EXPECT_EQ(find(kept, "compressed query, key and value")->bytes.value,
              64.0 * (2 * 512 + 64) * 2);
    EXPECT_EQ(find(kept, "query, key, value")->bytes.value, 64.0 * 16 * (192 + 192 + 128) * 2);
    EXPECT_EQ(find(kept, "shared expert pre-activation")->bytes.value, 64.0 * 2 * 2816 * 2);
    EXPECT_NE(find(layerActivations(plan, LayerKind::Dense), "MLP pre-activation"), nullptr);
}

TEST(Memory, SequenceParallelDividesTheStream) {
    Plan plan = smallPlan({.tp = 2});
    const double whole = find(layerActivations(plan, LayerKind::Moe), "layer input")->bytes.value;
    plan.layout.sp = true;
    EXPECT_EQ(find(layerActivations(plan, LayerKind::Moe), "layer input")->bytes.value, whole / 2);
}

}  // namespace
}  // namespace piper
