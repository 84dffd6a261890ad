// SPDX-License-Identifier: Apache-2.0
// What other readers of Chrome traces stumble over.
#include <gmock/gmock.h>

#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

using testing::HasSubstr;

std::string kernel(int ts, int dur, const std::string& name = "gemm", int stream = 7) {
    return fmt::format(R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},)"
                       R"("args":{{"device":0,"stream":{},"correlation":{}}}}})",
                       name, stream, ts, dur, stream, ts);
}

std::string document(const std::string& events, const std::string& before = "") {
    return "{" + before + R"("traceEvents": [)" + events + "]}";
}

ImportedRun import(std::string_view text, const std::string& name = "trace.json") {
    const TextFile file(text, name);
    Result<ImportedRun> run = importChrome(file.path());
    EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().text());
    return run.ok() ? std::move(run).value() : ImportedRun{};
}

std::size_t numEvents(const ImportedRun& run) {
    return run.run.ranks.empty() ? 0 : run.run.ranks[0].events.size();
}

TEST(Chrome, ABareArrayWithOrWithoutItsClosingBracket) {
    const std::string two = kernel(10, 5) + "," + kernel(20, 5);
    for (const std::string& text :
         {"[" + two + "]", "[" + two + ",]", "[" + two, "[" + two + ",\n"}) {
        const ImportedRun run = import(text);
        EXPECT_EQ(numEvents(run), 2U) << text;
        EXPECT_FALSE(run.counters.lostData()) << run.counters.text();
    }
}

TEST(Chrome, TimesAsTextAndIdsAsText) {
    const ImportedRun run = import(document(
        R"({"ph":"X","cat":"Kernel","name":"k","pid":"0","tid":"stream 7","ts":"12.5","dur":"0.25",)"
        R"("args":{"device":"3","stream":"9"}},)"
        R"({"ph":"s","id":"0x10","pid":1,"tid":2,"ts":12,"cat":"ac2g","name":"ac2g"})"));
    ASSERT_EQ(numEvents(run), 2U);
    const RankTimeline& rank = run.run.ranks[0];
    EXPECT_EQ(rank.events[0].duration_ns, 250);
    EXPECT_EQ(rank.trackOf(rank.events[0])->device, 3);
    EXPECT_EQ(rank.trackOf(rank.events[0])->stream, 9);
    EXPECT_EQ(rank.events[1].correlation, 16);
    EXPECT_EQ(rank.events[1].category, EventCategory::FlowStart);
    EXPECT_EQ(rank.counters.at("first_timestamp_ns"), "12500");
}

TEST(Chrome, OverlappingKernelsGetRowsOfTheirOwnAndNoneIsLost) {
    const ImportedRun run = import(document(kernel(10, 20) + "," + kernel(15, 20) + "," +
                                            kernel(30, 5) + "," + kernel(12, 1, "tiny")));
    const auto& events = run.run.ranks[0].events;
    ASSERT_EQ(events.size(), 4U);
    for (const Event& a : events)
        for (const Event& b : events)
            EXPECT_TRUE(&a == &b || a.sub_lane != b.sub_lane || a.end_ns() <= b.start_ns ||
                        b.end_ns() <= a.start_ns);
    EXPECT_EQ(run.counters.count("overlapping_device_work"), 2);
}

TEST(Chrome, UnmatchedFlowEndsAreKeptAndCounted) {
    const ImportedRun run = import(document(
        R"({"ph":"s","id":1,"pid":1,"tid":1,"ts":1,"cat":"ac2g","name":"ac2g"},)"
        R"({"ph":"f","id":1,"pid":0,"tid":7,"ts":2,"cat":"ac2g","name":"ac2g","bp":"e"},)"
        R"({"ph":"f","id":2,"pid":0,"tid":7,"ts":3,"cat":"ac2g","name":"ac2g","bp":"e"})"));
    EXPECT_EQ(numEvents(run), 3U);
    EXPECT_EQ(run.counters.count("flow_end_without_start"), 1);
    EXPECT_FALSE(run.counters.lostData());
}

TEST(Chrome, BeginAndEndAreJoinedByTrackInnermostFirst) {
    const ImportedRun run = import(document(
        R"({"ph":"B","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"B","name":"inner","pid":1,"tid":1,"ts":2},)"
        R"({"ph":"E","pid":1,"tid":1,"ts":3},{"ph":"E","pid":1,"tid":1,"ts":5},)"
        R"({"ph":"E","pid":1,"tid":1,"ts":6},{"ph":"B","name":"open","pid":1,"tid":1,"ts":7})"));
    const RankTimeline& rank = run.run.ranks[0];
    std::map<std::string, std::int64_t> lengths;
    for (const Event& e : rank.events) lengths[std::string(rank.nameOf(e))] = e.duration_ns;
    EXPECT_EQ(lengths.at("outer"), 4000);
    EXPECT_EQ(lengths.at("inner"), 1000);
    EXPECT_EQ(run.counters.count("end_without_begin"), 1);
    EXPECT_EQ(run.counters.count("range_without_end"), 1);
    EXPECT_EQ(rank.counters.at("trace_events"), "6");
}

TEST(Chrome, ControlCharactersAndEscapesInNames) {
    const ImportedRun run =
        import(document(kernel(1, 1, "a\tb") + "," + kernel(3, 1, R"(q\"x\u00e4)")));
    const RankTimeline& rank = run.run.ranks[0];
    ASSERT_EQ(rank.events.size(), 2U);
    EXPECT_EQ(rank.nameOf(rank.events[0]), "a\tb");
    EXPECT_EQ(rank.nameOf(rank.events[1]), "q\"xä");
    EXPECT_EQ(run.counters.count("control_character"), 1);
    EXPECT_FALSE(run.counters.lostData());
}

TEST(Chrome, ABrokenEventCostsOnlyItself) {
    const std::string broken = R"({"ph":"X","cat":"kernel" "name":1,,"ts":5})";
    const ImportedRun run =
        import(document(kernel(1, 1) + "," + broken + "," + kernel(3, 1) + "," + kernel(5, 1)));
    EXPECT_EQ(numEvents(run), 3U);
    EXPECT_EQ(run.counters.count("malformed_event"), 1);
    EXPECT_TRUE(run.counters.lostData());
    EXPECT_THAT(run.counters.text(), HasSubstr("at byte"));
}

TEST(Chrome, EachPrefixOfAFileGivesItsWholeEventsAndSaysThatItIsCut) {
    std::string events;
    for (int i = 0; i < 8; ++i) events += (i ? "," : "") + kernel(10 * i, 5);
    const std::string text =
        document(events, R"("schemaVersion": 1, "distributedInfo": {"rank": 3},)");
    const std::size_t first = text.find('[') + 1;
    for (std::size_t size = first; size + 1 < text.size(); size += 7) {
        const ImportedRun run = import(std::string_view(text).substr(0, size));
        const auto whole = static_cast<std::size_t>(
            std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), '}') / 2);
        EXPECT_LE(numEvents(run), whole);
        EXPECT_GE(numEvents(run) + 1, whole);
        EXPECT_TRUE(run.counters.lostData()) << size;
        EXPECT_EQ(run.run.ranks[0].rank, RankId(3));
    }
}

TEST(Chrome, ATruncatedGzipGivesWhatCameBefore) {
    const std::string whole = readText(traceFile("hta/trace_filter__sampled_rank-0.json.gz"));
    const ImportedRun run =
        import(std::string_view(whole).substr(0, whole.size() / 2), "t.json.gz");
    EXPECT_GT(numEvents(run), 500U);
    EXPECT_LT(numEvents(run), 4855U);
    EXPECT_EQ(run.counters.count("source_damaged"), 1);
    EXPECT_THAT(run.counters.text(), HasSubstr("ends too early"));
}

TEST(Chrome, WhatStandsBehindAWholeGzipMemberIsReadOrTold) {
    const std::string whole = readText(traceFile("hta/trace_filter__sampled_rank-0.json.gz"));
    const std::size_t events = numEvents(import(whole, "t.json.gz"));
    EXPECT_EQ(import(whole + std::string(3000, '\0'), "t.json.gz").counters.lostData(), false);
    const ImportedRun rubbish = import(whole + "rubbish", "t.json.gz");
    EXPECT_EQ(numEvents(rubbish), events);
    EXPECT_EQ(rubbish.counters.count("source_damaged"), 1);
}

TEST(Chrome, AByteOrderMarkAndEscapedLettersAreNoDifference) {
    const ImportedRun run = import(
        "\xef\xbb\xbf" + document(R"({"ph":"X","cat":"k\u0065rnel","name":"k","pid":0,"tid":7,)"
                                  R"("ts":1,"d\u0075r":2,"\u0061rgs":{"dev\u0069ce":3}})"));
    ASSERT_EQ(numEvents(run), 1U);
    const RankTimeline& rank = run.run.ranks[0];
    EXPECT_EQ(rank.events[0].category, EventCategory::Kernel);
    EXPECT_EQ(rank.events[0].duration_ns, 2000);
    EXPECT_EQ(rank.trackOf(rank.events[0])->device, 3);
    for (const char* start : {"\xff\xfe[", "\xfe\xff["}) {
        RoundTrip wide({TextFile(std::string_view(start, 3)).path()});
        ASSERT_FALSE(wide.summary.ok());
        EXPECT_THAT(wide.summary.error().text(), HasSubstr("UTF-16"));
    }
}

TEST(Chrome, AnEmptyElementIsNoLoss) {
    const ImportedRun run = import(document("{}," + kernel(1, 1) + ",{}"));
    EXPECT_EQ(numEvents(run), 1U);
    EXPECT_EQ(run.run.ranks[0].counters.at("trace_events"), "3");
    EXPECT_EQ(run.counters.count("empty_element"), 2);
    EXPECT_FALSE(run.counters.lostData());
    for (const char* cut : {R"({"name":"k","ts":1})", R"({"cat":"kernel","dur":5,"pid":0})"})
        EXPECT_TRUE(import(document(cut)).counters.lostData()) << cut;
}

TEST(Chrome, WhatIsNoTraceIsRefusedWithItsReason) {
    for (const auto& [text, reason] :
         {std::pair{"", "empty"}, std::pair{"{}", "no trace events"}, std::pair{"12", "neither"},
          std::pair{R"({"a": 1})", "no trace events"},
          std::pair{R"({"traceEvents": 5})", "no trace"},
          std::pair{"{not json", "no key at byte"}}) {
        const TextFile file(text);
        const Result<ImportedRun> run = importChrome(file.path());
        ASSERT_FALSE(run.ok()) << text;
        EXPECT_EQ(run.error().code, ErrorCode::InvalidInput);
        EXPECT_THAT(run.error().text(), HasSubstr(reason));
        EXPECT_THAT(run.error().text(), HasSubstr(file.path().string()));
    }
    EXPECT_EQ(importChrome("/nowhere/x.json").error().code, ErrorCode::NotFound);
}

TEST(Chrome, ProfilerStepsBecomeSteps) {
    const ImportedRun run = import(document(
        R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#12","pid":1,"tid":1,"ts":1,"dur":10},)"
        R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#13","pid":1,"tid":1,"ts":11,"dur":9})"));
    ASSERT_EQ(run.run.ranks[0].steps.size(), 2U);
    EXPECT_EQ(run.run.ranks[0].steps[1].step, 13);
    EXPECT_EQ(run.run.ranks[0].steps[1].start_ns, 10000);
}

TEST(Chrome, OneRangeThatNeverEndsHasNoLength) {
    const ImportedRun run = import(document(R"({"ph":"B","name":"open","pid":1,"tid":1,"ts":7})"));
    ASSERT_EQ(numEvents(run), 1U);
    EXPECT_EQ(run.run.ranks[0].events[0].duration_ns, 0);
}

TEST(Chrome, ABrokenLastEventLeavesTheRestOfTheDocument) {
    const std::string broken =
        R"({"ph":"X","cat":"kernel" "name":1,"args":{"l":[{"a":1}]},,"ts":5})";
    const ImportedRun run = import("{\"traceEvents\": [" + kernel(1, 1) + "," + broken +
                                   R"(], "distributedInfo": {"rank": 6}})");
    EXPECT_EQ(numEvents(run), 1U);
    EXPECT_EQ(run.run.ranks[0].rank, RankId(6));
    EXPECT_EQ(run.counters.count("truncated"), 0);
    // A bracket inside a broken event does not end the array.
    EXPECT_EQ(numEvents(import(document(broken + "," + kernel(1, 1) + "," + kernel(3, 1)))), 2U);
}

TEST(Chrome, BeginAndEndOfAKernelMeetOnItsThread) {
    const ImportedRun run = import(document(
        R"({"ph":"B","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"args":{"device":0,"stream":7}},)"
        R"({"ph":"E","pid":0,"tid":7,"ts":4})"));
    ASSERT_EQ(numEvents(run), 1U);
    EXPECT_EQ(run.run.ranks[0].events[0].duration_ns, 3000);
    EXPECT_EQ(run.run.ranks[0].trackOf(run.run.ranks[0].events[0])->stream, 7);
    EXPECT_EQ(run.counters.count("end_without_begin"), 0);
}

TEST(Chrome, TextIdsAreNoNumbers) {
    // The name "a" has number 0 here, as the arrow of id 0.
    const ImportedRun run =
        import(document(R"({"ph":"s","id":0,"pid":1,"tid":1,"ts":1,"cat":"c","name":"a"},)"
                        R"({"ph":"f","id":"a","pid":1,"tid":2,"ts":2,"cat":"c","name":"a"})"));
    EXPECT_EQ(run.counters.count("flow_end_without_start"), 1);
}

TEST(Chrome, CounterValuesAreKeptOrCounted) {
    const ImportedRun run =
        import(document(R"({"args":{"free":12},"ph":"C","name":"m","pid":1,"ts":1},)"
                        R"({"ph":"C","name":"m","pid":1,"ts":2,"args":{"free":2.75}},)"
                        R"({"ph":"C","name":"m","pid":1,"ts":3,"args":{"free":"?"}})"));
    ASSERT_EQ(numEvents(run), 3U);
    EXPECT_EQ(run.run.ranks[0].events[0].bytes, 12);
    EXPECT_EQ(run.run.ranks[0].events[1].bytes, 3);
    EXPECT_EQ(run.counters.count("counter_rounded"), 1);
    EXPECT_EQ(run.counters.count("counter_without_value"), 1);
}

TEST(Chrome, ValuesTooLongToHoldCostOnlyThemselves) {
    const std::string text(70U << 20, 'a');
    const std::string event = R"({"ph":"X","name":")" + text + R"(","pid":0,"tid":1,"ts":1})";
    const ImportedRun run =
        import(document(kernel(1, 1) + "," + event + "," + kernel(3, 1) + "," + kernel(5, 1),
                        R"("frames": ["}]\"", ")" + text + R"("],)"));
    EXPECT_EQ(numEvents(run), 3U);
    EXPECT_EQ(run.counters.count("long_event"), 1);
    EXPECT_EQ(run.counters.count("truncated"), 0);
}

TEST(Chrome, TimesAndNumbersAtTheirLimits) {
    const std::string far = "-9223372036854775.808", wide = "2305843009213693.952";
    const ImportedRun run = import(document(
        R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":)" + far + R"(,"dur":1},)" +
            R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":1,"dur":)" + far + "}," +
            R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":-)" + wide + R"(,"dur":1},)" +
            R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":)" + wide + R"(,"dur":)" + wide + "}," +
            R"({"ph":"X","name":"a","pid":0,"tid":1,"ts":1,"dur":1,)"
            R"("args":{"In msg nelems":-9223372036854775808,"dtype":"Double"}})",
        R"("baseTimeNanoseconds": -9223372036854775808,)"));
    EXPECT_EQ(run.counters.count("bad_base_time"), 1);
    EXPECT_EQ(run.counters.count("bad_duration"), 1);
    EXPECT_GE(run.counters.count("bad_timestamp"), 2);
    for (const Event& e : run.run.ranks[0].events) EXPECT_GE(e.end_ns(), e.start_ns);
}

TEST(Chrome, ARankComesFromTheFileOrItsName) {
    EXPECT_EQ(import(document(kernel(1, 1)), "worker5.pt.trace.json").run.ranks[0].rank, RankId(5));
    EXPECT_EQ(import(document(kernel(1, 1)), "x_rank-12.json").run.ranks[0].rank, RankId(12));
    EXPECT_EQ(import(document(kernel(1, 1)), "frank.json").run.ranks[0].rank, RankId(0));
    EXPECT_EQ(import(document(kernel(1, 1), R"("distributedInfo": {"rank": 2, "world_size": 4},)"),
                     "rank7.json")
                  .run.ranks[0]
                  .rank,
              RankId(2));
}

}  // namespace
}  // namespace piper::test
