// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/schedule/schedule.h"

namespace piper {
namespace {

using testing::HasSubstr;

SlotTable slotsOf(ScheduleKind kind, std::int64_t pp, std::int64_t vpp, std::int64_t m) {
    Result<SlotTable> slots = makeSlots(kind, pp, vpp, m);
    EXPECT_TRUE(slots.ok()) << slots.error().text();
    return std::move(slots).value();
}

std::string faultsOf(const SlotTable& slots, std::int64_t vpp, std::int64_t m) {
    std::string text;
    for (const Error& fault : validateSlots(slots, vpp, m)) text += fault.text() + "\n";
    return text;
}

TEST(Slots, EveryGeneratedTableIsProved) {
    for (std::int64_t pp : {1, 2, 3, 4, 8})
        for (std::int64_t m : {1, 2, 3, 8, 17}) {
            EXPECT_EQ(faultsOf(slotsOf(ScheduleKind::GPipe, pp, 1, m), 1, m), "") << pp << " " << m;
            EXPECT_EQ(faultsOf(slotsOf(ScheduleKind::OneF1B, pp, 1, m), 1, m), "")
                << pp << " " << m;
        }
    for (std::int64_t pp : {2, 4})
        for (std::int64_t vpp : {1, 2, 3})
            for (std::int64_t groups : {1, 2, 5})
                EXPECT_EQ(faultsOf(slotsOf(ScheduleKind::InterleavedOneF1B, pp, vpp, groups * pp),
                                   vpp, groups * pp),
                          "")
                    << pp << " " << vpp << " " << groups;
}

TEST(Slots, InFlightIsTheSmallerOfMicroBatchesAndStagesLeft) {
    EXPECT_EQ(inFlight(slotsOf(ScheduleKind::OneF1B, 4, 1, 8)),
              (std::vector<std::int64_t>{4, 3, 2, 1}));
    EXPECT_EQ(inFlight(slotsOf(ScheduleKind::OneF1B, 4, 1, 2)),
              (std::vector<std::int64_t>{2, 2, 2, 1}));
    EXPECT_EQ(inFlight(slotsOf(ScheduleKind::GPipe, 4, 1, 8)),
              (std::vector<std::int64_t>{8, 8, 8, 8}));
    // Interleaved, SC'21: 2 (pp - s - 1) + (vpp - 1) pp warm-up forwards and one more.
    EXPECT_EQ(inFlight(slotsOf(ScheduleKind::InterleavedOneF1B, 4, 2, 16)),
              (std::vector<std::int64_t>{11, 9, 7, 5}));
}

TEST(Slots, MarksWarmupSteadyAndCooldown) {
    const SlotTable slots = slotsOf(ScheduleKind::OneF1B, 4, 1, 8);
    const auto count = [&](std::size_t stage, PipelinePhase phase) {
        return std::ranges::count(slots[stage], phase, &Slot::phase);
    };
    for (std::size_t s = 0; s < 4; ++s) {
        EXPECT_EQ(count(s, PipelinePhase::Warmup), static_cast<std::ptrdiff_t>(3 - s));
        EXPECT_EQ(count(s, PipelinePhase::Cooldown), static_cast<std::ptrdiff_t>(3 - s));
        EXPECT_EQ(count(s, PipelinePhase::Steady), static_cast<std::ptrdiff_t>(10 + 2 * s));
    }
}

TEST(Slots, RefusesWhatItCannotGenerate) {
    const Result<SlotTable> unsupported = makeSlots(ScheduleKind::DualPipe, 4, 1, 8);
    ASSERT_FALSE(unsupported.ok());
    EXPECT_EQ(unsupported.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(unsupported.error().text(), HasSubstr("dualpipe"));
    EXPECT_THAT(unsupported.error().text(), HasSubstr("1f1b"));

    const Result<SlotTable> chunks = makeSlots(ScheduleKind::OneF1B, 4, 2, 8);
    ASSERT_FALSE(chunks.ok());
    EXPECT_EQ(chunks.error().code, ErrorCode::RuleBroken);
    EXPECT_THAT(chunks.error().text(), HasSubstr("vpp 2"));

    const Result<SlotTable> uneven = makeSlots(ScheduleKind::InterleavedOneF1B, 4, 2, 10);
    ASSERT_FALSE(uneven.ok());
    EXPECT_THAT(uneven.error().text(), HasSubstr("8, 12"));

    EXPECT_FALSE(makeSlots(ScheduleKind::GPipe, 4, 1, 0).ok());
    EXPECT_FALSE(makeSlots(ScheduleKind::GPipe, 0, 1, 4).ok());
}

TEST(ValidateSlots, FindsAMissingAndADoubledSlot) {
    SlotTable slots = slotsOf(ScheduleKind::OneF1B, 2, 1, 3);
    slots[1].pop_back();
    EXPECT_THAT(faultsOf(slots, 1, 3), HasSubstr("stage 1, chunk 0, micro-batch 2"));
    slots = slotsOf(ScheduleKind::OneF1B, 2, 1, 3);
    slots[0].push_back(slots[0].front());
    EXPECT_THAT(faultsOf(slots, 1, 3), HasSubstr("micro-batch 0: 2 forwards"));
}

TEST(ValidateSlots, FindsBackwardBeforeForward) {
    SlotTable slots = slotsOf(ScheduleKind::OneF1B, 1, 1, 2);
    std::swap(slots[0][0], slots[0][1]);
    EXPECT_THAT(faultsOf(slots, 1, 2), HasSubstr("its forward comes later"));
}

TEST(ValidateSlots, FindsADeadlockAcrossStagesAndNamesEveryWaitingStage) {
    // Stage 0 wants the gradient of micro-batch 0 before it gives micro-batch 1; stage 1 wants
    // both.
    SlotTable slots = slotsOf(ScheduleKind::GPipe, 2, 1, 2);
    std::swap(slots[0][1], slots[0][2]);
    const std::string text = faultsOf(slots, 1, 2);
    EXPECT_THAT(text, HasSubstr("stage 0: backward of micro-batch 0"));
    EXPECT_THAT(text, HasSubstr("stage 1: forward of micro-batch 1"));
}

TEST(ValidateSlots, FindsOutOfRangeAndEmptyTables) {
    SlotTable slots = slotsOf(ScheduleKind::GPipe, 1, 1, 2);
    slots[0][0].micro_batch = MicroBatchId(7);
    EXPECT_THAT(faultsOf(slots, 1, 2), HasSubstr("out of range"));
    EXPECT_NE(faultsOf({}, 1, 2), "");
}

TEST(ValidateSlots, AcceptsSplitGradientsInOrderOnly) {
    const auto slot = [](Slot::Kind kind) {
        return Slot{kind, MicroBatchId(0), ModelChunkId(0), PipelinePhase::Steady};
    };
    const SlotTable good{
        {slot(Slot::Kind::Forward), slot(Slot::Kind::InputGrad), slot(Slot::Kind::WeightGrad)}};
    EXPECT_EQ(faultsOf(good, 1, 1), "");
    const SlotTable swapped{
        {slot(Slot::Kind::Forward), slot(Slot::Kind::WeightGrad), slot(Slot::Kind::InputGrad)}};
    EXPECT_THAT(faultsOf(swapped, 1, 1), HasSubstr("its input gradient comes later"));
    const SlotTable both{
        {slot(Slot::Kind::Forward), slot(Slot::Kind::Backward), slot(Slot::Kind::WeightGrad)}};
    EXPECT_THAT(faultsOf(both, 1, 1), HasSubstr("2 weight gradients"));
}

}  // namespace
}  // namespace piper
