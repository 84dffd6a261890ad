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

std::string faultsOf(const SlotTable& slots, const PipelineShape& shape) {
    std::string text;
    for (const Error& fault : validateSlots(slots, shape)) text += fault.text() + "\n";
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

TEST(Slots, EveryKindIsProvedWithItsBound) {
    for (const ScheduleKind kind : generatedSchedules())
        for (const std::int64_t pp : {1, 2, 3, 4, 6, 8})
            for (const std::int64_t m : {1, 2, 3, 5, 6, 8, 12, 16, 17, 24, 64}) {
                const bool folded = placementOf(kind) == ChunkPlacement::V;
                const std::int64_t vpp = folded                                    ? 2
                                         : kind == ScheduleKind::InterleavedOneF1B ? 3
                                                                                   : 1;
                const Result<SlotTable> slots = makeSlots(kind, pp, vpp, m);
                if (!slots.ok()) continue;  // its own test below says which
                EXPECT_EQ(faultsOf(*slots, {kind, pp, vpp, m}), "")
                    << toText(kind) << " pp " << pp << " micro-batches " << m;
            }
}

TEST(Slots, WholeActivationsAreHeldUntilTheInputGradient) {
    for (const ScheduleKind kind : {ScheduleKind::OneF1B, ScheduleKind::ZbH1, ScheduleKind::ZbH2})
        for (const std::int64_t pp : {2, 4, 8})
            for (const std::int64_t m : {3L, 2 * pp, 4 * pp}) {
                const PipelineShape shape{kind, pp, 1, m};
                const SlotTable slots = makeSlots(shape).value();
                for (std::size_t s = 0; s < slots.size(); ++s) {
                    std::int64_t held = 0, most = 0;
                    for (const Slot& slot : slots[s]) {
                        if (slot.kind == Slot::Kind::Forward) most = std::max(most, ++held);
                        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::InputGrad)
                            --held;
                    }
                    EXPECT_EQ(most, inFlightUntilInputGrad(shape, StageId(s)))
                        << toText(kind) << " pp " << pp << " m " << m << " stage " << s;
                }
            }
}

TEST(Slots, TheBoundIsWhatTheTableHolds) {
    for (const ScheduleKind kind : generatedSchedules())
        for (const std::int64_t pp : {2, 4, 8})
            for (const std::int64_t m : {2 * pp, 4 * pp, 64L}) {
                const bool folded = placementOf(kind) == ChunkPlacement::V;
                const std::int64_t vpp = folded                                    ? 2
                                         : kind == ScheduleKind::InterleavedOneF1B ? 2
                                                                                   : 1;
                const PipelineShape shape{kind, pp, vpp, m};
                const std::vector<std::int64_t> held = inFlight(makeSlots(shape).value());
                for (std::size_t s = 0; s < held.size(); ++s)
                    EXPECT_EQ(held[s], inFlightBound(shape, StageId(s)))
                        << toText(kind) << " pp " << pp << " m " << m << " stage " << s;
            }
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

TEST(Slots, RefusesDegreesThatDoNotSuit) {
    const auto refusal = [](ScheduleKind kind, std::int64_t pp, std::int64_t vpp, std::int64_t m) {
        const Result<SlotTable> slots = makeSlots(kind, pp, vpp, m);
        EXPECT_FALSE(slots.ok());
        return slots.ok() ? std::string() : slots.error().text();
    };
    EXPECT_THAT(refusal(ScheduleKind::DualPipe, 3, 1, 8), HasSubstr("legal near it: 2, 4"));
    EXPECT_THAT(refusal(ScheduleKind::DualPipe, 4, 1, 9), HasSubstr("legal near it: 8, 10"));
    EXPECT_THAT(refusal(ScheduleKind::DualPipe, 4, 1, 6), HasSubstr("legal near it: 8"));
    EXPECT_THAT(refusal(ScheduleKind::DualPipe, 4, 2, 8), HasSubstr("needs vpp 1"));
    EXPECT_THAT(refusal(ScheduleKind::DualPipeV, 4, 2, 7), HasSubstr("legal near it: 8"));
    EXPECT_THAT(refusal(ScheduleKind::ZbV, 4, 1, 8), HasSubstr("zb_v needs vpp 2"));

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

TEST(ValidateSlots, FindsMessagesTakenInAnotherOrderThanSent) {
    const PipelineShape shape{ScheduleKind::GPipe, 2, 1, 3};
    SlotTable slots = makeSlots(shape).value();
    std::swap(slots[1][0], slots[1][1]);
    EXPECT_THAT(faultsOf(slots, shape),
                HasSubstr("stage 1: forward of micro-batch 1, chunk 0 (slot 0) waits for ever: "
                          "stage 0 sends micro-batch 0 of chunk 0 first"));
    slots = makeSlots(shape).value();
    std::swap(slots[1][3], slots[1][4]);
    EXPECT_THAT(faultsOf(slots, shape), HasSubstr("stage 1 sends micro-batch 1 of chunk 0 first"));
}

TEST(ValidateSlots, FindsMoreInFlightThanTheKindHolds) {
    const PipelineShape shape{ScheduleKind::OneF1B, 4, 1, 8};
    const SlotTable gpipe = makeSlots(ScheduleKind::GPipe, 4, 1, 8).value();
    EXPECT_THAT(faultsOf(gpipe, shape),
                HasSubstr("stage 1 holds 8 micro-batch chunks at once; 1f1b holds at most 3"));
    const SlotTable two = makeSlots(ScheduleKind::ZbH2, 4, 1, 8).value();
    EXPECT_EQ(faultsOf(two, {ScheduleKind::ZbH2, 4, 1, 8}), "");
    EXPECT_THAT(faultsOf(two, {ScheduleKind::ZbH1, 4, 1, 8}), HasSubstr("zb_h1 holds at most 4"));
}

TEST(ValidateSlots, FindsAMicroBatchInTheWrongDirection) {
    const PipelineShape shape{ScheduleKind::DualPipe, 4, 1, 8};
    SlotTable slots = makeSlots(shape).value();
    EXPECT_EQ(faultsOf(slots, shape), "");
    slots[2][0].model_chunk = ModelChunkId(1 - slots[2][0].model_chunk.value);
    EXPECT_THAT(faultsOf(slots, shape), HasSubstr("is out of range"));
}

TEST(ValidateSlots, FindsPairsThatNeedEachOther) {
    const PipelineShape shape{ScheduleKind::OneF1B, 2, 1, 4};
    SlotTable slots = makeSlots(shape).value();
    // On the last stage a backward follows the forward of its own micro-batch.
    slots[1][1].with_previous = true;
    EXPECT_THAT(faultsOf(slots, shape), HasSubstr("which must be the forward of another"));
    slots = makeSlots(shape).value();
    slots[0][0].with_previous = true;
    EXPECT_THAT(faultsOf(slots, shape), HasSubstr("runs with the slot before it"));
    // The forward of a pair cannot be what the stage after waits for before it gives the gradient.
    slots = makeSlots({ScheduleKind::OneF1B, 2, 1, 2}).value();
    slots[0][2].with_previous = true;  // forward 1 with backward 0
    EXPECT_EQ(faultsOf(slots, {ScheduleKind::OneF1B, 2, 1, 2}), "");
    SlotTable gpipe = makeSlots({ScheduleKind::GPipe, 2, 1, 2}).value();
    gpipe[0][2].with_previous = true;  // forward 1 with backward 0, which follows forward 1 there
    EXPECT_THAT(faultsOf(gpipe, {ScheduleKind::GPipe, 2, 1, 2}), HasSubstr("waits for ever"));
}

TEST(ValidateSlots, FindsAFaultInEveryKind) {
    for (const ScheduleKind kind : generatedSchedules()) {
        const std::int64_t vpp = placementOf(kind) == ChunkPlacement::V    ? 2
                                 : kind == ScheduleKind::InterleavedOneF1B ? 2
                                                                           : 1;
        const PipelineShape shape{kind, 4, vpp, 8};
        const SlotTable good = makeSlots(shape).value();
        SlotTable lost = good;
        lost[1].erase(lost[1].begin() + 3);
        EXPECT_THAT(faultsOf(lost, shape), HasSubstr("each must be there once")) << toText(kind);
        SlotTable late = good;  // the first forward of the second stage comes after its gradient
        std::rotate(late[1].begin(), late[1].begin() + 1, late[1].end());
        EXPECT_THAT(faultsOf(late, shape), HasSubstr("waits for ever")) << toText(kind);
        SlotTable swapped = good;
        std::swap(swapped[0], swapped[3]);
        if (kind != ScheduleKind::GPipe && kind != ScheduleKind::DualPipe) {
            EXPECT_NE(faultsOf(swapped, shape), "") << toText(kind);
        }
        EXPECT_THAT(faultsOf(good, {kind, 5, vpp, 8}), HasSubstr("4 stages for pp 5"));
    }
}

}  // namespace
}  // namespace piper
