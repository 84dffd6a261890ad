// SPDX-License-Identifier: Apache-2.0
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

const EffectiveValue& effective(const CompletedLayout& layout, std::string_view key) {
    const auto found = std::find_if(layout.effective.begin(), layout.effective.end(),
                                    [&](const EffectiveValue& v) { return v.key == key; });
    EXPECT_NE(found, layout.effective.end()) << key;
    return *found;
}

TEST(CompleteLayout, DegreesNotGivenAreOneAndDpFollows) {
    const CompletedLayout c = *completeLayout("tp=2 pp=4 ep=8", 64, Framework::Plain);
    EXPECT_EQ(c.layout.tp, 2);
    EXPECT_EQ(c.layout.cp, 1);
    EXPECT_EQ(c.layout.etp, 1);
    EXPECT_EQ(c.layout.dp, 8);
    EXPECT_EQ(c.layout.edp(), 2);
    EXPECT_EQ(effective(c, "tp").origin, "given");
    EXPECT_EQ(effective(c, "cp").origin, "default");
    EXPECT_EQ(effective(c, "dp").origin, "world 64 / (tp 2 x cp 1 x pp 4)");
    EXPECT_EQ(effective(c, "edp").value, 2);
}

TEST(CompleteLayout, EtpOfMegatronIsTp) {
    const CompletedLayout c = *completeLayout("tp=4 ep=4", 16, Framework::Megatron);
    EXPECT_EQ(c.layout.etp, 4);
    EXPECT_EQ(effective(c, "etp").origin, "default of megatron: tp");
    EXPECT_TRUE(c.layout.sp);
    EXPECT_EQ(completeLayout("tp=4 ep=4 etp=1", 16, Framework::Megatron)->layout.etp, 1);
    EXPECT_EQ(completeLayout("tp=4 ep=4", 16, Framework::DeepSpeed)->layout.etp, 1);
}

TEST(CompleteLayout, WithoutAWorldTheSmallestOne) {
    const CompletedLayout c = *completeLayout("pp=6,ep=8", 0, Framework::Plain);
    EXPECT_EQ(effective(c, "world").value, 48);
    EXPECT_EQ(c.layout.dp, 8);
    EXPECT_EQ(completeLayout("pp=2 dp=3", 0, Framework::Plain)->layout.world(), 6);
}

TEST(CompleteLayout, SequenceParallelFlag) {
    EXPECT_TRUE(completeLayout("tp=2 sp", 2, Framework::Plain)->layout.sp);
    EXPECT_TRUE(completeLayout("tp=2 sp=1", 2, Framework::Plain)->layout.sp);
    EXPECT_FALSE(completeLayout("tp=2 sp=0", 2, Framework::Megatron)->layout.sp);
}

TEST(CompleteLayout, BadTextIsAnErrorWithTheWord) {
    const auto message = [](std::string_view text) {
        const auto r = completeLayout(text, 8, Framework::Plain);
        return r.ok() ? std::string() : r.error().text();
    };
    EXPECT_NE(message("tpp=2").find("'tp'"), std::string::npos);
    EXPECT_NE(message("tp=0").find("tp=0"), std::string::npos);
    EXPECT_NE(message("tp=-2").find("-2"), std::string::npos);
    EXPECT_NE(message("tp=two").find("two"), std::string::npos);
    EXPECT_NE(message("tp=").find("whole number"), std::string::npos);
    EXPECT_NE(message("tp").find("no value"), std::string::npos);
    EXPECT_NE(message("tp=2 tp=4").find("twice"), std::string::npos);
    EXPECT_NE(message("tp=99999999999999999999").find("tp="), std::string::npos);
    EXPECT_TRUE(message("").empty());
}

TEST(MinimumWorld, LeastCommonMultipleOfBothGrids) {
    Layout l;
    l.tp = 6;
    l.ep = 8;
    EXPECT_EQ(minimumWorld(l), 24);
    l = Layout{};
    l.pp = 6;
    l.ep = 8;
    EXPECT_EQ(minimumWorld(l), 48);
    l.tp = 4;
    l.cp = 2;
    l.etp = 2;
    EXPECT_EQ(minimumWorld(l), 6 * 16);
}

}  // namespace
}  // namespace piper
