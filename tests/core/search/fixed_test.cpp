// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "core/search/search.h"

namespace piper {
namespace {

TEST(Fixed, ValuesReachThePlanAndKeysTheSpace) {
    Plan plan;
    const auto keys = applyFixed(plan, "tp=2 micro_batch_size=4 schedule=gpipe recompute=full");
    ASSERT_TRUE(keys.ok()) << keys.error().text();
    EXPECT_THAT(*keys, testing::ElementsAre("tp", "micro_batch_size", "schedule", "recompute"));
    EXPECT_EQ(plan.layout.tp, 2);
    EXPECT_EQ(plan.micro_batch_size, 4);
    EXPECT_EQ(plan.schedule, ScheduleKind::GPipe);
    EXPECT_EQ(plan.recompute.granularity, RecomputeGranularity::Full);
}

TEST(Fixed, UnknownKeyNamesTheNearest) {
    Plan plan;
    const auto keys = applyFixed(plan, "micro_batch=4");
    ASSERT_FALSE(keys.ok());
    EXPECT_NE(keys.error().message.find("micro_batch_size"), std::string::npos);
}

TEST(Fixed, BadValuesAreNamed) {
    Plan plan;
    for (const char* text : {"tp=0", "tp=two", "tp=", "tp", "zero_stage=4", "schedule=1f2b"})
        EXPECT_FALSE(applyFixed(plan, text).ok()) << text;
}

}  // namespace
}  // namespace piper
