// SPDX-License-Identifier: Apache-2.0
#include "core/run/vocabulary.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "core/run/run.h"

namespace piper {
namespace {

template <class E>
void expectBijective(std::size_t count) {
    std::set<std::string_view> names;
    std::set<E> values;
    for (const EnumName<E>& row : enumNames<E>()) {
        names.insert(row.name);
        values.insert(row.value);
        const Result<E> parsed = parseEnum<E>(toText(row.value), "value");
        ASSERT_TRUE(parsed.ok()) << row.name;
        EXPECT_EQ(*parsed, row.value);
    }
    EXPECT_EQ(names.size(), count);
    EXPECT_EQ(values.size(), count);
}

TEST(Vocabulary, EveryValueHasOneNameAndBack) {
    expectBijective<Phase>(kNumPhases);
    expectBijective<PipelinePhase>(3);
    expectBijective<OperationKind>(12);
    expectBijective<Pass>(3);
    expectBijective<Lane>(7);
    expectBijective<MemoryTerm>(kNumMemoryTerms);
    expectBijective<RunKind>(2);
    expectBijective<RunOutcome>(4);
}

TEST(Vocabulary, NamesAreThoseThatFilesAndCommandsUse) {
    std::vector<std::string_view> phases;
    for (const auto& row : enumNames<Phase>()) phases.push_back(row.name);
    EXPECT_THAT(phases, testing::ElementsAre("embedding", "attention", "router", "dispatch",
                                             "expert", "combine", "head_loss", "tp_comm", "cp_comm",
                                             "pp_comm", "dp_comm", "optimizer", "idle"));
    EXPECT_EQ(toText(OperationKind::InputGrad), "input_grad");
    EXPECT_EQ(toText(Lane::TpCp), "tp_cp");
    const Result<Phase> wrong = parseEnum<Phase>("atention", "phase");
    ASSERT_FALSE(wrong.ok());
    EXPECT_NE(wrong.error().message.find("'attention'"), std::string::npos);
}

TEST(Vocabulary, CommunicationAndPersistence) {
    int communication = 0, persistent = 0;
    for (const auto& row : enumNames<Phase>()) communication += isCommunication(row.value);
    for (const auto& row : enumNames<MemoryTerm>()) persistent += isPersistent(row.value);
    EXPECT_EQ(communication, 6);
    EXPECT_EQ(persistent, 4);
    EXPECT_TRUE(isCommunication(Phase::Dispatch));
    EXPECT_FALSE(isCommunication(Phase::Expert));
}

TEST(Intervals, UnionCountsOverlapsOnceAndIgnoresEmptyOnes) {
    EXPECT_EQ(unionLength({}), 0);
    EXPECT_EQ(unionLength({{5, 5}, {7, 3}}), 0);
    EXPECT_EQ(unionLength({{10, 20}, {0, 5}, {15, 30}, {16, 17}}), 25);
    const auto merged = mergeIntervals({{4, 6}, {0, 2}, {2, 4}});
    ASSERT_EQ(merged.size(), 1U);
    EXPECT_EQ(merged[0].begin, 0);
    EXPECT_EQ(merged[0].end, 6);
}

TEST(Intervals, AgreeWithCountingUnits) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> position(0, 200), length(0, 30);
    for (int round = 0; round < 200; ++round) {
        std::vector<Interval> a, b;
        std::vector<bool> in_a(256), in_b(256);
        for (int i = 0; i < 12; ++i) {
            for (auto* side : {&a, &b}) {
                const int begin = position(random);
                const int end = begin + length(random);
                side->push_back({begin, end});
                for (int t = begin; t < end; ++t)
                    (side == &a ? in_a : in_b)[static_cast<std::size_t>(t)] = true;
            }
        }
        std::int64_t both = 0, either = 0;
        for (std::size_t t = 0; t < 256; ++t) {
            both += in_a[t] && in_b[t];
            either += in_a[t];
        }
        EXPECT_EQ(unionLength(a), either);
        EXPECT_EQ(intersectionLength(mergeIntervals(a), mergeIntervals(b)), both);
    }
}

}  // namespace
}  // namespace piper
