// SPDX-License-Identifier: Apache-2.0
// Waits by cause, stragglers and the critical path, on steps small enough to count by hand.
#include <gmock/gmock.h>

#include <numeric>

#include "core/base/json.h"
#include "core/run/pipeline_statistics.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

/// Builds the ranks of one step.
class Step {
public:
    explicit Step(std::initializer_list<int> stages) {
        m_run.name = "step";
        for (const int stage : stages) {
            m_run.ranks.emplace_back();
            m_run.ranks.back().rank = RankId(m_run.ranks.size() - 1);
            m_run.ranks.back().stage = StageId(stage);
        }
    }
    Step& window(std::int64_t begin, std::int64_t end, int step = 0) {
        for (RankTimeline& rank : m_run.ranks)
            rank.steps.push_back({step, begin, end, 0.0, 0.0, 0});
        return *this;
    }
    Event& add(std::size_t rank, Phase phase, OperationKind kind, std::int64_t begin,
               std::int64_t end) {
        Event e;
        e.phase = phase;
        e.kind = kind;
        e.start_ns = begin;
        e.duration_ns = end - begin;
        e.layer = LayerId(0);
        e.micro_batch = MicroBatchId(0);
        e.lane =
            isCommunication(phase) ? (phase == Phase::PpComm ? Lane::Pp : Lane::Ep) : Lane::Compute;
        m_run.ranks[rank].events.push_back(e);
        return m_run.ranks[rank].events.back();
    }
    PipelineStatistics statistics() {
        for (RankTimeline& rank : m_run.ranks)
            std::stable_sort(rank.events.begin(), rank.events.end(), startsBefore);
        return pipelineStatistics(m_run, groupsByStage(m_run));
    }
    piper::Run& run() { return m_run; }

private:
    piper::Run m_run;
};

constexpr auto kForward = OperationKind::Forward;

std::int64_t wait(const RankWaits& w, WaitCause cause) {
    return w.waits[static_cast<std::size_t>(cause)];
}

std::int64_t wholeOf(const RankWaits& w) {
    return std::accumulate(w.waits.begin(), w.waits.end(), w.compute_ns);
}

TEST(PipelineStatistics, ACollectiveIsWaitedForUntilItsLastMemberComes) {
    Step step({0, 0});
    step.window(0, 100);
    step.add(0, Phase::Attention, kForward, 0, 20);
    step.add(0, Phase::Dispatch, OperationKind::Dispatch, 20, 60);
    step.add(0, Phase::Expert, kForward, 60, 90);
    step.add(1, Phase::Attention, kForward, 0, 45);
    step.add(1, Phase::Dispatch, OperationKind::Dispatch, 45, 60);
    step.add(1, Phase::Expert, kForward, 60, 95);
    const PipelineStatistics s = step.statistics();
    EXPECT_EQ(wait(s.ranks[0], WaitCause::Straggler), 25);
    EXPECT_EQ(wait(s.ranks[0], WaitCause::Transfer), 15);
    EXPECT_EQ(wait(s.ranks[0], WaitCause::Host), 10);
    EXPECT_EQ(wait(s.ranks[1], WaitCause::Straggler), 0);
    EXPECT_EQ(wait(s.ranks[1], WaitCause::Transfer), 15);
    for (const RankWaits& rank : s.ranks) EXPECT_EQ(wholeOf(rank), rank.step_ns);
    ASSERT_EQ(s.collectives.size(), 1U);
    const CollectiveTotal& c = s.collectives[0];
    EXPECT_EQ(c.count, 1);
    EXPECT_EQ(c.members, 2);
    EXPECT_EQ(c.wait_ns, 25);
    EXPECT_EQ(c.member_ns, 55);
    EXPECT_EQ(c.skew_max_ns, 25);
    EXPECT_THAT(c.last, testing::ElementsAre(0, 1));
    EXPECT_THAT(c.caused_ns, testing::ElementsAre(0, 25));
    // The path: attention of the late rank, the transfer, its expert, then the host's five.
    EXPECT_EQ(s.path.ns, 100);
    const auto phase = [&](Phase p) { return s.path.phase_ns[static_cast<std::size_t>(p)]; };
    EXPECT_EQ(phase(Phase::Attention), 45);
    EXPECT_EQ(phase(Phase::Dispatch), 15);
    EXPECT_EQ(phase(Phase::Expert) + phase(Phase::Idle), 40);
    EXPECT_EQ(s.layers.size(), 3U);
}

TEST(PipelineStatistics, ClocksThatDisagreeAreCorrectedBeforeArrivalsAreCompared) {
    Step step({0, 0});
    step.window(0, 100);
    step.add(0, Phase::Dispatch, OperationKind::Dispatch, 20, 60);
    // The same moment by a clock that is 1000 ahead.
    step.add(1, Phase::Dispatch, OperationKind::Dispatch, 1045, 1060);
    step.run().ranks[1].offset_ns = -1000;
    for (StepRecord& s : step.run().ranks[1].steps) {
        s.start_ns += 1000;
        s.end_ns += 1000;
    }
    const PipelineStatistics s = step.statistics();
    EXPECT_EQ(s.collectives[0].skew_max_ns, 25);
    EXPECT_EQ(wait(s.ranks[0], WaitCause::Straggler), 25);
    EXPECT_EQ(s.path.ns, 100);
}

Step twoStages() {
    Step step({0, 1});
    step.window(0, 100);
    step.add(0, Phase::Attention, kForward, 0, 30);
    step.add(0, Phase::PpComm, OperationKind::Send, 30, 40);
    Event& receive = step.add(1, Phase::PpComm, OperationKind::Receive, 0, 40);
    receive.pipeline_phase = PipelinePhase::Warmup;
    step.add(1, Phase::Attention, kForward, 40, 100);
    return step;
}

TEST(PipelineStatistics, AStageWaitsForTheSenderAndThenForTheMessage) {
    Step step = twoStages();
    const PipelineStatistics s = step.statistics();
    EXPECT_EQ(s.messages, 1);
    EXPECT_EQ(s.unmatched_receives, 0);
    EXPECT_EQ(wait(s.ranks[1], WaitCause::PipelineWarmup), 30);
    EXPECT_EQ(wait(s.ranks[1], WaitCause::Transfer), 10);
    EXPECT_EQ(s.ranks[1].transfer_by_phase[static_cast<std::size_t>(Phase::PpComm)], 10);
    EXPECT_EQ(wait(s.ranks[0], WaitCause::PipelineCooldown), 60);
    EXPECT_EQ(s.path.changes, 1);
    EXPECT_THAT(s.path.rank_ns, testing::ElementsAre(30, 70));
    EXPECT_EQ(s.path.phase_ns[static_cast<std::size_t>(Phase::PpComm)], 10);
}

TEST(PipelineStatistics, AMessageThatCameInTimeIsNotOnThePath) {
    Step step({0, 1});
    step.window(0, 100);
    step.add(0, Phase::Attention, kForward, 0, 10);
    step.add(0, Phase::PpComm, OperationKind::Send, 10, 20);
    step.add(1, Phase::Expert, kForward, 0, 50);
    step.add(1, Phase::PpComm, OperationKind::Receive, 0, 51);
    step.add(1, Phase::Attention, kForward, 51, 100);
    const PipelineStatistics s = step.statistics();
    EXPECT_THAT(s.path.rank_ns, testing::ElementsAre(0, 100));
    EXPECT_EQ(s.path.changes, 0);
    EXPECT_EQ(s.path.phase_ns[static_cast<std::size_t>(Phase::PpComm)], 1);
}

TEST(PipelineStatistics, ThePartsOfRandomRunsAddUpAndPathsFillTheirSteps) {
    for (unsigned seed = 1; seed < 6; ++seed) {
        piper::Run run = test::syntheticRun(4, 1500, 3);
        for (std::size_t r = 0; r < run.ranks.size(); ++r) {
            RankTimeline rank = test::syntheticRank(static_cast<int>(r), 1500, 3, seed * 97);
            for (StepRecord& s : rank.steps) s.end_ns += 60000;
            run.ranks[r] = std::move(rank);
        }
        const PipelineStatistics s = pipelineStatistics(run, groupsByStage(run));
        for (const RankWaits& rank : s.ranks) {
            EXPECT_GT(rank.step_ns, 0);
            EXPECT_EQ(wholeOf(rank), rank.step_ns);
            EXPECT_EQ(std::accumulate(rank.transfer_by_phase.begin(), rank.transfer_by_phase.end(),
                                      std::int64_t{0}),
                      wait(rank, WaitCause::Transfer));
        }
        EXPECT_EQ(std::accumulate(s.path.phase_ns.begin(), s.path.phase_ns.end(), std::int64_t{0}),
                  s.path.ns);
        EXPECT_EQ(std::accumulate(s.path.rank_ns.begin(), s.path.rank_ns.end(), std::int64_t{0}),
                  s.path.ns);
    }
}

TEST(PipelineStatistics, TheReportNamesNumeratorDenominatorRanksAndWindow) {
    Step step = twoStages();
    const PipelineStatistics s = step.statistics();
    Json out = {{"per_rank", Json::array({Json::object(), Json::object()})}};
    addPipelineStatistics(step.run(), s, out);
    EXPECT_EQ(out["window"]["steps"], 1);
    EXPECT_EQ(out["window"]["ranks"], 2);
    EXPECT_EQ(out["waits"]["of_ns"], 200);
    EXPECT_EQ(out["waits"]["compute_ns"], 90);
    EXPECT_EQ(out["waits"]["causes"].size(), kNumWaitCauses);
    EXPECT_EQ(out["stages"][1]["of_ns"], 100);
    EXPECT_EQ(out["critical_path"]["of_ns"], 100);
    EXPECT_EQ(out["per_rank"][1]["clock"]["samples"], 0);
    EXPECT_EQ(out["layers"][0]["ranks"], 2);
    EXPECT_THAT(pipelineTable(step.run(), s), testing::HasSubstr("critical path"));
    Step none({0});
    EXPECT_EQ(pipelineTable(none.run(), none.statistics()), "");
}

}  // namespace
}  // namespace piper
