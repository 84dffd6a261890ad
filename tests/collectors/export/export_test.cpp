// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "collectors/export/chrome.h"
#include "collectors/export/csv.h"
#include "core/base/json.h"
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

TEST(ChromeExport, EveryEventComesOutWithItsPlaceTimeAndArguments) {
    piper::Run run = test::syntheticRun(2, 500, 3);
    run.name = "with \"quotes\" and \n";
    const Json json = chromeOf(run);
    EXPECT_EQ(json["otherData"]["run"], run.name);
    std::map<int, std::vector<Json>> events;
    std::size_t counters = 0;
    for (const Json& e : json["traceEvents"]) {
        if (e["ph"] == "X") events[e["pid"].get<int>()].push_back(e);
        counters += e["ph"] == "C" ? 1 : 0;
    }
    EXPECT_EQ(counters, run.ranks[0].memory.size() + run.ranks[1].memory.size());
    for (const RankTimeline& rank : run.ranks) {
        const std::vector<Json>& out = events[rank.rank.value];
        ASSERT_EQ(out.size(), rank.events.size());
        for (std::size_t i = 0; i < out.size(); ++i) {
            const Event& e = rank.events[i];
            const Json& args = out[i]["args"];
            EXPECT_EQ(out[i]["tid"], static_cast<int>(e.lane));
            EXPECT_EQ(std::llround(out[i]["ts"].get<double>() * 1000), e.start_ns + rank.offset_ns);
            EXPECT_EQ(std::llround(out[i]["dur"].get<double>() * 1000), e.duration_ns);
            EXPECT_EQ(args.value("layer", -1), e.layer.value);
            EXPECT_EQ(args.value("bytes", std::int64_t{0}), e.bytes);
            EXPECT_EQ(args.value("flops", 0.0), e.flops);
        }
    }
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
    std::istringstream in(out.str());
    std::string line;
    std::size_t rows = 0;
    while (std::getline(in, line)) {
        EXPECT_EQ(std::count(line.begin(), line.end(), ','), 17) << line;
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
    EXPECT_THAT(one.str(),
                HasSubstr("\n0,0,compute,0,idle,forward,forward,steady,10,0,,,,,,0,0,\n"));
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
