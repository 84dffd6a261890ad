// SPDX-License-Identifier: Apache-2.0
// Clocks of imported ranks by the collectives they share, kept in the file and applied on reading.
#include <gmock/gmock.h>

#include "collectors/import/align.h"
#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

using testing::HasSubstr;

/// A trace of one rank: all-reduces that end together on a common clock, and this clock's error.
std::string traceOf(int rank, std::int64_t error_us) {
    std::string text = fmt::format(
        R"({{"distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [)", rank);
    for (int i = 0; i < 40; ++i) {
        const std::int64_t end = 1'000'000 + 10'000 * i, length = rank == i % 2 ? 40 : 300 + i;
        text += fmt::format(
            R"({{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{},"dur":{}}},)",
            end - length + error_us, length);
        text += fmt::format(
            R"({{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":50}},)",
            end + 100 + error_us);
    }
    text.back() = ']';
    return text + "}";
}

TEST(Align, ClocksAreSetKeptAndApplied) {
    const TextFile first(traceOf(0, 0), "rank0.json"), second(traceOf(1, 3'000'000), "rank1.json");
    RoundTrip trip({first.path(), second.path()}, {"job"});
    ASSERT_TRUE(trip.summary.ok());
    const std::int64_t span = trip.statistics()["gpu_span_ns"];
    EXPECT_GT(span, 3'000'000'000);
    const piper::Run before = trip.run();
    const auto aligned = alignRun(*trip.workspace, "job", CommunicationRule::standard());
    ASSERT_TRUE(aligned.ok()) << aligned.error().text();
    ASSERT_EQ(aligned->size(), 2U);
    EXPECT_TRUE((*aligned)[1].found.aligned);
    EXPECT_EQ((*aligned)[1].found.matched, 40);
    EXPECT_EQ((*aligned)[1].found.consistent, 40);
    EXPECT_LE((*aligned)[1].found.fit.residual_max_ns, 1.0);
    const piper::Run after = trip.run();
    EXPECT_EQ(after.ranks[1].clock.size(), 40U);
    EXPECT_EQ(after.ranks[1].events, before.ranks[1].events);
    EXPECT_LT(trip.statistics()["gpu_span_ns"], 500'000'000);
    EXPECT_TRUE(trip.workspace->damage().empty());
    EXPECT_TRUE(trip.workspace->check()->empty());
    // Again, and by hand: what was known before is replaced.
    ASSERT_TRUE(alignRun(*trip.workspace, "job", CommunicationRule::standard()).ok());
    EXPECT_EQ(trip.run().ranks[1].clock.size(), 40U);
    ASSERT_TRUE(trip.workspace->setClock("job", RankId(1), 77, {}).ok());
    EXPECT_EQ(trip.run().ranks[1].offset_ns, 77);
    EXPECT_TRUE(trip.run().ranks[1].clock.empty());
    EXPECT_TRUE(trip.workspace->check()->empty());
    EXPECT_EQ(trip.workspace->setClock("job", RankId(9), 0, {}).error().code, ErrorCode::NotFound);
}

TEST(Align, TheRanksOfARealJobAgreeWithTheClockOfTheirHost) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(traceFile("param/dlrm_kineto")))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    RoundTrip trip(files);
    ASSERT_TRUE(trip.summary.ok());
    const std::string name = trip.summary->written.front().run;
    const auto aligned = alignRun(*trip.workspace, name, CommunicationRule::standard());
    ASSERT_TRUE(aligned.ok());
    ASSERT_EQ(aligned->size(), 8U);
    for (const RankAlignment& r : *aligned) {
        EXPECT_TRUE(r.found.aligned) << r.rank.value;
        // One host: its clock was right before.
        EXPECT_NEAR(static_cast<double>(r.offset_ns - r.offset_before_ns), 0.0, 1e6)
            << r.rank.value;
    }
}

TEST(Align, WhatCannotBeAlignedIsSaid) {
    RoundTrip one({TextFile(traceOf(0, 0), "rank0.json").path()});
    const auto alone =
        alignRun(*one.workspace, one.summary->written.front().run, CommunicationRule::standard());
    ASSERT_FALSE(alone.ok());
    EXPECT_THAT(alone.error().text(), HasSubstr("no other clock"));
    const TextFile first(traceOf(0, 0), "rank0.json"), second(traceOf(1, 0), "rank1.json");
    RoundTrip trip({first.path(), second.path()}, {"job"});
    const auto none = alignRun(*trip.workspace, "job", *CommunicationRule::parse("no_such_kernel"));
    ASSERT_TRUE(none.ok());
    EXPECT_FALSE((*none)[1].found.aligned);
    EXPECT_EQ((*none)[1].offset_ns, (*none)[1].offset_before_ns);
}

}  // namespace
}  // namespace piper::test
