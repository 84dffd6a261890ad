// SPDX-License-Identifier: Apache-2.0
// The memory cases of tests/data/user_cases.csv: one test an id, its number or sign as stated
// there.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include "core/resources/memory.h"
#include "core/resources/work.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

ModelSpec config(const char* name) {
    const std::string file = std::string("packaging/examples/configs/") + name + ".json";
    return *readModelText(test::readText(test::sourceDir() / file), name);
}

Plan planOn(const char* device, std::int64_t devices, ModelSpec model, Framework framework) {
    Plan p;
    p.model = std::move(model);
    p.cluster = *defaultCluster(device, std::max<std::int64_t>(1, devices / 8));
    p.framework = framework;
    p.precision = Precision::Bf16;
    p.zero_stage = 1;
    p.seq_len = 4096;
    return p;
}

StageMemory worst(const Plan& plan) {
    const std::vector<StageMemory> stages = stageMemory(plan);
    return *std::ranges::max_element(stages, {}, &StageMemory::peak);
}

bool fits(const Plan& plan) {
    return worst(plan).device_total <= plan.cluster.device.memory;
}

double termOf(const StageMemory& s, std::string_view name) {
    double sum = 0.0;
    for (const MemoryEntry& e : s.entries)
        if (e.name.find(name) != std::string_view::npos) sum += e.bytes.value;
    return sum;
}

double state(const StageMemory& s) {
    double sum = 0.0;
    for (const MemoryEntry& e : s.entries)
        if (e.lifetime == Lifetime::Persistent && isPersistent(e.term)) sum += e.bytes.value;
    return sum;
}

ModelSpec moeModel(std::int64_t layers, std::int64_t dense, std::int64_t hidden,
                   std::int64_t experts, std::int64_t topk, std::int64_t ffn, std::int64_t vocab) {
    ModelSpec m;
    m.hidden_size = hidden;
    m.num_layers = layers;
    m.vocab_size = vocab;
    m.ffn_hidden_size = 4 * hidden;
    m.attention.num_heads = 64;
    m.attention.num_kv_heads = 8;
    m.attention.head_dim = 128;
    MoeSpec moe;
    moe.num_experts = experts;
    moe.router_topk = topk;
    moe.moe_ffn_hidden_size = ffn;
    m.moe = moe;
    m.layers.assign(static_cast<std::size_t>(layers), LayerKind::Moe);
    std::fill_n(m.layers.begin(), dense, LayerKind::Dense);
    return m;
}

/// MiMo-V2-Flash: 256 experts of 4096 x 2048 in 47 of 48 layers are 302.8e9 parameters.
TEST(UserCases, M01_ExpertWeightsAloneDoNotFitAtEtp1) {
    Plan p =
        planOn("H100 SXM", 16, moeModel(48, 1, 4096, 256, 8, 2048, 152576), Framework::Megatron);
    p.layout = {.tp = 2, .sp = true, .ep = 8, .dp = 8};
    EXPECT_NEAR(termOf(worst(p), "expert weights"), 75.7e9, 0.05e9);
    EXPECT_FALSE(fits(p));
    p.layout.etp = 2;
    EXPECT_NEAR(termOf(worst(p), "expert weights"), 37.85e9, 0.05e9);
    p.layout.etp = 1;
    p.layout.pp = 2;
    p.layout.dp = 4;
    EXPECT_NEAR(termOf(worst(p), "expert weights"), 37.85e9, 1.7e9);  // 24 of 47 layers
}

/// Hy3-preview (80 layers, 192 experts of 4096 x 1536), 16-bit AdamW state in Automodel: Adam's
/// state makes pp4 ep8 overflow at the first optimizer step, on 32 devices and, since replicas
/// share nothing, as two replicas on 64. How many tokens a micro-batch had is not told: as many as
/// bring the layout that ran, pp8 ep8, to its measured 41.8 GiB.
TEST(UserCases, M02_FourLayoutsOnH100) {
    Plan p =
        planOn("H100 SXM", 32, moeModel(80, 1, 4096, 192, 8, 1536, 120832), Framework::Torchtitan);
    p.optimizer = {OptimizerKind::AdamW, StateFormat::Bf16, StateFormat::Bf16,
                   StateFormat::None,    StateFormat::Bf16, StateFormat::Bf16};
    p.zero_stage = 3;
    p.recompute.granularity = RecomputeGranularity::Full;
    p.fused_cross_entropy = true;
    p.global_batch_size = 64;
    p.cluster.device.memory = gib(79.1);
    p.layout = {.pp = 8, .ep = 8, .dp = 8};
    for (p.seq_len = 1024; worst(p).peak < gib(41.8) && p.seq_len < 65536;) p.seq_len += 256;
    EXPECT_LT(p.seq_len, 8192);
    EXPECT_TRUE(fits(p));
    p.layout = {.pp = 4, .ep = 8, .dp = 8};
    EXPECT_NEAR(inGiB(worst(p).peak), 74.7, 3.0);  // were allocated when it failed
    EXPECT_FALSE(fits(p)) << inGiB(worst(p).device_total);
    // The peak is after the first step, which makes the moments: without them it fits.
    p.optimizer.first_moment = p.optimizer.second_moment = StateFormat::None;
    EXPECT_TRUE(fits(p)) << inGiB(worst(p).device_total);
    p.optimizer.first_moment = p.optimizer.second_moment = StateFormat::Bf16;
    p.layout = {.pp = 4, .ep = 16, .dp = 16};
    EXPECT_TRUE(fits(p)) << inGiB(worst(p).device_total);
}

/// torchtitan's deepseek_v3_16b (the sizes of DeepSeek-V2-Lite) on eight H100: the default batch
/// overflows, a smaller one holds 73.3 of 79.1 GiB, and with ep 1 about 96 % of them.
TEST(UserCases, M03_DefaultBatchOverflowsSmallerIsTight) {
    Plan p = planOn("H100 SXM", 8, config("DeepSeek-V2-Lite"), Framework::Torchtitan);
    p.zero_stage = 3;
    p.layout = {.ep = 8, .dp = 8};
    p.recompute.granularity = RecomputeGranularity::Selective;
    p.recompute.modules = {"op"};
    p.micro_batch_size = 4;
    p.global_batch_size = 64;
    EXPECT_FALSE(fits(p)) << inGiB(worst(p).device_total);
    const std::string_view crossing = worst(p).peak_moment;
    EXPECT_EQ(crossing, "backward of the head");  // what crosses the line is named
    p.micro_batch_size = 2;
    const double share = worst(p).device_total / p.cluster.device.memory;
    EXPECT_GT(share, 0.8);  // 0.927 was reserved
    EXPECT_LT(share, 1.0);
    p.layout.ep = 1;
    const double alone = worst(p).device_total / p.cluster.device.memory;
    EXPECT_GT(alone, share);
    EXPECT_LT(alone, 1.0);
    EXPECT_NEAR(alone / share, 0.96 / 0.927, 0.05);
}

TEST(UserCases, M04_OnlyTheShardedStateShrinksWithTheShards) {
    Plan p = planOn("B200", 128, config("Qwen3-30B-A3B"), Framework::Torchtitan);
    p.zero_stage = 3;
    std::vector<double> held;
    for (const std::int64_t shards : {8, 16, 32, 64, 128}) {
        p.layout = {.ep = 8, .dp = shards};
        p.global_batch_size = 8 * shards;
        held.push_back(state(worst(p)) / (1024.0 * 1024 * 1024));
    }
    const double measured[] = {29.2, 14.2, 7.1, 2.7}, predicted[] = {28.4, 14.2, 7.1, 3.6};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(held[i] - held[i + 1], predicted[i], 0.15);
        EXPECT_NEAR(held[i] - held[i + 1], measured[i], 1.0);
    }
}

TEST(UserCases, M05_OffloadSavesTheMoments) {
    Plan p = planOn("H100 SXM", 16, config("Qwen3-30B-A3B"), Framework::Megatron);
    p.layout = {.tp = 2, .sp = true, .pp = 2, .ep = 4, .dp = 4};
    p.global_batch_size = 64;
    const double all = worst(p).persistent.value;
    p.offload.optimizer = true;
    EXPECT_NEAR(all - worst(p).persistent.value, 15.3e9, 0.4e9);
    p.offload.fraction = 0.25;
    EXPECT_NEAR(all - worst(p).persistent.value, 3.8e9, 0.15e9);
}

/// Moonlight-16B-A3B: DeepSeek-V2-Lite's sizes with a vocabulary of 163840.
Plan moonlight() {
    Plan p = planOn("H100 SXM", 8, config("DeepSeek-V2-Lite"), Framework::Megatron);
    p.model.vocab_size = 163840;
    p.model.ffn_hidden_size = 11264;
    p.layout = {.tp = 2, .sp = true, .ep = 8, .dp = 4};
    p.global_batch_size = 4;
    p.fused_cross_entropy = true;
    return p;
}

double saved(Plan p, const char* module) {
    const double all = worst(p).peak.value;
    p.recompute.granularity = RecomputeGranularity::Selective;
    p.recompute.modules = {module};
    return all - worst(p).peak.value;
}

TEST(UserCases, M06_RecomputeByModule) {
    EXPECT_NEAR(saved(moonlight(), "moe_act"), 0.68e9, 0.3e9);
    EXPECT_NEAR(saved(moonlight(), "mla_up_proj"), 0.72e9, 0.3e9);
    EXPECT_LT(saved(moonlight(), "core_attn"), 0.05e9);
}

TEST(UserCases, M07_TheHotRankNotRankZero) {
    Plan p = moonlight();
    p.layout = {.ep = 8, .dp = 8};
    p.seq_len = 8192;
    const StageMemory balanced = worst(p);
    p.routing_load.kind = RoutingLoadKind::Zipf;
    p.routing_load.zipf_exponent = 0.5;
    const StageMemory hot = worst(p);
    EXPECT_GT(hot.peak - balanced.peak, gb(4.0));
    EXPECT_EQ(hot.persistent, balanced.persistent);
    p.recompute.granularity = RecomputeGranularity::Selective;
    p.recompute.modules = {"moe"};
    EXPECT_LT(worst(p).peak, hot.peak);
    const Bytes moe = worst(p).peak;
    p.recompute.modules = {"moe", "layernorm"};
    EXPECT_LT(worst(p).peak, moe);
}

/// DeepSeek-V3 cut to 14 layers, one multi-token prediction layer, 64 H100.
TEST(UserCases, M08_FullRecomputeOfFourteenLayers) {
    Plan p = planOn("H100 SXM", 64, config("DeepSeek-V3"), Framework::Megatron);
    p.model.num_layers = 14;
    p.model.layers.resize(14);
    p.model.mtp_num_layers = 1;
    p.layout = {.pp = 4, .vpp = 2, .ep = 16, .dp = 16};
    p.stage_layers = {2, 2, 2, 2, 2, 2, 2, 0};
    p.schedule = ScheduleKind::InterleavedOneF1B;
    p.seq_len = 2048;
    p.global_batch_size = 256;
    const double none = worst(p).peak.value / 1e6;
    p.recompute.granularity = RecomputeGranularity::Full;
    const double full = worst(p).peak.value / 1e6;
    EXPECT_LT(full, none);
    EXPECT_NEAR(full, 60154, 0.15 * 60154);
    EXPECT_NEAR(none, 68704, 0.15 * 68704);
}

TEST(UserCases, M09_TheHeaviestStageNotTheMean) {
    Plan p = planOn("H100 SXM", 8, moeModel(8, 0, 64, 8, 2, 96, 256), Framework::Megatron);
    p.layout = {.pp = 4};
    p.stage_layers = {1, 2, 2, 3};
    p.global_batch_size = 8;
    std::vector<double> held;
    for (const StageMemory& s : stageMemory(p)) held.push_back(state(s));
    const double mean = std::accumulate(held.begin(), held.end(), 0.0) / 4.0;
    EXPECT_EQ(std::ranges::max_element(held) - held.begin(), 3);
    EXPECT_NEAR(mean / held[3], 0.682, 0.03);
}

TEST(UserCases, M10_ThreeBucketsOfWeights) {
    Plan p = planOn("H100 SXM", 64, config("DeepSeek-V2-Lite"), Framework::Megatron);
    p.layout = {.tp = 4, .sp = true, .ep = 8, .etp = 2, .dp = 16};
    const MoeSpec& moe = *p.model.moe;
    const double experts = 26.0 * static_cast<double>(moe.num_experts * 3 * p.model.hidden_size *
                                                      moe.moe_ffn_hidden_size);
    EXPECT_DOUBLE_EQ(stageParameters(p, StageId(0)).expert, experts / (8 * 2));
    const double all = state(worst(p));
    p.zero_stage = 0;
    const double edp = static_cast<double>(p.layout.edp());
    EXPECT_DOUBLE_EQ(edp, 4.0);
    EXPECT_NEAR(state(worst(p)) - all,
                12.0 * (experts / 16) * (1 - 1 / edp) +
                    12.0 * stageParameters(p, StageId(0)).dense * (1 - 1.0 / 16),
                1e3);
}

TEST(UserCases, M11_ExpertParallelCancelsInActivations) {
    for (const std::int64_t ep : {1, 2, 8}) {
        Plan p = planOn("H100 SXM", 64, config("Mixtral-8x7B-v0.1"), Framework::Megatron);
        p.layout = {.tp = 2, .sp = true, .ep = ep, .dp = 32};
        const std::vector<MemoryEntry> kept = layerActivations(p, LayerKind::Moe);
        const auto product = std::ranges::find(kept, "expert activation", &MemoryEntry::name);
        ASSERT_NE(product, kept.end());
        EXPECT_DOUBLE_EQ(product->bytes.value, 2.0 * 4096 * 14336 / 2 * 2);  // topk s b ffn / tp
    }
}

TEST(UserCases, M12_TheExpertGradientOfALayerIsNamed) {
    Plan p =
        planOn("H100 SXM", 64, moeModel(60, 0, 5120, 32, 2, 6144, 32000), Framework::Torchtitan);
    p.zero_stage = 3;
    p.layout = {.dp = 64};
    p.micro_batch_size = 8;
    p.global_batch_size = 512;
    const StageMemory s = worst(p);
    const auto held = std::ranges::find(
        s.entries, "gradients of one layer before they are scattered", &MemoryEntry::name);
    ASSERT_NE(held, s.entries.end());
    EXPECT_EQ(held->lifetime, Lifetime::PerOperation);
    EXPECT_GT(held->bytes.value, 3 * 32.0 * 6144 * 5120 * 2);  // 2.0 GB a matrix
    EXPECT_FALSE(fits(p));
}

TEST(UserCases, M13_FirstAndLastStageAreHeavier) {
    Plan p = planOn("A100 SXM", 8, moeModel(4, 4, 4096, 8, 2, 96, 50304), Framework::DeepSpeed);
    p.model.moe.reset();
    p.layout = {.pp = 4};
    p.seq_len = 1024;
    p.global_batch_size = 8;
    const std::vector<StageMemory> s = stageMemory(p);
    EXPECT_GT(s[0].peak, s[1].peak * 1.2);
    EXPECT_GT(s[3].peak, s[2].peak * 1.2);
}

TEST(UserCases, M14_NothingOffloadedIsLeftOut) {
    Plan p = planOn("A100 SXM", 8, moeModel(48, 48, 3072, 8, 2, 96, 50304), Framework::DeepSpeed);
    p.model.moe.reset();
    p.layout = {.dp = 4};
    p.zero_stage = 3;
    p.seq_len = 2048;
    p.global_batch_size = 4;
    p.offload = {.optimizer = true, .parameters = true};
    const StageMemory s = worst(p);
    EXPECT_EQ(termOf(s, "layer weights") + termOf(s, "optimizer state"), 0.0);
    for (const char* name : {"gathered weights", "layer input", "logits", "buckets"})
        EXPECT_GT(termOf(s, name), 0.0) << name;
    EXPECT_GT(s.device_total, gb(10.0));  // 0.49 was forecast, 14.7 to 21.3 seen
}

TEST(UserCases, M15_TheFp32GradientCopyIsATermOfItsOwn) {
    Plan p = planOn("A100 SXM 40GB", 32, moeModel(32, 16, 4096, 16, 1, 16384, 50304),
                    Framework::DeepSpeed);
    p.zero_stage = 2;
    p.layout = {.ep = 16, .dp = 32};
    p.global_batch_size = 32;
    const std::vector<MemoryEntry> step = optimizerTransients(p, StageId(0));
    const auto copy =
        std::ranges::find(step, "expert gradients in fp32 for the optimizer", &MemoryEntry::name);
    ASSERT_NE(copy, step.end());
    EXPECT_DOUBLE_EQ(copy->bytes.value, 4.0 * stageParameters(p, StageId(0)).expert / 2);
}

TEST(UserCases, M16_CoreAttentionSavesLittleWhenFused) {
    Plan p = planOn("A100 SXM", 8, config("Mixtral-8x7B-v0.1"), Framework::Megatron);
    p.model.num_layers = 2;
    p.model.layers.resize(2);
    const double fused = saved(p, "core_attn") / worst(p).peak.value;
    EXPECT_LT(fused, 0.03);
    p.fused_attention = false;
    EXPECT_GT(saved(p, "core_attn") / worst(p).peak.value, 2 * fused);
}

TEST(UserCases, M17_CombineRowsAreALineUnlessFused) {
    Plan p = planOn("H100 SXM", 8, config("DeepSeek-V2-Lite"), Framework::Torchtitan);
    p.layout = {.pp = 2, .ep = 2, .dp = 4};
    p.seq_len = 2048;
    p.global_batch_size = 16;
    EXPECT_GT(termOf(worst(p), "returned expert rows"), 0.5e9);
    p.framework = Framework::Megatron;
    EXPECT_EQ(termOf(worst(p), "returned expert rows"), 0.0);
}

TEST(UserCases, M18_BytesOfAnExpertParameterAtEdp4) {
    Plan p = planOn("H100 SXM", 64, config("DeepSeek-V2-Lite"), Framework::Megatron);
    p.layout = {.ep = 16, .dp = 64};
    const StageMemory s = worst(p);
    double bytes = 0.0;
    for (const MemoryEntry& e : s.entries)
        if (isPersistent(e.term) && e.name.starts_with("expert")) bytes += e.bytes.value;
    EXPECT_DOUBLE_EQ(bytes / stageParameters(p, StageId(0)).expert, 9.0);
}

/// GPT-2 774M on a V100: 23.3 GB were predicted, over 28.8 GiB allocated.
TEST(UserCases, M19_UnfusedScoresAndSlackAreTerms) {
    Plan p = planOn("A100 SXM", 8, moeModel(36, 36, 1280, 8, 2, 96, 50257), Framework::Megatron);
    p.model.moe.reset();
    p.model.attention.num_heads = p.model.attention.num_kv_heads = 20;
    p.model.attention.head_dim = 64;
    p.seq_len = 1024;
    p.micro_batch_size = p.global_batch_size = 4;
    p.precision = Precision::Fp16;
    const StageMemory fused = worst(p);
    p.fused_attention = false;
    const StageMemory scores = worst(p);
    EXPECT_GT(termOf(scores, "attention softmax"), 6e9);
    EXPECT_GT(scores.peak - fused.peak, gb(6.0));
    EXPECT_GT(scores.device_total, scores.peak * 1.05);
}

TEST(UserCases, M20_SixteenBitStateOverEightRanks) {
    Plan p = planOn("H100 SXM", 8, config("Qwen3-30B-A3B"), Framework::Torchtitan);
    p.optimizer = {OptimizerKind::AdamW, StateFormat::Bf16, StateFormat::Bf16,
                   StateFormat::None,    StateFormat::Bf16, StateFormat::Bf16};
    p.zero_stage = 3;
    p.layout = {.ep = 8, .dp = 8};
    p.seq_len = 2048;
    p.global_batch_size = 8;
    EXPECT_NEAR(state(worst(p)), 30.53e9, 0.1e9);
}

TEST(UserCases, M21_Zero2KeepsAllWeights) {
    Plan p = planOn("H100 SXM", 32, config("Qwen3-30B-A3B"), Framework::DeepSpeed);
    p.zero_stage = 2;
    p.layout = {.dp = 32};
    p.seq_len = 8192;
    p.global_batch_size = 32;
    p.recompute.granularity = RecomputeGranularity::Full;
    EXPECT_NEAR(inGiB(sumOf(optimizerTransients(p, StageId(0)))), 3.56, 0.02);
    EXPECT_FALSE(fits(p)) << inGiB(worst(p).device_total);
    p.zero_stage = 3;
    EXPECT_TRUE(fits(p)) << inGiB(worst(p).device_total);
}

TEST(UserCases, EveryMemoryCaseOfTheTableHasATest) {
    std::set<std::string> tests;
    const auto* suite = ::testing::UnitTest::GetInstance()->current_test_suite();
    for (int i = 0; i < suite->total_test_count(); ++i)
        tests.insert(std::string(suite->GetTestInfo(i)->name()).substr(0, 3));
    std::stringstream in(test::readText(test::sourceDir() / "tests/data/user_cases.csv"));
    int found = 0;
    for (std::string line; std::getline(in, line);) {
        if (line.size() < 10 || line.substr(3, 7) != ",memory") continue;
        EXPECT_TRUE(tests.contains(line.substr(0, 3))) << line;
        ++found;
    }
    EXPECT_EQ(found, 21);
}

}  // namespace
}  // namespace piper
