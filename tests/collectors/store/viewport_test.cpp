// SPDX-License-Identifier: Apache-2.0
// The pyramid over each row, what a window shows of it, and files of older versions.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "collectors/store/chunks.h"
#include "collectors/store/workspace.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

/// Events of one row that do not overlap.
std::vector<Event> rowOfEvents(int count, std::int64_t gap, std::int64_t length) {
    std::vector<Event> events(static_cast<std::size_t>(count));
    std::int64_t now = -5 * gap;  // also before the start of the run
    for (std::size_t i = 0; i < events.size(); ++i) {
        events[i].start_ns = now;
        events[i].duration_ns = length + static_cast<std::int64_t>(i * 7919 % 1000);
        events[i].name = static_cast<std::int32_t>(i % 5);
        events[i].category = EventCategory::Kernel;
        events[i].lane = Lane::Stream;
        events[i].track = 0;
        now = events[i].end_ns() + gap;
    }
    return events;
}

std::int64_t total(const std::vector<Event>& events) {
    std::int64_t sum = 0;
    for (const Event& e : events) sum += e.duration_ns;
    return sum;
}

TEST(Pyramid, EveryLevelHoldsEveryEventOnceAndAllOfTheirTime) {
    const std::vector<Event> events = rowOfEvents(5000, 300, 900);
    const std::vector<Level> levels = buildLevels(events);
    ASSERT_FALSE(levels.empty());
    EXPECT_EQ(levels.back().level, kMostLevels - 1);
    for (const Level& level : levels) {
        std::int64_t count = 0, busy = 0, longest = 0, last = -1'000'000'000;
        for (const Bucket& b : level.buckets) {
            count += b.count;
            busy += b.busy_ns;
            longest = std::max(longest, b.longest_ns);
            EXPECT_LE(b.busy_ns, bucketWidth(level.level));
            EXPECT_GT(b.index, last);
            last = b.index;
        }
        EXPECT_EQ(count, 5000);
        EXPECT_EQ(busy, total(events));
        EXPECT_EQ(longest, 1899);
    }
}

TEST(Pyramid, ALongEventFillsEveryBucketItCovers) {
    std::vector<Event> events = rowOfEvents(200, 0, 10);
    events.front().start_ns = -bucketWidth(0) * 100;
    events.front().duration_ns = bucketWidth(0) * 90;
    events.front().name = 77;
    std::sort(events.begin(), events.end(), startsBefore);
    const std::vector<Level> levels = buildLevels(events);
    ASSERT_FALSE(levels.empty());
    for (const Level& level : levels) {
        std::int64_t busy = 0;
        for (const Bucket& b : level.buckets) busy += b.name == 77 ? b.busy_ns : 0;
        EXPECT_GE(busy, bucketWidth(0) * 90);
    }
    EXPECT_TRUE(buildLevels(rowOfEvents(20, 1, 1)).empty());
    EXPECT_TRUE(buildLevels({}).empty());
}

TEST(Pyramid, BlobsComeBackAndCutOnesAreRefused) {
    const std::vector<Level> levels = buildLevels(rowOfEvents(5000, 300, 900));
    const auto& buckets = levels.back().buckets;
    const std::string blob = encodeBuckets(buckets);
    std::vector<Bucket> back;
    ASSERT_TRUE(decodeBuckets(blob, buckets.size(), CodeTables::own(), back));
    EXPECT_EQ(back, buckets);
    for (std::size_t size = 0; size < blob.size(); ++size)
        EXPECT_FALSE(decodeBuckets(std::string_view(blob).substr(0, size), buckets.size(),
                                   CodeTables::own(), back));
    EXPECT_EQ(back, buckets);
}

class Viewport : public testing::Test {
protected:
    Viewport() {
        m_run.name = "trace";
        for (int r = 0; r < 2; ++r) {
            RankTimeline rank;
            rank.rank = RankId(r);
            rank.events = rowOfEvents(20000, 100 + 50 * r, 500);
            rank.tracks = {{"stream 7", "0", "7", 0, 7}};
            m_run.ranks.push_back(rank);
        }
    }
    [[nodiscard]] std::filesystem::path file() const { return m_directory.path() / "w.piper"; }

    test::TemporaryDirectory m_directory;
    piper::Run m_run;
};

TEST_F(Viewport, CoarseAndFineWindowsAgreeWithTheEvents) {
    Result<Workspace> w = Workspace::create(file());
    ASSERT_TRUE(w.ok() && w->addRun(m_run).ok());
    const std::int64_t end = m_run.ranks[1].events.back().end_ns();
    const TimeWindow whole{-1'000'000, end + 1};
    for (const std::int64_t pixel : {end / 400, end / 20, end * 4, std::int64_t{1} << 50}) {
        const Result<std::vector<RowView>> rows = w->viewport("trace", whole, pixel);
        ASSERT_TRUE(rows.ok());
        ASSERT_EQ(rows->size(), 2U);
        for (const RowView& row : *rows) {
            EXPECT_GT(row.bucket_ns, 0);
            EXPECT_LE(row.bucket_ns, pixel);
            std::int64_t busy = 0, count = 0;
            for (const Bucket& b : row.buckets) {
                busy += b.busy_ns;
                count += b.count;
            }
            EXPECT_EQ(count, 20000);
            EXPECT_EQ(busy, total(m_run.ranks[row.rank.index()].events));
        }
    }
    // A window of few events gives these, also one that began before it.
    const Event& middle = m_run.ranks[0].events[10000];
    const TimeWindow narrow{middle.start_ns + 1, middle.start_ns + 2};
    const Result<std::vector<RowView>> rows = w->viewport("trace", narrow, 1);
    ASSERT_TRUE(rows.ok());
    ASSERT_FALSE(rows->empty());
    ASSERT_EQ(rows->front().events.size(), 1U);
    EXPECT_EQ(rows->front().events[0], middle);
    EXPECT_FALSE(w->viewport("none", narrow, 1).ok());
}

TEST_F(Viewport, AnEventWithoutLengthAtTheStartOfAWindowIsInIt) {
    piper::Run run;
    run.name = "marks";
    run.ranks.emplace_back();
    run.ranks[0].rank = RankId(0);
    Event mark;
    mark.start_ns = 50;
    run.ranks[0].events = {mark};
    Result<Workspace> w = Workspace::create(file());
    ASSERT_TRUE(w.ok() && w->addRun(run).ok());
    EXPECT_EQ(w->events("marks", RankId(0), {50, 60})->size(), 1U);
    EXPECT_EQ(w->events("marks", RankId(0), {40, 50})->size(), 0U);
}

TEST_F(Viewport, ASummaryMadeOfWhatIsWrittenIsThatMadeOfWhatIsRead) {
    Result<Workspace> w = Workspace::create(file());
    ASSERT_TRUE(w.ok());
    RankTimeline rank = test::syntheticRank(0, 20000, 2, 5);
    std::shuffle(rank.events.begin(), rank.events.end(), std::mt19937(1));
    piper::Run header;
    const auto store = [&](const std::string& name, const auto& add) {
        header.name = name;
        header.outcome = RunOutcome::Running;
        const Result<std::int64_t> run = w->beginRun(header);
        ASSERT_TRUE(run.ok());
        add(*run);
        ASSERT_TRUE(w->endRun(*run, RunOutcome::Finished, "").ok());
    };
    store("whole", [&](std::int64_t run) { EXPECT_TRUE(w->addWholeRank(run, rank).ok()); });
    store("parts", [&](std::int64_t run) {
        const Result<std::int64_t> id = w->addRank(run, rank);
        EXPECT_TRUE(id.ok() && w->append(*id, rank).ok());
    });
    store("more", [&](std::int64_t run) {
        RankTimeline half = rank;
        half.events.resize(rank.events.size() / 2);
        const Result<std::int64_t> id = w->addWholeRank(run, half);
        half.events.assign(rank.events.begin() + std::ssize(half.events), rank.events.end());
        EXPECT_TRUE(id.ok() && w->append(*id, half).ok());
    });
    const TimeWindow all{0, std::int64_t{1} << 40};
    for (const std::int64_t pixel : {bucketWidth(2), bucketWidth(6)}) {
        const auto expected = w->viewport("parts", all, pixel);
        ASSERT_TRUE(expected.ok());
        EXPECT_TRUE(std::any_of(expected->begin(), expected->end(),
                                [](const RowView& row) { return !row.buckets.empty(); }));
        for (const char* name : {"whole", "more"}) {
            const auto rows = w->viewport(name, all, pixel);
            ASSERT_TRUE(rows.ok());
            ASSERT_EQ(rows->size(), expected->size());
            for (std::size_t i = 0; i < rows->size(); ++i)
                EXPECT_EQ((*rows)[i].buckets, (*expected)[i].buckets) << name << " " << i;
        }
    }
}

TEST_F(Viewport, TimesAtTheirLimitsAreOnNoLevel) {
    std::vector<Event> events = rowOfEvents(200, 0, 10);
    events.front().start_ns = std::numeric_limits<std::int64_t>::min();
    events.back().start_ns = std::numeric_limits<std::int64_t>::max();
    events.back().duration_ns = std::numeric_limits<std::int64_t>::max();
    const std::vector<Level> levels = buildLevels(events);
    ASSERT_FALSE(levels.empty());
    std::int64_t count = 0;
    for (const Bucket& b : levels.back().buckets) count += b.count;
    EXPECT_EQ(count, 198);
}

TEST_F(Viewport, ARunThatGoesOnShowsItsEvents) {
    Result<Workspace> w = Workspace::create(file());
    m_run.outcome = RunOutcome::Running;
    const Result<std::int64_t> id = w->addRun(m_run);
    ASSERT_TRUE(id.ok());
    const TimeWindow whole{-1'000'000, std::int64_t{1} << 40};
    const auto going = w->viewport("trace", whole, 1 << 20);
    ASSERT_TRUE(going.ok());
    EXPECT_EQ(going->front().events.size(), 20000U);
    ASSERT_TRUE(w->endRun(*id, RunOutcome::Finished, "").ok());
    const auto ended = w->viewport("trace", whole, 1 << 20);
    EXPECT_TRUE(ended->front().events.empty());
    EXPECT_LT(ended->front().buckets.size(), 100U);
}

std::int64_t versionOf(const std::filesystem::path& path) {
    sqlite3* database = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    sqlite3_prepare_v2(database, "PRAGMA user_version", -1, &statement, nullptr);
    sqlite3_step(statement);
    const std::int64_t version = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return version;
}

TEST_F(Viewport, AFileOfSchemaOneIsReadAndBroughtUpWhenWritten) {
    std::filesystem::copy_file(test::sourceDir() / "tests/data/store/schema1.piper", file());
    std::filesystem::permissions(file(), std::filesystem::perms::owner_all);
    const auto eventsOf = [](Workspace& w) {
        const Result<piper::Run> run = w.readRun(w.runs()->front().name);
        return run.ok() ? run->ranks[0].events.size() : 0;
    };
    const TimeWindow whole{-(std::int64_t{1} << 40), std::int64_t{1} << 40};
    {
        Result<Workspace> reader = Workspace::open(file());
        ASSERT_TRUE(reader.ok()) << reader.error().text();
        EXPECT_EQ(eventsOf(*reader), 220U);
        EXPECT_TRUE(reader->viewport(reader->runs()->front().name, whole, 1 << 20).ok());
        EXPECT_THAT(*reader->check(), testing::IsEmpty());
    }
    EXPECT_EQ(versionOf(file()), 1);
    {
        Result<Workspace> writer = Workspace::open(file(), Workspace::Mode::ReadWrite);
        ASSERT_TRUE(writer.ok()) << writer.error().text();
        EXPECT_EQ(eventsOf(*writer), 220U);
        ASSERT_TRUE(writer->addRun(m_run).ok());
        EXPECT_GT(writer->viewport("trace", whole, 1 << 20)->front().buckets.size(), 0U);
    }
    EXPECT_EQ(versionOf(file()), 2);
    Result<Workspace> again = Workspace::open(file());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(eventsOf(*again), 220U);
}

}  // namespace
}  // namespace piper
