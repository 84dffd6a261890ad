// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/chunks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "core/run/timeline.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

std::vector<Event> extremeEvents() {
    constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
    constexpr auto kHigh = std::numeric_limits<std::int64_t>::max();
    std::vector<Event> rows(6);
    rows[0].start_ns = kHigh;
    rows[1].start_ns = kLow;
    rows[2].bytes = kLow;
    rows[3].cpu_ns = kHigh;
    rows[4].step = std::numeric_limits<std::int32_t>::min();
    rows[4].layer = LayerId(std::numeric_limits<std::int32_t>::max());
    rows[5].flops = -0.0;
    rows[0].flops = std::numeric_limits<double>::infinity();
    rows[1].flops = 1e300;
    rows[2].flops = 9007199254740993.0;
    return rows;
}

TEST(Chunks, ExtremeValuesComeBackWithEveryBit) {
    const std::vector<Event> rows = extremeEvents();
    std::vector<Event> back;
    ASSERT_TRUE(decodeEvents(encodeEvents(rows), rows.size(), CodeTables::own(), back));
    EXPECT_EQ(back, rows);
    EXPECT_TRUE(std::signbit(back[5].flops));

    const std::vector<StepRecord> steps = {{0, 1, 2, std::nan(""), 0.1, 3}};
    std::vector<StepRecord> steps_back;
    ASSERT_TRUE(decodeSteps(encodeSteps(steps), 1, steps_back));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(steps_back[0].loss),
              std::bit_cast<std::uint64_t>(steps[0].loss));
}

TEST(Chunks, ExpertLoadsOfDifferentLengths) {
    const std::vector<ExpertLoad> rows = {
        {1, LayerId(0), {}}, {1, LayerId(1), {5, 5, 5}}, {2, LayerId(), {1, -2}}};
    std::vector<ExpertLoad> back;
    ASSERT_TRUE(decodeExpertLoad(encodeExpertLoad(rows), rows.size(), back));
    EXPECT_EQ(back, rows);
}

TEST(Chunks, AnEventOfARealShapeTakesFewBytes) {
    std::vector<Event> rows(kChunkRows);
    std::int64_t now = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].start_ns = now += 180000;
        rows[i].duration_ns = 150000 + static_cast<std::int64_t>(i * 7919 % 20000);
        rows[i].phase = static_cast<Phase>(i % 6);
        rows[i].layer = LayerId(i / 6 % 8);
        rows[i].operation = static_cast<std::int32_t>(i);
        rows[i].bytes = 1 << (10 + i % 6);
        rows[i].flops = 1e9 * static_cast<double>(i % 6);
    }
    EXPECT_LT(static_cast<double>(encodeEvents(rows).size()) / kChunkRows, 11.0);
}

/// Columns of every form come back, also at the borders of what can be packed.
TEST(Chunks, EachFormOfAColumnComesBack) {
    using columns::putIntegers;
    std::mt19937_64 random(11);
    std::set<char> forms;
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::uint64_t> values(1 + random() % columns::kMostRows);
        const int bits = static_cast<int>(random() % 65);
        const std::uint64_t scale = round % 3 == 0 ? 1 + random() % 5000 : 1;
        std::uint64_t last = random();
        for (std::uint64_t& v : values) {
            const std::uint64_t small = bits == 0 ? 0 : random() >> (64 - bits);
            v = round % 2 == 0 ? small * scale : last + small;
            if (round % 5 == 0 && random() % 50 == 0) v = random();
            last = v;
        }
        std::string blob;
        putIntegers(blob, values);
        forms.insert(blob.front());
        std::vector<std::uint64_t> back(values.size());
        columns::Reader in(blob, values.size());
        ASSERT_TRUE(in.integers([&](std::size_t i, std::int64_t v) {
            back[i] = static_cast<std::uint64_t>(v);
            return true;
        }));
        ASSERT_EQ(back, values) << round;
        EXPECT_TRUE(in.complete());
        columns::Reader skipping(blob, values.size());
        EXPECT_TRUE(skipping.skip() && skipping.complete());
    }
    EXPECT_EQ(forms, (std::set<char>{columns::Constant, columns::Deltas, columns::Packed,
                                     columns::PackedDeltas}));
}

TEST(Chunks, WhatIsDrawnIsReadPastTheOtherColumns) {
    const RankTimeline rank = test::syntheticRank(0, 300, 4, 5);
    std::vector<DrawnEvent> drawn;
    ASSERT_TRUE(
        decodeEvents(encodeEvents(rank.events), rank.events.size(), CodeTables::own(), drawn));
    ASSERT_EQ(drawn.size(), rank.events.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        EXPECT_EQ(drawn[i].start_ns, rank.events[i].start_ns);
        EXPECT_EQ(drawn[i].duration_ns, rank.events[i].duration_ns);
        EXPECT_EQ(labelOf(drawn[i]), labelOf(rank.events[i]));
        EXPECT_EQ(drawn[i].micro_batch, rank.events[i].micro_batch);
    }
}

TEST(Chunks, DamagedBlobsAreRefusedAndAddNothing) {
    const RankTimeline rank = test::syntheticRank(0, 300, 4, 5);
    const std::string blob = encodeEvents(rank.events);
    std::vector<Event> out(2);
    EXPECT_FALSE(decodeEvents(blob, rank.events.size() + 1, CodeTables::own(), out));
    EXPECT_FALSE(decodeEvents(blob, rank.events.size() - 1, CodeTables::own(), out));
    EXPECT_FALSE(decodeEvents(blob + "x", rank.events.size(), CodeTables::own(), out));
    for (std::size_t cut = 0; cut < blob.size(); cut += 37)
        EXPECT_FALSE(decodeEvents(blob.substr(0, cut), rank.events.size(), CodeTables::own(), out))
            << cut;
    EXPECT_EQ(out.size(), 2U);
}

TEST(Chunks, RandomBytesNeverCrashADecoder) {
    std::mt19937 random(3);
    std::vector<Event> events;
    std::vector<ExpertLoad> loads;
    std::vector<StepRecord> steps;
    for (int round = 0; round < 3000; ++round) {
        std::string blob(random() % 200, '\0');
        for (char& c : blob) c = static_cast<char>(random() % (round % 2 ? 256 : 3));
        const std::size_t count = random() % 40;
        (void)decodeEvents(blob, count, CodeTables::own(), events);
        (void)decodeExpertLoad(blob, count, loads);
        (void)decodeSteps(blob, count, steps);
        events.clear();
        loads.clear();
    }
}

TEST(Chunks, AWordUnknownHereMakesTheChunkUnreadable) {
    std::vector<Event> rows(3);
    rows[1].phase = Phase::Expert;
    CodeTables codes = CodeTables::own();
    codes.phase[static_cast<std::size_t>(Phase::Expert)] = -1;
    std::vector<Event> out;
    EXPECT_FALSE(decodeEvents(encodeEvents(rows), rows.size(), codes, out));
    codes.phase.clear();
    EXPECT_FALSE(decodeEvents(encodeEvents(rows), rows.size(), codes, out));
}

TEST(Chunks, CodesOfAnotherOrderAreTranslated) {
    std::vector<Event> rows(1);
    rows[0].lane = Lane::Pp;
    CodeTables codes = CodeTables::own();
    std::swap(codes.lane[static_cast<std::size_t>(Lane::Pp)],
              codes.lane[static_cast<std::size_t>(Lane::Dp)]);
    std::vector<Event> out;
    ASSERT_TRUE(decodeEvents(encodeEvents(rows), 1, codes, out));
    EXPECT_EQ(out[0].lane, Lane::Dp);
}

}  // namespace
}  // namespace piper
