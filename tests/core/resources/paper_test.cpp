// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/resources/memory.h"

namespace piper {
namespace {

struct XmoeModel {
    double seq, hidden, ffn, experts, topk, layers, billions;
};

// Source: X-MoE (arXiv 2508.13337), table 3; "B" is 2^30 there.
constexpr XmoeModel kXmoe[] = {{2048, 2048, 1408, 64, 6, 28, 10.06},
                               {4096, 5120, 1536, 128, 6, 28, 55.2},
                               {4096, 7168, 2048, 256, 8, 28, 201.4},
                               {4096, 7168, 2560, 256, 8, 61, 545.6}};

PaperMemoryInput inputOf(const XmoeModel& m) {
    PaperMemoryInput in;
    in.hidden_size = m.hidden;
    in.num_layers = m.layers;
    in.num_experts = m.experts;
    in.router_topk = m.topk;
    in.seq_len = m.seq;
    in.ffn = m.ffn;
    in.expert_matrices = 2;
    return in;
}

TEST(Paper, ReproducesTheParameterCountsOfXMoe) {
    for (const XmoeModel& m : kXmoe)
        EXPECT_NEAR(paperParameters(inputOf(m), true) / 1073741824.0 / m.billions, 1.0, 0.001);
}

TEST(Paper, LayerActivationOfXMoeIsExactlyNineEighthsOfAGiB) {
    EXPECT_EQ(xmoeLayerActivation(inputOf(kXmoe[2])).value, gib(1.125).value);
}

TEST(Paper, WeakScalingSizesNeedTwoMatrices) {
    PaperMemoryInput in;
    in.hidden_size = 5120;
    in.ffn = 20480;
    in.num_layers = 32;
    in.expert_matrices = 2;
    const auto billions = [&](double experts) {
        in.num_experts = experts;
        return paperParameters(in) / 1e9;
    };
    EXPECT_NEAR(billions(16), 111, 0.5);
    EXPECT_NEAR(billions(128), 862, 0.5);
    EXPECT_NEAR(billions(256), 1720, 5);
    in.expert_matrices = 3;
    EXPECT_NEAR(billions(16), 164, 0.5);
    EXPECT_NEAR(billions(128), 1290, 5);
    EXPECT_NEAR(billions(256), 2580, 5);
}

TEST(Paper, RedundancyOfDispatchBySpanOfTheExpertGroup) {
    const auto percent = [](std::int64_t nodes) { return 100 * dispatchRedundancy(256, 8, nodes); };
    EXPECT_NEAR(percent(2), 75.09, 0.005);
    EXPECT_NEAR(percent(4), 54.82, 0.005);
    EXPECT_NEAR(percent(8), 33.8, 0.05);
    EXPECT_NEAR(percent(16), 18.5, 0.05);
    EXPECT_NEAR(percent(32), 9.2, 0.05);
    EXPECT_NEAR(dispatchRedundancy(256, 8, 1), 1 - 1.0 / 8, 1e-12);  // one node: 7 of 8 rows
    EXPECT_NEAR(dispatchRedundancy(64, 1, 4), 0.0, 1e-12);           // top-1 never duplicates
}

struct Migration {
    double experts, hidden, ffn, published, decimal, binary;
    bool published_in_gib;
};

// Source: arXiv 2605.05049, table IV; the last two are its check in 1e9 bytes and in GiB.
constexpr Migration kMigration[] = {
    {128, 768, 2048, 1.21, 1.21, 1.12, false},      {8, 4096, 14336, 2.63, 2.82, 2.62, true},
    {8, 6144, 16384, 4.50, 4.83, 4.50, true},       {8, 6144, 32768, 9.00, 9.66, 9.00, true},
    {64, 8192, 32768, 102.88, 103.08, 96.0, false}, {160, 5120, 1536, 7.04, 7.55, 7.03, true},
    {256, 7168, 2048, 21.00, 22.55, 21.0, true}};

TEST(Paper, BytesOfExpertMigration) {
    for (const Migration& m : kMigration) {
        const Bytes sent = expertMigrationBytes(m.experts, m.hidden, m.ffn, 8);
        EXPECT_NEAR(inGB(sent), m.decimal, 0.0051);
        EXPECT_NEAR(inGiB(sent), m.binary, 0.0062);  // 1.125 is printed as 1.12, 2.625 as 2.62
        const double own_unit = m.published_in_gib ? inGiB(sent) : inGB(sent);
        EXPECT_NEAR(own_unit / m.published, 1.0, 0.005);
    }
}

/// Numbers small enough for hand arithmetic: d 2, L 4, E 4, k 2, H 1, s 3, b 8, f 5, PP 2, EP 2,
/// M 4.
PaperMemoryInput tiny() {
    PaperMemoryInput in;
    in.hidden_size = 2;
    in.num_layers = 4;
    in.num_experts = 4;
    in.router_topk = 2;
    in.num_heads = 1;
    in.seq_len = 3;
    in.global_batch = 8;
    in.ffn = 5;
    in.pp = 2;
    in.ep = 2;
    in.num_microbatches = 4;
    return in;
}

TEST(Paper, EquationsByHand) {
    const PaperMemoryInput in = tiny();
    // 64 d^2 = 256; 48 E d f = 1920; 12 b s d = 576; 4 b H s^2 = 288; 2 b s k (3f + d) = 1632.
    EXPECT_EQ(paperUnpartitionedMemory(in).value, 4 * (256 + 1920 + 576 + 288 + 1632));
    EXPECT_EQ(paperExpertDataParallelMemory(in, PaperReading::AsPublished).value,
              4 * (256 + 960 + 576 + 288 + 816));
    EXPECT_EQ(paperExpertDataParallelMemory(in, PaperReading::Corrected).value,
              4 * (256 + 960 + 288 + 144 + 816));
    // A micro-batch: (576 + 288 + 816) / 4 = 420 as published, (432 + 816) / 4 = 312 corrected.
    EXPECT_EQ(paperStageMemory(in, 0, PaperReading::AsPublished).value, 2 * (1216 + 2 * 420));
    EXPECT_EQ(paperStageMemory(in, 1, PaperReading::AsPublished).value, 2 * (1216 + 420));
    EXPECT_EQ(paperStageMemory(in, 0, PaperReading::Corrected).value, 2 * (1216 + 2 * 312));
    EXPECT_EQ(paperStageSkew(in, PaperReading::AsPublished).value, 2 * 420);
    EXPECT_EQ(paperStageSkew(in, PaperReading::Corrected).value, 2 * 312);
}

TEST(Paper, FewMicroBatchesBoundWhatIsInFlight) {
    PaperMemoryInput in = tiny();
    in.num_microbatches = 1;  // one micro-batch: both stages hold it, no skew
    EXPECT_EQ(paperStageMemory(in, 0, PaperReading::Corrected).value, 2 * (1216 + 1248));
    EXPECT_EQ(paperStageSkew(in, PaperReading::Corrected).value, 0);
    EXPECT_EQ(paperStageMemory(in, 0, PaperReading::AsPublished).value, 2 * (1216 + 2 * 1680));
    EXPECT_EQ(paperStageSkew(in, PaperReading::AsPublished).value, 2 * 1680);
}

TEST(Paper, FusedAttentionHasNoSquareAndTwoMatricesShrinkExperts) {
    PaperMemoryInput in = tiny();
    in.attention_square = false;
    EXPECT_EQ(paperUnpartitionedMemory(in).value, 4 * (256 + 1920 + 576 + 1632));
    in.expert_matrices = 2;  // 32 E d f = 1280, 2 b s k (2f + d) = 1152
    EXPECT_EQ(paperUnpartitionedMemory(in).value, 4 * (256 + 1280 + 576 + 1152));
}

TEST(Paper, AllToAllBound) {
    // 4 b s k d / (EP nic) = 4 * 8 * 3 * 2 * 2 / (2 * 96 B/s) = 2 s.
    EXPECT_DOUBLE_EQ(paperAllToAllBound(tiny(), BytesPerSecond(96)).value, 2.0);
}

}  // namespace
}  // namespace piper
