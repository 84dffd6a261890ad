// SPDX-License-Identifier: Apache-2.0
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

using Layers = std::vector<std::int64_t>;

TEST(Stages, BalancedSplitGivesTheRestToTheOuterChunks) {
    EXPECT_EQ(balancedStageLayers(46, 4), (Layers{12, 11, 11, 12}));
    EXPECT_EQ(balancedStageLayers(30, 4), (Layers{8, 7, 7, 8}));
    EXPECT_EQ(balancedStageLayers(32, 4), (Layers{8, 8, 8, 8}));
    EXPECT_EQ(balancedStageLayers(7, 2), (Layers{4, 3}));
    EXPECT_EQ(balancedStageLayers(61, 1), (Layers{61}));
    for (std::int64_t layers = 1; layers < 70; ++layers)
        for (std::int64_t chunks = 1; chunks <= layers; ++chunks) {
            const Layers split = balancedStageLayers(layers, chunks);
            std::int64_t sum = 0;
            for (const std::int64_t n : split) sum += n;
            EXPECT_EQ(sum, layers);
            EXPECT_LE(*std::max_element(split.begin(), split.end()) -
                          *std::min_element(split.begin(), split.end()),
                      1);
        }
}

TEST(Stages, ChunksInterleaveOverTheRanks) {
    Plan p = test::plan("mixtral-8x7b-h100");
    p.layout.vpp = 2;
    const LayerRange first = stageLayers(p, StageId(0), ModelChunkId(0));
    EXPECT_EQ(first.begin, 0);
    EXPECT_EQ(first.end, 4);
    // Second chunk of stage 0 follows the first chunk of stage 3.
    const LayerRange second = stageLayers(p, StageId(0), ModelChunkId(1));
    EXPECT_EQ(second.begin, 16);
    const LayerRange last = stageLayers(p, StageId(3), ModelChunkId(1));
    EXPECT_EQ(last.end, 32);
}

TEST(Stages, GivenSplitDecides) {
    Plan p = test::plan("mixtral-8x7b-h100");
    p.stage_layers = {7, 9, 9, 7};
    EXPECT_EQ(effectiveStageLayers(p), (Layers{7, 9, 9, 7}));
    const LayerRange range = stageLayers(p, StageId(2), ModelChunkId(0));
    EXPECT_EQ(range.begin, 16);
    EXPECT_EQ(range.size(), 9);
}

}  // namespace
}  // namespace piper
