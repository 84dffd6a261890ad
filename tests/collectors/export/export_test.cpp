// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "collectors/export/chrome.h"
#include "collectors/export/csv.h"
#include "core/base/json.h"
#include "core/run/rank_clock.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

Json chromeOf(const piper::Run& run) {
    std::ostringstream out;
    EXPECT_TRUE(writeChromeTrace(run, out).ok());
    const Result<Json> json = parseJson(out.str(), "trace");
    EXPECT_TRUE(json.ok()) << json.error().text();
    return json.ok() ? *json : Json();
}

TEST(ChromeExport, ArrowsOfTwoRanksHaveDifferentIds) {
    piper::Run run;
    for (int r : {0, 1}) {
        RankTimeline rank;
        rank.rank = RankId(r);
        for (const EventCategory category : {EventCategory::FlowStart, EventCategory::FlowEnd}) {
            Event e = test::event(1, 0);
            e.category = category;
            e.correlation = 17;
            rank.events.push_back(e);
        }
        run.ranks.push_back(rank);
    }
    std::map<std::string, std::set<int>> ranks;
    const Json json = chromeOf(run);
    for (const Json& e : json["traceEvents"])
        if (e.contains("id")) ranks[e["id"].dump()].insert(e["pid"].get<int>());
    ASSERT_EQ(ranks.size(), 2U);
    for (const auto& [id, of] : ranks) EXPECT_EQ(of.size(), 1U) << id;
}

TEST(ChromeExport, EveryEventComesOutWithItsPlaceTimeAndArguments) {
    piper::Run run = test::syntheticRun(2, 500, 3);
    run.name = "with \"quotes\" and \n";
    const Json json = chromeOf(run);
    EXPECT_EQ(json["otherData"]["run"], run.name);
    std::map<int, std::vector<Json>> events;
    std::map<std::string, std::size_t> letters;
    for (const Json& e : json["traceEvents"]) {
        if (e["ph"] == "X") events[e["pid"].get<int>()].push_back(e);
        ++letters[e["ph"].get<std::string>()];
    }
    std::map<std::string, std::size_t> expected;
    for (const RankTimeline& rank : run.ranks) {
        expected["C"] += rank.memory.size();
        std::vector<Event> ranges;
        for (const Event& e : rank.events) {
            expected["C"] += e.category == EventCategory::Counter ? 1 : 0;
            expected["s"] += e.category == EventCategory::FlowStart ? 1 : 0;
            expected["t"] += e.category == EventCategory::FlowStep ? 1 : 0;
            expected["f"] += e.category == EventCategory::FlowEnd ? 1 : 0;
            expected["i"] += e.category == EventCategory::Instant ? 1 : 0;
            if (!isMark(e.category)) ranges.push_back(e);
        }
        const std::vector<Json>& out = events[rank.rank.value];
        ASSERT_EQ(out.size(), ranges.size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const Event& e = ranges[i];
            const Json& args = out[i]["args"];
            if (e.track < 0) {
                EXPECT_EQ(out[i]["tid"], static_cast<int>(e.lane));
            }
            EXPECT_EQ(std::llround(out[i]["ts"].get<double>() * 1000),
                      RankClock(rank).toCommon(e.start_ns));
            EXPECT_EQ(std::llround(out[i]["dur"].get<double>() * 1000), e.duration_ns);
            EXPECT_EQ(args.value("layer", -1), e.layer.value);
            EXPECT_EQ(args.value("bytes", std::int64_t{0}), e.bytes);
            EXPECT_EQ(args.value("flops", 0.0), e.flops);
        }
    }
    letters.erase("M");
    letters.erase("X");
    EXPECT_EQ(letters, expected);
}

TEST(ChromeExport, NamesTracksAndStreamsOfATraceStay) {
    piper::Run run;
    run.ranks.resize(1);
    RankTimeline& rank = run.ranks[0];
    rank.rank = RankId(0);
    rank.names = {"void gemm<\"x\">()"};
    rank.tracks = {{"device 2 stream 7", "2", "7", 2, 7}, {"python 9", "1", "9", -1, -1}};
    Event e;
    e.category = EventCategory::Kernel;
    e.lane = Lane::Stream;
    e.name = 0;
    e.track = 0;
    e.correlation = 11;
    e.duration_ns = 5;
    rank.events.push_back(e);
    e.sub_lane = 1;
    rank.events.push_back(e);
    e.category = EventCategory::FlowEnd;
    e.track = 1;
    e.sub_lane = kMarkRow;
    rank.events.push_back(e);
    std::map<std::string, Json> named;
    std::vector<Json> kernels;
    const Json json = chromeOf(run);
    for (const Json& event : json["traceEvents"]) {
        if (event["ph"] == "X") kernels.push_back(event);
        if (event["ph"] == "f") {
            EXPECT_EQ(event["id"], 11);
        }
        if (event["name"] == "thread_name")
            named[event["args"]["name"].get<std::string>()] = event["tid"];
    }
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[0]["name"], rank.names[0]);
    EXPECT_EQ(kernels[0]["cat"], "kernel");
    EXPECT_EQ(kernels[0]["args"]["device"], 2);
    EXPECT_EQ(kernels[0]["args"]["stream"], 7);
    EXPECT_EQ(kernels[0]["tid"], named["device 2 stream 7"]);
    EXPECT_EQ(kernels[1]["tid"], named["device 2 stream 7 (row 2)"]);
    EXPECT_TRUE(named.contains("python 9"));
    std::ostringstream csv;
    ASSERT_TRUE(writeCsv(run, csv).ok());
    EXPECT_THAT(csv.str(),
                HasSubstr("kernel,\"void gemm<\"\"x\"\">()\",device 2 stream 7,2,7,11\n"));
}

TEST(ChromeExport, TimesKeepEveryNanosecondAndNamesAreGiven) {
    piper::Run run;
    run.ranks.resize(1);
    run.ranks[0].rank = RankId(3);
    run.ranks[0].stage = StageId(1);
    run.ranks[0].host = "node7";
    run.ranks[0].offset_ns = -2;
    Event e;
    e.phase = Phase::Dispatch;
    e.kind = OperationKind::Dispatch;
    e.lane = Lane::Ep;
    e.start_ns = 1;
    e.duration_ns = 9007199254740993;  // more than a double holds
    run.ranks[0].events = {e};
    std::ostringstream out;
    ASSERT_TRUE(writeChromeTrace(run, out).ok());
    EXPECT_THAT(out.str(), HasSubstr(R"("ts":-0.001,"dur":9007199254740.993,)"));
    EXPECT_THAT(out.str(), HasSubstr(R"("name":"dispatch")"));
    EXPECT_THAT(out.str(), HasSubstr("rank 3 (stage 1) node7"));
    EXPECT_THAT(out.str(), HasSubstr(R"("thread_name","args":{"name":"ep"})"));
    EXPECT_THAT(out.str(), testing::Not(HasSubstr("tp_cp")));  // an unused lane
    EXPECT_TRUE(chromeOf(piper::Run{})["traceEvents"].empty());
}

TEST(CsvExport, OneRowAnEventWithEmptyFieldsForWhatIsAbsent) {
    const piper::Run run = test::syntheticRun(2, 50, 2);
    std::ostringstream out;
    ASSERT_TRUE(writeCsv(run, out).ok());
    // Rows and fields by what stands outside quotes: names hold commas and ends of lines.
    std::size_t rows = 0, commas = 0;
    bool in_quotes = false;
    for (const char c : out.str()) {
        if (c == '"') in_quotes = !in_quotes;
        commas += c == ',' && !in_quotes ? 1 : 0;
        if (c != '\n' || in_quotes) continue;
        EXPECT_EQ(commas, 23U) << "row " << rows;
        commas = 0;
        ++rows;
    }
    EXPECT_EQ(rows, 101U);
    piper::Run bare;
    bare.ranks.resize(1);
    bare.ranks[0].rank = RankId(0);
    bare.ranks[0].stage = StageId(0);
    bare.ranks[0].offset_ns = 10;
    bare.ranks[0].events.resize(1);
    std::ostringstream one;
    ASSERT_TRUE(writeCsv(bare, one).ok());
    EXPECT_THAT(
        one.str(),
        HasSubstr("\n0,0,compute,0,idle,forward,forward,steady,10,0,,,,,,0,0,,operation,,,,,\n"));
}

TEST(Export, AFullOrMissingDestinationIsAnErrorAndLeavesNothing) {
    const piper::Run run = test::syntheticRun(1, 5000, 2);
    const test::TemporaryDirectory directory;
    const std::filesystem::path absent = directory.path() / "no" / "trace.json";
    for (const Status& status : {exportChromeTrace(run, absent), exportCsv(run, absent)}) {
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::Io);
        EXPECT_THAT(status.error().text(), HasSubstr("No such file"));
    }
    const std::filesystem::path full = directory.path() / "full";
    std::filesystem::create_symlink("/dev/full", full);
    using Exporter = Status (*)(const piper::Run&, const std::filesystem::path&);
    for (const Exporter exporter : {Exporter(exportChromeTrace), Exporter(exportCsv)}) {
        const Status status = exporter(run, full);
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::Io);
        EXPECT_TRUE(std::filesystem::is_symlink(full));  // a device is not ours to remove
    }
    ASSERT_TRUE(exportChromeTrace(run, directory.path() / "t.json").ok());
    EXPECT_TRUE(parseJson(test::readText(directory.path() / "t.json"), "t").ok());
}

}  // namespace
}  // namespace piper
