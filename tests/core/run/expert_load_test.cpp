// SPDX-License-Identifier: Apache-2.0
#include "core/run/expert_load.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(ExpertLoad, RecordsOfALayerAreAddedUp) {
    const std::vector<ExpertLoad> loads = {{4, LayerId(1), {6, 2, 0, 0}},
                                           {4, LayerId(3), {1, 1, 1, 1}},
                                           {4, LayerId(1), {0, 2, 4, 2}},
                                           {4, LayerId(5), {0, 0, 0, 0}}};
    const ExpertLoadSummary sum = summarizeLoad(loads);
    EXPECT_EQ(sum.tokens, (std::vector<std::int64_t>{7, 5, 5, 3}));
    ASSERT_EQ(sum.layers.size(), 2U) << "a layer that routed nothing has no ratio";
    EXPECT_EQ(sum.layers[0], (LayerLoad{LayerId(1), 1.5}));
    EXPECT_EQ(sum.layers[1], (LayerLoad{LayerId(3), 1.0}));
    EXPECT_DOUBLE_EQ(sum.hottestOverMean(), 1.4);
    ASSERT_NE(sum.worstLayer(), nullptr);
    EXPECT_EQ(sum.worstLayer()->layer, LayerId(1));
    EXPECT_EQ(describe(sum), "hottest expert 1.40 times the mean, in layer 1 1.50 times");
}

TEST(ExpertLoad, NothingRoutedIsEven) {
    const ExpertLoadSummary none = summarizeLoad({});
    EXPECT_TRUE(none.empty());
    EXPECT_DOUBLE_EQ(none.hottestOverMean(), 1.0);
    EXPECT_EQ(none.worstLayer(), nullptr);
    EXPECT_EQ(describe(none), "");
}

TEST(ExpertLoad, TheLastStepOfARunIsThatOfAllRanks) {
    piper::Run run;
    run.ranks.resize(2);
    run.ranks[0].expert_load = {{0, LayerId(0), {9, 0}}, {1, LayerId(0), {2, 1}}};
    run.ranks[1].expert_load = {{0, LayerId(0), {9, 0}}, {1, LayerId(0), {1, 0}}};
    EXPECT_EQ(lastStepLoad(run).tokens, (std::vector<std::int64_t>{3, 1}));
    EXPECT_TRUE(lastStepLoad(piper::Run()).empty());
}

}  // namespace
}  // namespace piper
