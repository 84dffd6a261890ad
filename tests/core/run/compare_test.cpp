// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "core/base/json.h"
#include "core/run/plan_difference.h"
#include "core/run/report.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const ComparisonRow& row(const std::vector<ComparisonRow>& rows, std::string_view key) {
    for (const ComparisonRow& r : rows)
        if (r.key == key) return r;
    ADD_FAILURE() << "no row " << key;
    return rows.front();
}

/// `factor` stretches every time.
piper::Run uniform(RunKind kind, int steps, std::int64_t factor) {
    piper::Run run;
    run.name = std::string(toText(kind));
    run.kind = kind;
    run.plan_json = R"({"layout": {"pp": 2, "ep": 1}, "seq_len": 64})";
    for (int r = 0; r < 2; ++r) {
        RankTimeline rank;
        rank.rank = RankId(r);
        rank.stage = StageId(r);
        for (int s = 0; s < steps; ++s) {
            const std::int64_t begin = s * 100 * factor;
            rank.steps.push_back({s, begin, begin + 100 * factor, 1.0, 1.0, 64});
            Event expert;
            expert.phase = Phase::Expert;
            expert.step = s;
            expert.start_ns = begin;
            expert.duration_ns = 60 * factor;
            expert.flops = 1000;
            Event dispatch = expert;
            dispatch.phase = Phase::Dispatch;
            dispatch.lane = Lane::Ep;
            dispatch.start_ns = begin + 50 * factor;
            dispatch.duration_ns = 30 * factor;
            dispatch.flops = 0;
            dispatch.bytes = 256;
            rank.events.push_back(expert);
            rank.events.push_back(dispatch);
        }
        rank.memory = {{0, MemoryTerm::Weights, 1000 + r}, {5, MemoryTerm::Workspace, 10 * factor}};
        run.ranks.push_back(rank);
    }
    return run;
}

TEST(Compare, AModelOfOneStepAgainstAMeasurementOfMany) {
    const piper::Run a = uniform(RunKind::Modelled, 1, 1), b = uniform(RunKind::Measured, 5, 2);
    const Comparison c = compareRuns(a, b, 2);
    EXPECT_EQ(c.statistics_b.steps, 3);
    EXPECT_DOUBLE_EQ(row(c.phase_seconds, "expert").a, 60e-9);
    EXPECT_DOUBLE_EQ(row(c.phase_seconds, "expert").b, 120e-9);
    EXPECT_DOUBLE_EQ(row(c.phase_seconds, "expert").relative(), 1.0);
    EXPECT_DOUBLE_EQ(row(c.phase_seconds, "idle").b, 40e-9);
    EXPECT_DOUBLE_EQ(row(c.phase_flops, "expert").difference(), 0.0);
    EXPECT_DOUBLE_EQ(row(c.phase_bytes, "dispatch").b, 512);
    EXPECT_DOUBLE_EQ(row(c.memory_bytes, "weights").a, 1001);
    EXPECT_DOUBLE_EQ(row(c.rank_peak_bytes, "rank 0").b, 1020);
    EXPECT_DOUBLE_EQ(row(c.stages, "stage 1").b, 160e-9);
    EXPECT_DOUBLE_EQ(row(c.ranks, "rank 0").a, 80e-9);
    EXPECT_THAT(c.warnings, IsEmpty());
    EXPECT_THAT(c.only_in_a, IsEmpty());

    EXPECT_DOUBLE_EQ(c.attribution.step_a_seconds, 100e-9);
    EXPECT_DOUBLE_EQ(c.attribution.step_b_seconds, 200e-9);
    EXPECT_NEAR(c.attribution.compute_seconds, 60e-9, 1e-15);
    EXPECT_NEAR(c.attribution.exposed_communication_seconds, 20e-9, 1e-15);
    EXPECT_NEAR(c.attribution.bubble_seconds, 20e-9, 1e-15);
    EXPECT_NEAR(c.attribution.rest_seconds, 0.0, 1e-15);
}

TEST(Compare, AttributionAddsUpForAnyTwoRuns) {
    for (unsigned seed = 1; seed < 20; ++seed) {
        const piper::Run a = test::syntheticRun(3, 400, 4, seed);
        const piper::Run b = test::syntheticRun(2, 700, 3, seed + 100);
        const Attribution why = compareRuns(a, b).attribution;
        EXPECT_DOUBLE_EQ(why.compute_seconds + why.exposed_communication_seconds +
                             why.bubble_seconds + why.rest_seconds,
                         why.difference());
        EXPECT_NE(why.difference(), 0.0);
    }
}

TEST(Compare, ARunAgainstItselfShowsNoDifference) {
    const piper::Run run = test::syntheticRun(3, 500, 4);
    const Comparison c = compareRuns(run, run);
    for (const auto* rows : {&c.phase_seconds, &c.phase_flops, &c.phase_bytes, &c.memory_bytes,
                             &c.rank_peak_bytes, &c.stages, &c.ranks}) {
        EXPECT_FALSE(rows->empty());
        for (const ComparisonRow& r : *rows) EXPECT_EQ(r.difference(), 0.0) << r.key;
    }
    EXPECT_THAT(c.warnings, IsEmpty());
}

TEST(Compare, WhatOnlyOneRunHasAndWhatMakesThemIncomparable) {
    const piper::Run a = uniform(RunKind::Measured, 2, 1);
    piper::Run b = uniform(RunKind::Measured, 3, 1);
    b.name = "other";
    b.outcome = RunOutcome::Failed;
    b.outcome_reason = "rank 1 died";
    b.plan_json = R"({"layout": {"pp": 1, "ep": 1}, "seq_len": 64, "zero_stage": 1})";
    b.ranks.pop_back();
    b.ranks[0].memory.clear();
    for (Event& e : b.ranks[0].events)
        if (e.phase == Phase::Dispatch) e.phase = Phase::PpComm;
    const Comparison c = compareRuns(a, b);
    EXPECT_THAT(c.only_in_a, Contains("phase dispatch"));
    EXPECT_THAT(c.only_in_a, Contains("rank 1"));
    EXPECT_THAT(c.only_in_a, Contains("stage 1"));
    EXPECT_THAT(c.only_in_a, Contains("memory term weights"));
    EXPECT_THAT(c.only_in_b, ElementsAre("phase pp_comm"));
    for (const char* expected :
         {"number of ranks differs: 2 against 1", "counted steps differ: 2 against 3",
          "layout.pp is 2 against 1", "zero_stage is absent against 1",
          "run 'other' is failed: rank 1 died", "run 'other' has no memory samples"})
        EXPECT_THAT(c.warnings, Contains(HasSubstr(expected)));
    EXPECT_THAT(c.warnings, Not(Contains(HasSubstr("seq_len"))));
}

TEST(Compare, PlansThatAreAbsentOrNoJsonAreSaid) {
    EXPECT_THAT(planDifferences("", ""), IsEmpty());
    EXPECT_THAT(planDifferences("{\"a\": 1}", "{\"a\":1}"), IsEmpty());
    EXPECT_THAT(planDifferences("{}", "oops"), ElementsAre(HasSubstr("second run has no")));
    EXPECT_THAT(planDifferences("[1]", ""), testing::SizeIs(2));
}

TEST(Compare, JsonHasTheKeysOfTheCommandAndNoNan) {
    const piper::Run a = uniform(RunKind::Modelled, 1, 1);
    piper::Run b = uniform(RunKind::Measured, 4, 3);
    b.ranks[0].events[0].phase = Phase::Router;
    const Json json = comparisonJson(a, b, compareRuns(a, b));
    for (const char* key : {"a", "b", "phases", "stages", "ranks", "memory", "only_in_a",
                            "only_in_b", "warnings", "attribution"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["phases"][0]["phase"], "router");
    EXPECT_TRUE(json["phases"][0]["relative"].is_null());
    EXPECT_TRUE(json["phases"][1].contains("a_mean_seconds"));
    EXPECT_EQ(json["ranks"][1]["rank"], 1);
    const Json again = *parseJson(json.dump(), "again");
    EXPECT_EQ(again, json);

    const Json statistics = statisticsJson(b, computeStatistics(b));
    EXPECT_EQ(statistics["events_total"], 16);
    EXPECT_EQ(statistics["ranks"], 2);
    EXPECT_EQ(statistics["step_seconds"], 300e-9);
    EXPECT_EQ(statistics["per_rank"][1]["memory"]["at_peak_bytes"]["weights"], 1001);
}

TEST(Compare, TableShowsBothColumnsTheDifferenceAndTheWarnings) {
    const piper::Run a = uniform(RunKind::Modelled, 1, 1);
    piper::Run b = uniform(RunKind::Measured, 4, 2);
    b.outcome = RunOutcome::Cancelled;
    const std::string table = comparisonTable(a, b, compareRuns(a, b));
    EXPECT_THAT(table, HasSubstr("modelled      measured    difference"));
    EXPECT_THAT(table, testing::ContainsRegex("expert +60 ns +120 ns +.100.0 %"));
    EXPECT_THAT(table, testing::ContainsRegex("dispatch +512 B +512 B +.0.0 %"));
    EXPECT_THAT(table, testing::ContainsRegex("exposed communication +.20 ns"));
    EXPECT_THAT(table, HasSubstr("warning: run 'measured' is cancelled"));
    EXPECT_THAT(statisticsTable(b, computeStatistics(b)), HasSubstr("4 whole steps"));
}

}  // namespace
}  // namespace piper
