// SPDX-License-Identifier: Apache-2.0
#include "core/validate/free_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace piper {
namespace {

using testing::ElementsAre;

TEST(FreeText, Sharding) {
    EXPECT_EQ(parseSharding("ZeRO-1(dist-opt)")->zero_stage, 1);
    EXPECT_EQ(parseSharding("ZeRO-1 group 8")->group, 8);
    EXPECT_EQ(parseSharding("ZeRO-1 group all")->group, 0);
    EXPECT_EQ(parseSharding("FSDP SHARD_GRAD_OP")->zero_stage, 2);
    EXPECT_EQ(parseSharding("FSDP2 shard=128")->zero_stage, 3);
    EXPECT_EQ(parseSharding("FSDP2 shard=1")->zero_stage, 0);
    EXPECT_EQ(parseSharding("FSDP=128 x DP")->group, 128);
    EXPECT_EQ(parseSharding("none")->zero_stage, 0);
    EXPECT_FALSE(parseSharding("sharded a bit").ok());
}

TEST(FreeText, Recompute) {
    EXPECT_EQ(parseRecompute("full")->granularity, RecomputeGranularity::Full);
    EXPECT_EQ(parseRecompute("none (no SP)")->granularity, RecomputeGranularity::None);
    EXPECT_THAT(parseRecompute("mla_up_proj+mlp")->modules, ElementsAre("mla_up_proj", "mlp"));
    EXPECT_THAT(parseRecompute("selective(attention core)")->modules, ElementsAre("core_attn"));
    EXPECT_THAT(parseRecompute("SP+selective")->modules, ElementsAre("core_attn"));
    EXPECT_THAT(parseRecompute("selective(op)")->modules, ElementsAre("op"));
    EXPECT_THAT(parseRecompute("moe+layernorm")->modules, ElementsAre("layernorm", "moe"));
    EXPECT_THAT(parseRecompute("moe_act")->modules, ElementsAre("moe_act"));
    EXPECT_THAT(parseRecompute("moe")->modules, ElementsAre("moe"));
    EXPECT_FALSE(parseRecompute("some").ok());
}

TEST(FreeText, Precision) {
    EXPECT_EQ(*parsePrecision("FP8-CS(per-tensor)"), Precision::Fp8);
    EXPECT_EQ(*parsePrecision("FP8-MX"), Precision::Mxfp8);
    EXPECT_EQ(*parsePrecision("NVFP4"), Precision::Nvfp4);
    EXPECT_EQ(*parsePrecision("FP16/BF16"), Precision::Bf16);
    EXPECT_EQ(*parsePrecision("amp_fp8"), Precision::Fp8);
    EXPECT_EQ(*parsePrecision("FP16"), Precision::Fp16);
    EXPECT_FALSE(parsePrecision("int4").ok());
}

TEST(FreeText, OverlapTurnsOffWhatAListLeavesOut) {
    const Overlap all{true, true, false, true, true, true}, none{};
    EXPECT_EQ(parseOverlap("", all), all);
    EXPECT_EQ(parseOverlap("TP userbuffers; P2P; DP grad/param", all), all);
    EXPECT_FALSE(parseOverlap("DP grad/param", all).tp);
    EXPECT_TRUE(parseOverlap("DP grad/param", all).dp_grad_reduce);
    EXPECT_FALSE(parseOverlap("none (TP/DP/P2P overlap off); CP a2a", all).dp_param_gather);
    EXPECT_FALSE(parseOverlap("none (TP/DP/P2P overlap off); CP a2a", all).cp);
    EXPECT_TRUE(parseOverlap("EP overlap on (validation); HybridEP", all).ep);
    EXPECT_TRUE(parseOverlap("EP overlap off; HybridEP", all).tp);
    EXPECT_TRUE(parseOverlap("torch.compile+AsyncTP", none).tp);
    EXPECT_FALSE(parseOverlap("vanilla TP; compile", all).tp);
    EXPECT_TRUE(parseOverlap("MegaScale (PTB, SWA, TP/PP/DP overlap)", none).dp_grad_reduce);
}

TEST(FreeText, Schedule) {
    EXPECT_EQ(**parseSchedule("schedule=ZB-2p"), ScheduleKind::ZbH2);
    EXPECT_EQ(**parseSchedule("schedule=1F1B-I"), ScheduleKind::InterleavedOneF1B);
    EXPECT_EQ(**parseSchedule("1F1B; local batch 32"), ScheduleKind::OneF1B);
    EXPECT_FALSE(parseSchedule("DP grad/param")->has_value());
    EXPECT_FALSE(parseSchedule("schedule=ZB-9").ok());
}

TEST(FreeText, NicRates) {
    EXPECT_NEAR(parseNicRate("NVLink3 + 4x100Gb RoCE per node", 8)->value, 6.25e9, 1);
    EXPECT_NEAR(parseNicRate("NVLink + RoCE 3200 Gb/s per node", 8)->value, 50e9, 1);
    EXPECT_NEAR(parseNicRate("NVLink 450GB/s + IB 400Gb/s per GPU (Eos)", 8)->value, 50e9, 1);
    EXPECT_FALSE(parseNicRate("NVL72 NVLink5", 4));
    EXPECT_FALSE(parseNicRate("NVLink3 + 8x HDR200 IB (Selene)", 8));
}

TEST(FreeText, NumbersBehindAKey) {
    EXPECT_EQ(numberAfter("layers=12; GA=64", "layers"), 12.0);
    EXPECT_EQ(numberAfter("dense_layers=1", "layers"), std::nullopt);
    EXPECT_EQ(numberAfter("capacity factor 1.25;", "capacity factor"), 1.25);
    EXPECT_EQ(numberAfter("layers unknown", "layers"), std::nullopt);
}

}  // namespace
}  // namespace piper
