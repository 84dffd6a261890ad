// SPDX-License-Identifier: Apache-2.0
// Digests of jobs: what they show of a run must be what the whole run shows.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "collectors/live/collect.h"
#include "collectors/live/live_recorder.h"
#include "core/run/statistics.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 5;

/// Experts on the compute lane with dispatches beside them, half of each hidden.
RankTimeline denseRank(int rank, int pairs) {
    RankTimeline out = test::syntheticRank(rank, 0, 0, 1);
    for (int i = 0; i < pairs; ++i) {
        const std::int64_t at = std::int64_t{4000} * i;
        Event e = test::event(at, 1800 + 13 * (i % 17), Lane::Compute, Phase::Expert);
        e.step = i * kSteps / pairs;
        e.flops = 1.5 * i;
        out.events.push_back(e);
        e = test::event(at + 1000, 1600 + 7 * (i % 11), Lane::Ep, Phase::Dispatch);
        e.step = i * kSteps / pairs;
        e.bytes = i;
        out.events.push_back(e);
    }
    // Two terms that rise and fall against each other, a third that peaks alone.
    for (int i = 0; i < 3 * pairs; ++i) {
        const std::int64_t at = std::int64_t{1300} * i, wave = i * 7919 % 4001;
        out.memory.push_back({at, MemoryTerm::AttentionActivation, wave});
        out.memory.push_back({at + i % 2, MemoryTerm::Workspace, 4000 - wave});
        if (i % 1000 == 7) out.memory.push_back({at, MemoryTerm::Other, i});
        if (i % 1000 == 8) out.memory.push_back({at, MemoryTerm::Other, 0});
    }
    for (int s = 0; s < kSteps; ++s)
        out.steps.push_back({s, std::int64_t{4000} * pairs * s / kSteps,
                             std::int64_t{4000} * pairs * (s + 1) / kSteps, 5.0 - s, 1.0, 64});
    return out;
}

class Digest : public testing::Test {
protected:
    Digest() { std::filesystem::create_directory(job()); }
    [[nodiscard]] std::filesystem::path job() const { return m_directory.path() / "job"; }
    [[nodiscard]] std::filesystem::path path(const char* name) const {
        return m_directory.path() / name;
    }

    void record(int rank, int pairs, std::optional<RunOutcome> outcome = RunOutcome::Finished) {
        LiveOptions options;
        options.job_directory = job();
        options.rank = RankId(rank);
        options.stage = StageId(0);
        options.world = 2;
        auto recorder = LiveRecorder::create(options);
        ASSERT_TRUE(recorder.ok()) << recorder.error().text();
        const RankTimeline data = denseRank(rank, pairs);
        for (const auto& e : data.events) (*recorder)->event(e);
        for (const auto& s : data.steps) (*recorder)->step(s);
        for (const auto& m : data.memory) (*recorder)->memory(m);
        (*recorder)->clock({10, 40 * rank, 80});
        ASSERT_TRUE((*recorder)->flush().ok());
        if (!outcome) return;
        ASSERT_TRUE((*recorder)->finish(*outcome, "").ok());
    }

    /// Whole as run "whole" and as a digest that went through its file as run "digest".
    void collectBoth() {
        const Result<CollectedRun> whole = collectJob(job(), *m_file, "whole");
        ASSERT_TRUE(whole.ok()) << whole.error().text();
        const Status written = writeDigest(job(), digestFile(job()));
        ASSERT_TRUE(written.ok()) << written.error().text();
        Result<Workspace> digest = Workspace::open(digestFile(job()));
        ASSERT_TRUE(digest.ok()) << digest.error().text();
        const Result<std::int64_t> copied = m_file->copyRun(*digest, "run", "digest");
        ASSERT_TRUE(copied.ok()) << copied.error().text();
        EXPECT_TRUE(digest->damage().empty()) << digest->damage().front();
    }
    [[nodiscard]] piper::Run stored(const char* name) {
        Result<piper::Run> run = m_file->readRun(name);
        EXPECT_TRUE(run.ok());
        EXPECT_TRUE(m_file->damage().empty()) << m_file->damage().front();
        return run.ok() ? *run : piper::Run();
    }

    test::TemporaryDirectory m_directory;
    Result<Workspace> m_file = Workspace::create(path("all.piper"));
};

TEST_F(Digest, HasTheStatisticsOfTheWholeRunInAFractionOfItsSize) {
    for (int rank : {0, 1}) record(rank, 40000);
    collectBoth();
    const piper::Run whole = stored("whole"), digest = stored("digest");
    EXPECT_EQ(whole.numDigests(), 0);
    EXPECT_EQ(digest.numDigests(), 2);
    for (int skip : {0, 2}) {
        const RunStatistics a = computeStatistics(whole, skip), b = computeStatistics(digest, skip);
        EXPECT_EQ(a.steps, kSteps - skip);
        EXPECT_EQ(a.events_total, 160000);
        EXPECT_EQ(b.events_total, a.events_total);
        EXPECT_EQ(b.phases, a.phases);
        EXPECT_EQ(b.rank_phases, a.rank_phases);
        EXPECT_EQ(b.rank_busy_ns, a.rank_busy_ns);
        EXPECT_EQ(b.step_ns, a.step_ns);
        EXPECT_EQ(b.rank_peak_bytes, a.rank_peak_bytes);
        EXPECT_EQ(b.rank_at_peak, a.rank_at_peak);
        EXPECT_EQ(b.rank_peak_by_term, a.rank_peak_by_term);
        EXPECT_EQ(b.breakdown.compute_ns, a.breakdown.compute_ns);
        EXPECT_EQ(b.breakdown.exposed_ns, a.breakdown.exposed_ns);
        EXPECT_EQ(b.breakdown.idle_ns, a.breakdown.idle_ns);
        const auto dispatch = static_cast<std::size_t>(Phase::Dispatch);
        EXPECT_GT(a.phases[dispatch].exposed_ns, 0);
        EXPECT_LT(a.phases[dispatch].exposed_ns, a.phases[dispatch].union_ns);
    }
    const auto size = [](const std::filesystem::path& p) { return std::filesystem::file_size(p); };
    EXPECT_LT(size(digestFile(job())) * 4,
              size(rankFile(job(), RankId(0))) + size(rankFile(job(), RankId(1))));
    for (const auto& entry : std::filesystem::directory_iterator(job()))
        EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".part")));
}

TEST_F(Digest, ShowsTheTimelineOfTheWholeRunAtTheWidthOfAWindow) {
    for (int rank : {0, 1}) record(rank, 40000);
    collectBoth();
    const auto whole = Workspace::openTimeline(path("all.piper"), "whole");
    const auto digest = Workspace::openTimeline(path("all.piper"), "digest");
    ASSERT_TRUE(whole.ok() && digest.ok());
    EXPECT_EQ((*digest)->rows(), (*whole)->rows());
    const TimeWindow extent = (*whole)->extent();
    EXPECT_EQ((*digest)->extent(), extent);
    const auto busy = [](const TimelineView& view) {
        std::int64_t sum = 0;
        for (const TimelineBlock& block : view.blocks) sum += block.busy_ns;
        return sum;
    };
    const std::int64_t pixel = extent.length() / 1000;
    const auto a = (*whole)->view(extent, pixel), b = (*digest)->view(extent, pixel);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(b->row_ends, a->row_ends);
    EXPECT_EQ(busy(*b), busy(*a));
    // Nearer than its levels are fine it still shows where there was work.
    const TimeWindow near{extent.begin_ns + extent.length() / 2,
                          extent.begin_ns + extent.length() / 2 + 1000 * pixel / 500};
    const auto close = (*digest)->view(near, 10);
    ASSERT_TRUE(close.ok());
    for (std::size_t row = 0; row < (*digest)->rows().size(); ++row)
        EXPECT_FALSE(close->row(row).empty()) << row;
    // Sums of the whole are exact; those of a part are shares of some thousand events.
    const std::vector<std::size_t> rows = {0, 1, 2, 3};
    // Windows that begin and end inside segments, too: a share that is left out shows.
    for (const auto& [begin, end] :
         {std::pair{-0.1, 1.1}, {-0.1, 0.5}, {0.33, 0.71}, {0.61, 1.1}}) {
        const auto at = [&](double share) {
            return extent.begin_ns +
                   static_cast<std::int64_t>(share * static_cast<double>(extent.length()));
        };
        const TimeWindow window{at(begin), at(end)};
        const bool part = begin > 0 || end < 1;
        const auto expected = (*whole)->totals(window, rows), got = (*digest)->totals(window, rows);
        ASSERT_TRUE(expected.ok() && got.ok());
        ASSERT_EQ(got->size(), expected->size());
        for (std::size_t i = 0; i < got->size(); ++i) {
            const double tolerance = part ? 0.02 * static_cast<double>((*expected)[i].sum_ns) : 0.0;
            EXPECT_EQ((*got)[i].name, (*expected)[i].name);
            EXPECT_NEAR(static_cast<double>((*got)[i].sum_ns),
                        static_cast<double>((*expected)[i].sum_ns), tolerance);
        }
    }
}

TEST_F(Digest, BecomesTheWholeRunRankAfterRank) {
    for (int rank : {0, 1}) record(rank, 3000);
    collectBoth();
    std::vector<std::string> problems;
    for (int rank : {0, 1}) {
        const Result<RankTimeline> events =
            readRank(rankFile(job(), RankId(rank)), RankId(rank), problems);
        ASSERT_TRUE(events.ok()) << events.error().text();
        ASSERT_TRUE(m_file->replaceRank("digest", *events).ok());
        EXPECT_EQ(stored("digest").numDigests(), 1 - rank);
    }
    EXPECT_TRUE(problems.empty());
    piper::Run whole = stored("whole");
    whole.name = "digest";
    EXPECT_TRUE(test::sameRun(whole, stored("digest")));
    const Status absent = m_file->replaceRank("digest", denseRank(7, 10));
    ASSERT_FALSE(absent.ok());
    EXPECT_THAT(absent.error().text(), HasSubstr("has no rank 7"));
}

TEST_F(Digest, OfShortRanksIsTheWholeRun) {
    for (int rank : {0, 1}) record(rank, 300);
    collectBoth();
    piper::Run whole = stored("whole");
    whole.name = "digest";
    EXPECT_TRUE(test::sameRun(whole, stored("digest")));
    EXPECT_EQ(stored("digest").numDigests(), 0);
}

TEST_F(Digest, SaysHowTheJobEnded) {
    record(0, 3000);
    record(1, 3000, std::nullopt);
    collectBoth();
    const piper::Run whole = stored("whole"), digest = stored("digest");
    EXPECT_EQ(digest.outcome, RunOutcome::Failed);
    EXPECT_EQ(digest.outcome_reason, whole.outcome_reason);
    EXPECT_THAT(digest.outcome_reason, HasSubstr("rank 1 ended without a closing record"));
}

TEST_F(Digest, OfWhichTheSumsAreDamagedIsStillNoWholeRun) {
    for (int rank : {0, 1}) record(rank, 3000);
    ASSERT_TRUE(writeDigest(job(), digestFile(job())).ok());
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(digestFile(job()).c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, "UPDATE chunk SET data=x'05' WHERE stream=5", nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    EXPECT_EQ(sqlite3_changes(database), 2);
    sqlite3_close(database);
    Result<Workspace> digest = Workspace::open(digestFile(job()));
    ASSERT_TRUE(digest.ok());
    const Result<piper::Run> run = digest->readRun("run");
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->numDigests(), 2);
    EXPECT_FALSE(digest->damage().empty());
}

TEST_F(Digest, HasTheSumsOfMoreNamesThanABlobHoldsAtOneMoment) {
    constexpr int kNames = 1500;
    RankTimeline rank = denseRank(0, 0);
    for (int i = 0; i < kNames; ++i) {
        Event e = test::event(5000, 100 + i, Lane::Stream, Phase::Expert);
        e.track = 0;
        e.name = static_cast<std::int32_t>(rank.names.size());
        rank.names.push_back(fmt::format("kernel {}", i));
        rank.events.push_back(e);
    }
    rank.tracks = {{"stream", "", "", 0, 7}};
    piper::Run header;
    header.name = "whole";
    const std::int64_t whole = *m_file->beginRun(header);
    ASSERT_TRUE(m_file->addWholeRank(whole, rank).ok());
    header.name = "digest";
    const std::int64_t digest = *m_file->beginRun(header);
    ASSERT_TRUE(m_file->addDigestRank(digest, rank).ok());
    EXPECT_EQ(stored("digest").numDigests(), 1);
    std::int64_t sums[2] = {0, 0};
    std::size_t kinds[2] = {0, 0};
    for (const bool digested : {false, true}) {
        const auto timeline =
            Workspace::openTimeline(path("all.piper"), digested ? "digest" : "whole");
        ASSERT_TRUE(timeline.ok());
        const std::vector<std::size_t> rows = {0};
        ASSERT_EQ((*timeline)->rows().size(), 1U);
        const auto totals = (*timeline)->totals({0, 10000}, rows);
        ASSERT_TRUE(totals.ok());
        kinds[digested ? 1 : 0] = totals->size();
        for (const SelectionTotal& total : *totals) sums[digested ? 1 : 0] += total.sum_ns;
    }
    EXPECT_EQ(kinds[0], std::size_t{kNames});
    EXPECT_EQ(kinds[1], kinds[0]);
    EXPECT_EQ(sums[1], sums[0]);
}

TEST_F(Digest, IsWholeWhenSeveralMakeItAtOnce) {
    for (int rank : {0, 1}) record(rank, 3000);
    const std::filesystem::path dead = digestFile(job()).string() + ".part-0123456789abcdef";
    std::ofstream(dead) << "left by one that was killed";
    std::filesystem::last_write_time(
        dead, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
    std::vector<std::thread> makers;
    std::atomic<int> made = 0;
    for (int i = 0; i < 4; ++i)
        makers.emplace_back([&] { made += writeDigest(job(), digestFile(job())).ok() ? 1 : 0; });
    for (std::thread& maker : makers) maker.join();
    EXPECT_EQ(made, 4);
    Result<Workspace> digest = Workspace::open(digestFile(job()));
    ASSERT_TRUE(digest.ok());
    EXPECT_EQ(digest->readRun("run")->numDigests(), 2);
    EXPECT_THAT(*digest->check(), testing::IsEmpty());
    for (const auto& entry : std::filesystem::directory_iterator(job()))
        EXPECT_THAT(entry.path().filename().string(), testing::Not(HasSubstr(".part")));
}

TEST_F(Digest, IsNotWrittenWhereNoRankLeftAFile) {
    const Status written = writeDigest(job(), digestFile(job()));
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, ErrorCode::NotFound);
    EXPECT_TRUE(std::filesystem::is_empty(job()));
}

TEST_F(Digest, OfADamagedFileIsWhatIsIntact) {
    record(0, 20000);
    record(1, 20000);
    ASSERT_TRUE(writeDigest(job(), digestFile(job())).ok());
    std::string bytes;
    {
        std::ifstream in(digestFile(job()), std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += 16384) bytes[at + 700] ^= 0x55;
    std::ofstream(digestFile(job()), std::ios::binary) << bytes;
    Result<Workspace> digest = Workspace::open(digestFile(job()));
    ASSERT_TRUE(digest.ok());
    const Result<std::int64_t> copied = m_file->copyRun(*digest, "run", "digest");
    ASSERT_TRUE(copied.ok()) << copied.error().text();
    EXPECT_FALSE(digest->damage().empty());
    const auto timeline = Workspace::openTimeline(path("all.piper"), "digest");
    ASSERT_TRUE(timeline.ok());
    ASSERT_TRUE((*timeline)->view((*timeline)->extent(), 1000).ok());
}

}  // namespace
}  // namespace piper
