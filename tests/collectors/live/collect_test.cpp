// SPDX-License-Identifier: Apache-2.0
#include "collectors/live/collect.h"

#include <gmock/gmock.h>

#include <fstream>

#include "collectors/live/live_recorder.h"
#include "core/run/sub_lanes.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

class Collect : public testing::Test {
protected:
    Collect() : m_workspace(Workspace::create(m_directory.path() / "all.piper")) {
        std::filesystem::create_directory(job());
    }
    [[nodiscard]] std::filesystem::path job() const { return m_directory.path() / "job"; }

    /// Records a rank; without an outcome it ends as a killed one does.
    void record(int rank, std::optional<RunOutcome> outcome, int events = 1000,
                const std::string& reason = "") {
        LiveOptions options;
        options.job_directory = job();
        options.rank = RankId(rank);
        options.stage = StageId(rank / 2);
        options.world = 4;
        options.host = "node0";
        options.plan_json = R"({"layout": {"pp": 2}})";
        auto recorder = LiveRecorder::create(options);
        ASSERT_TRUE(recorder.ok()) << recorder.error().text();
        const RankTimeline data = test::syntheticRank(rank, events, 5, 1);
        for (const auto& e : data.events) (*recorder)->event(e);
        for (const auto& s : data.steps) (*recorder)->step(s);
        (*recorder)->clock({0, 900, 500});
        (*recorder)->clock({10, 40 * rank, 80});
        (*recorder)->clock({20, 901, 400});
        if (!outcome) return;
        ASSERT_TRUE((*recorder)->finish(*outcome, reason).ok());
    }
    Result<CollectedRun> collect() { return collectJob(job(), *m_workspace, "r"); }

    test::TemporaryDirectory m_directory;
    Result<Workspace> m_workspace;
};

TEST_F(Collect, FourRanksBecomeOneRunWithTheirOffsets) {
    for (int rank = 3; rank >= 0; --rank) record(rank, RunOutcome::Finished);
    const Result<CollectedRun> collected = collect();
    ASSERT_TRUE(collected.ok()) << collected.error().text();
    EXPECT_EQ(collected->ranks, 4);
    EXPECT_EQ(collected->outcome, RunOutcome::Finished);
    EXPECT_TRUE(collected->problems.empty());
    const Result<piper::Run> run = m_workspace->readRun("r");
    ASSERT_TRUE(run.ok());
    for (int rank = 0; rank < 4; ++rank) {
        const RankTimeline& got = run->ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(got.rank, RankId(rank));
        EXPECT_EQ(got.stage, StageId(rank / 2));
        EXPECT_EQ(got.offset_ns, 40 * rank);
        // The offset is kept beside the events, not added to them.
        RankTimeline expected = test::syntheticRank(rank, 1000, 5, 1);
        assignSubLanes(expected);
        EXPECT_EQ(got.events, expected.events);
    }
    EXPECT_EQ(run->plan_json, R"({"layout": {"pp": 2}})");
    const Result<CollectedRun> again = collect();
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code, ErrorCode::RuleBroken);
}

TEST_F(Collect, ARankWithoutClosingRecordFailsTheRunAndIsNamed) {
    record(0, std::nullopt, 1000);
    record(1, std::nullopt, 1000);
    record(2, std::nullopt, 400);
    record(3, std::nullopt, 1000);
    const Result<CollectedRun> collected = collect();
    ASSERT_TRUE(collected.ok());
    EXPECT_EQ(collected->outcome, RunOutcome::Failed);
    EXPECT_THAT(collected->outcome_reason,
                HasSubstr("rank 2 ended without a closing record (last committed record in step"));
    EXPECT_THAT(collected->outcome_reason, HasSubstr("3 more ranks"));
    const Result<piper::Run> run = m_workspace->readRun("r");
    EXPECT_EQ(run->outcome, RunOutcome::Failed);
    EXPECT_EQ(run->ranks[2].events.size(), 400U);
    EXPECT_EQ(run->ranks[3].events.size(), 1000U);
}

TEST_F(Collect, ARankThatSaidWhyItFailedIsTheReason) {
    record(0, std::nullopt);
    record(1, RunOutcome::Failed, 100, "loss is NaN in step 3");
    record(2, RunOutcome::Finished);
    record(3, RunOutcome::Finished);
    EXPECT_EQ(collect()->outcome_reason, "rank 1: loss is NaN in step 3");
}

TEST_F(Collect, ACancelledJobIsCancelledEvenWhenItsRanksWereKilled) {
    record(0, std::nullopt);
    for (int rank = 1; rank < 4; ++rank) record(rank, RunOutcome::Finished);
    std::ofstream(job() / "status.json")
        << R"({"format_version": 1, "state": "cancelled", "step": 2, "message": "by the user"})";
    const Result<CollectedRun> collected = collect();
    ASSERT_TRUE(collected.ok());
    EXPECT_EQ(collected->outcome, RunOutcome::Cancelled);
    EXPECT_EQ(collected->outcome_reason, "by the user");
}

TEST_F(Collect, MissingAndUnreadableFilesAreNamed) {
    record(0, RunOutcome::Finished);
    record(3, RunOutcome::Finished);
    std::ofstream(job() / "rank-1.piper") << "certainly no database, but long enough to look at it";
    const Result<CollectedRun> collected = collect();
    ASSERT_TRUE(collected.ok()) << collected.error().text();
    EXPECT_EQ(collected->outcome, RunOutcome::Failed);
    ASSERT_EQ(collected->problems.size(), 2U);
    EXPECT_THAT(collected->problems[0], HasSubstr("rank-1.piper"));
    EXPECT_THAT(collected->problems[1], HasSubstr("no records of 2 of 4 ranks: 1, 2"));
    EXPECT_THAT(m_workspace->readRun("r")->notes.at("problems"), HasSubstr("rank-1.piper"));
}

TEST_F(Collect, WithoutAnyRankFileNothingIsStored) {
    EXPECT_EQ(collect().error().code, ErrorCode::NotFound);
    EXPECT_EQ(collectJob(job() / "absent", *m_workspace, "r").error().code, ErrorCode::NotFound);
    std::ofstream(job() / "rank-x.piper") << "x";
    std::ofstream(job() / "rank-0.piper") << "";
    EXPECT_EQ(collect().error().code, ErrorCode::NotFound);
    EXPECT_TRUE(m_workspace->runs()->empty());
}

TEST(BestOffset, TakesTheSampleOfTheShortestRoundTrip) {
    EXPECT_EQ(bestOffset({}), 0);
    EXPECT_EQ(bestOffset({{0, 5, 100}, {1, 7, 20}, {2, 9, 30}}), 7);
}

}  // namespace
}  // namespace piper
