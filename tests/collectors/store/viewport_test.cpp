// SPDX-License-Identifier: Apache-2.0
// The pyramid over each row, what a window shows of it, and files of older versions.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "collectors/store/chunks.h"
#include "collectors/store/pyramid.h"
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
    EXPECT_LE(levels.back().buckets.size(), 2U);
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
        for (const Bucket& b : level.buckets) busy += b.label.name == 77 ? b.busy_ns : 0;
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

    [[nodiscard]] std::shared_ptr<TimelineSource> timeline(std::string_view run = "trace") const {
        Result<std::shared_ptr<TimelineSource>> opened = Workspace::openTimeline(file(), run);
        EXPECT_TRUE(opened.ok()) << opened.error().text();
        return opened.ok() ? *opened : nullptr;
    }
    void store(const piper::Run& run) const {
        Result<Workspace> w = Workspace::openOrCreate(file());
        ASSERT_TRUE(w.ok() && w->addRun(run).ok());
    }

    test::TemporaryDirectory m_directory;
    piper::Run m_run;
};

struct Sums {
    std::int64_t count = 0, busy = 0;
    bool operator==(const Sums&) const = default;
};
Sums sumOf(const TimelineView& view) {
    Sums sums;
    for (const TimelineBlock& b : view.blocks) {
        EXPECT_LE(b.begin_ns, b.end_ns);
        sums.count += b.count;
        sums.busy += b.busy_ns;
    }
    return sums;
}
std::vector<std::size_t> allRows(const TimelineSource& source) {
    std::vector<std::size_t> rows(source.rows().size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
}

using TotalsByName = std::map<std::string, std::tuple<std::int64_t, std::int64_t, std::int64_t>>;
TotalsByName totalsOf(TimelineSource& source, TimeWindow window) {
    TotalsByName out;
    const auto totals = source.totals(window, allRows(source));
    EXPECT_TRUE(totals.ok());
    if (totals.ok())
        for (const SelectionTotal& t : *totals) out[t.name] = {t.count, t.sum_ns, t.longest_ns};
    return out;
}

TEST_F(Viewport, EveryZoomShowsEveryEventInAFewBlocksAPixel) {
    store(m_run);
    const auto stored = timeline();
    ASSERT_EQ(stored->rows().size(), 2U);
    EXPECT_EQ(stored->rows()[1].events, 20000);
    const TimeWindow all = stored->extent();
    const Sums expected{40000, total(m_run.ranks[0].events) + total(m_run.ranks[1].events)};
    for (std::int64_t pixels = 1; pixels < 5'000'000; pixels *= 3) {
        const auto view = stored->view(all, std::max<std::int64_t>(1, all.length() / pixels));
        ASSERT_TRUE(view.ok());
        EXPECT_EQ(sumOf(*view), expected) << pixels;
        EXPECT_LE(std::ssize(view->blocks), 2 * 3 * (pixels + 2)) << pixels;
    }
    EXPECT_FALSE(Workspace::openTimeline(file(), "none").ok());
}

TEST_F(Viewport, StoredAndInMemoryTimelinesAgree) {
    m_run.ranks[1].clock = {{0, 5000, 10}, {40'000'000, 9000, 10}};  // a drift of 1e-4
    m_run.ranks[0].offset_ns = -123;
    m_run.ranks[0].events[77].micro_batch = MicroBatchId(3);
    store(m_run);
    const auto stored = timeline();
    const auto memory = makeRunTimeline(m_run);
    EXPECT_EQ(stored->extent().begin_ns, memory->extent().begin_ns);
    EXPECT_NEAR(static_cast<double>(stored->extent().end_ns),
                static_cast<double>(memory->extent().end_ns), 1.0);
    EXPECT_EQ(stored->rows(), memory->rows());
    EXPECT_EQ(*dumpTimeline(*stored), *dumpTimeline(*memory));
    std::mt19937 random(7);
    const std::int64_t end = memory->extent().end_ns;
    for (int i = 0; i < 60; ++i) {
        const auto begin = static_cast<std::int64_t>(random()) % end;
        const TimeWindow window{begin, begin + (std::int64_t{1} << (i % 26))};
        EXPECT_EQ(totalsOf(*stored, window), totalsOf(*memory, window)) << i;
        // Where a pixel holds less than the finest bucket, the blocks are the same too.
        if (window.length() > 1'000'000) continue;
        const auto view_a = stored->view(window, 64), view_b = memory->view(window, 64);
        ASSERT_TRUE(view_a.ok() && view_b.ok());
        EXPECT_EQ(sumOf(*view_a), sumOf(*view_b));
        EXPECT_EQ(view_a->row_ends, view_b->row_ends);
    }
}

TEST_F(Viewport, StepsWithoutRecordsAreThoseOfTheEvents) {
    for (RankTimeline& rank : m_run.ranks)
        for (std::size_t i = 0; i < rank.events.size(); ++i)
            rank.events[i].step = static_cast<std::int32_t>(i / 5000);
    m_run.ranks[1].offset_ns = 777;
    store(m_run);
    EXPECT_EQ(timeline()->steps().size(), 4U);
    EXPECT_EQ(timeline()->steps(), makeRunTimeline(m_run)->steps());
    {
        Result<Workspace> from = Workspace::open(file());
        Result<Workspace> to = Workspace::create(m_directory.path() / "copy.piper");
        ASSERT_TRUE(from.ok() && to.ok() && to->copyRun(*from, "trace", "copy").ok());
    }
    const auto copy = Workspace::openTimeline(m_directory.path() / "copy.piper", "copy");
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ((*copy)->steps(), timeline()->steps());
    for (std::int32_t r = 0; r < 2; ++r)
        m_run.ranks[static_cast<std::size_t>(r)].steps = {{0, 10, 5000, 0, 0, 1},
                                                          {1, 5000, 9000 + r, 0, 0, 1}};
    m_run.name = "with records";
    store(m_run);
    EXPECT_EQ(timeline("with records")->steps(), makeRunTimeline(m_run)->steps());
}

TEST_F(Viewport, MoreNamesThanABlobHoldsMayBeginAtOneTime) {
    piper::Run run;
    run.name = "marks";
    run.ranks.emplace_back();
    run.ranks[0].rank = RankId(0);
    for (int i = 0; i < 3000; ++i) {
        Event mark;
        mark.category = EventCategory::Instant;
        mark.sub_lane = kMarkRow;
        mark.start_ns = i < 2000 ? 1000 : 1000 + i;
        mark.name = static_cast<std::int32_t>(run.ranks[0].names.size());
        run.ranks[0].names.push_back(fmt::format("mark {}", i));
        run.ranks[0].events.push_back(mark);
    }
    store(run);
    const auto stored = timeline("marks"), memory = makeRunTimeline(run);
    for (const TimeWindow window : {TimeWindow{0, 10'000}, TimeWindow{1000, 1001},
                                    TimeWindow{3100, 3900}, TimeWindow{900, 3500}})
        EXPECT_EQ(totalsOf(*stored, window), totalsOf(*memory, window));
    EXPECT_EQ(totalsOf(*stored, {0, 10'000}).size(), 3000U);
    EventQuery query;
    query.window = {0, 10'000};
    query.text = "mark 1999";
    EXPECT_EQ((*stored->find(query))->event.name, 1999);
    EXPECT_THAT(stored->damage(), testing::IsEmpty());
}

TEST_F(Viewport, EventsAreFoundByNameLengthAndPlace) {
    m_run.ranks[1].names = {"first", "second", "third", "fourth", "ncclDevKernel_AllReduce"};
    m_run.ranks[1].events[15000].name = 0;
    store(m_run);
    for (const auto& source : {timeline(), makeRunTimeline(m_run)}) {
        EventQuery query;
        query.window = source->extent();
        query.begins_in_window = true;
        query.text = "ALLreduce";
        const auto first = source->find(query);
        ASSERT_TRUE(first.ok() && first->has_value());
        EXPECT_EQ((*first)->row, 1U);
        EXPECT_EQ((*first)->event, m_run.ranks[1].events[4]);
        query.window.begin_ns = (*first)->event.start_ns + 1;
        EXPECT_EQ((*source->find(query))->event, m_run.ranks[1].events[9]);
        query.forward = false;
        const auto last = source->find(query);
        EXPECT_EQ((*last)->event, m_run.ranks[1].events[19999]);
        query.text = "no such name";
        EXPECT_FALSE(source->find(query)->has_value());
        // What lies at a moment, and the longest of a stretch.
        EventQuery at;
        at.rows = {0};
        const Event& middle = m_run.ranks[0].events[12345];
        at.window = {middle.start_ns + 1, middle.start_ns + 2};
        EXPECT_EQ((*source->find(at))->event, middle);
        at.window = source->extent();
        at.least_ns = 1499;
        EXPECT_GE((*source->find(at))->event.duration_ns, 1499);
        at.least_ns = 1'000'000;
        EXPECT_FALSE(source->find(at)->has_value());
    }
}

TEST_F(Viewport, AnEventWithoutLengthAtTheStartOfAWindowIsInIt) {
    piper::Run run;
    run.name = "marks";
    run.ranks.emplace_back();
    run.ranks[0].rank = RankId(0);
    Event mark;
    mark.start_ns = 50;
    run.ranks[0].events = {mark};
    store(run);
    const auto stored = timeline("marks");
    EXPECT_EQ(sumOf(*stored->view({50, 60}, 1)).count, 1);
    EXPECT_EQ(sumOf(*stored->view({40, 50}, 1)).count, 0);
    EXPECT_EQ(stored->totals({50, 60}, allRows(*stored))->size(), 1U);
    EXPECT_TRUE(stored->totals({40, 50}, allRows(*stored))->empty());
}

TEST_F(Viewport, ASummaryMadeOfWhatIsWrittenIsThatMadeOfWhatIsRead) {
    Result<Workspace> w = Workspace::create(file());
    ASSERT_TRUE(w.ok());
    RankTimeline rank = test::syntheticRank(0, 20000, 2, 5);
    std::shuffle(rank.events.begin(), rank.events.end(), std::mt19937(1));
    piper::Run header;
    const auto add = [&](const std::string& name, const auto& records) {
        header.name = name;
        header.outcome = RunOutcome::Running;
        const Result<std::int64_t> run = w->beginRun(header);
        ASSERT_TRUE(run.ok());
        records(*run);
        ASSERT_TRUE(w->endRun(*run, RunOutcome::Finished, "").ok());
    };
    add("whole", [&](std::int64_t run) { EXPECT_TRUE(w->addWholeRank(run, rank).ok()); });
    add("parts", [&](std::int64_t run) {
        const Result<std::int64_t> id = w->addRank(run, rank);
        EXPECT_TRUE(id.ok() && w->append(*id, rank).ok());
    });
    add("more", [&](std::int64_t run) {
        RankTimeline half = rank;
        half.events.resize(rank.events.size() / 2);
        const Result<std::int64_t> id = w->addWholeRank(run, half);
        half = {};
        half.events.assign(rank.events.begin() + std::ssize(rank.events) / 2, rank.events.end());
        EXPECT_TRUE(id.ok() && w->append(*id, half).ok());
    });
    const auto expected = timeline("parts");
    for (const char* name : {"whole", "more"}) {
        const auto other = timeline(name);
        EXPECT_EQ(other->rows(), expected->rows());
        for (const int level : {4, 12}) {
            const auto a = expected->view(expected->extent(), bucketWidth(level));
            const auto b = other->view(expected->extent(), bucketWidth(level));
            ASSERT_TRUE(a.ok() && b.ok());
            EXPECT_LT(a->blocks.size(), 20000U);
            EXPECT_EQ(a->row_ends, b->row_ends);
            EXPECT_EQ(sumOf(*a), sumOf(*b));
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
    const auto going = timeline();
    const TimeWindow all = going->extent();
    const Sums expected = sumOf(*going->view(all, 1));
    EXPECT_EQ(expected.count, 40000);
    ASSERT_TRUE(w->endRun(*id, RunOutcome::Finished, "").ok());
    const auto ended = timeline();
    EXPECT_EQ(ended->rows(), going->rows());
    EXPECT_EQ(sumOf(*ended->view(all, 1 << 20)), expected);
    // Removed, it takes its summaries with it.
    ASSERT_TRUE(w->removeRun("trace").ok());
    EXPECT_FALSE(Workspace::openTimeline(file(), "trace").ok());
    EXPECT_THAT(*w->check(), testing::IsEmpty());
}

std::int64_t integerOf(const std::filesystem::path& path, const char* question) {
    sqlite3* database = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    sqlite3_prepare_v2(database, question, -1, &statement, nullptr);
    sqlite3_step(statement);
    const std::int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return value;
}

std::int64_t versionOf(const std::filesystem::path& path) {
    return integerOf(path, "PRAGMA user_version");
}

class OlderFile : public Viewport, public testing::WithParamInterface<int> {};

TEST_P(OlderFile, IsReadAndBroughtUpWhenWritten) {
    std::filesystem::copy_file(
        test::sourceDir() / fmt::format("tests/data/store/schema{}.piper", GetParam()), file());
    std::filesystem::permissions(file(), std::filesystem::perms::owner_all);
    std::string run_name, as_it_was;
    std::size_t events = 0;
    {
        Result<Workspace> reader = Workspace::open(file());
        ASSERT_TRUE(reader.ok()) << reader.error().text();
        run_name = reader->runs()->front().name;
        events = reader->readRun(run_name)->ranks[0].events.size();
        EXPECT_GE(events, 220U);
        EXPECT_THAT(*reader->check(), testing::IsEmpty());
        as_it_was = *dumpTimeline(*timeline(run_name));
    }
    EXPECT_EQ(versionOf(file()), GetParam());
    {
        Result<Workspace> writer = Workspace::open(file(), Workspace::Mode::ReadWrite);
        ASSERT_TRUE(writer.ok()) << writer.error().text();
        EXPECT_GT(integerOf(file(), "SELECT count(*) FROM row"), 0);
        EXPECT_GT(integerOf(file(), "SELECT count(*) FROM total"), 0);
        EXPECT_GT(integerOf(file(), "SELECT count(*) FROM step_window"), 0);
        EXPECT_EQ(writer->readRun(run_name)->ranks[0].events.size(), events);
        ASSERT_TRUE(writer->addRun(m_run).ok());
    }
    EXPECT_EQ(versionOf(file()), 4);
    Result<Workspace> again = Workspace::open(file());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->readRun(run_name)->ranks[0].events.size(), events);
    EXPECT_EQ(*dumpTimeline(*timeline(run_name)), as_it_was);
    EXPECT_THAT(*again->check(), testing::IsEmpty());
}

TEST_F(Viewport, StepsOfAnOlderFileComeWithItsSummaries) {
    std::filesystem::copy_file(test::sourceDir() / "tests/data/store/schema3.piper", file());
    std::filesystem::permissions(file(), std::filesystem::perms::owner_all);
    const char* const kRun = "h100_smoke_N2_G1 all_reduce_perf";
    EXPECT_EQ(timeline(kRun)->steps().size(), 1U);
    {
        Result<Workspace> from = Workspace::open(file());
        Result<Workspace> to = Workspace::create(m_directory.path() / "copy.piper");
        ASSERT_TRUE(from.ok() && to.ok() && to->copyRun(*from, kRun, "copy").ok());
    }
    const auto copy = Workspace::openTimeline(m_directory.path() / "copy.piper", "copy");
    ASSERT_TRUE(copy.ok());
    EXPECT_EQ((*copy)->steps().size(), 5U);
    ASSERT_TRUE(Workspace::open(file(), Workspace::Mode::ReadWrite).ok());
    EXPECT_EQ(timeline(kRun)->steps().size(), 5U);
}

INSTANTIATE_TEST_SUITE_P(Versions, OlderFile, testing::Values(1, 2, 3));

}  // namespace
}  // namespace piper
