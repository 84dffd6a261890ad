// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/base/json.h"
#include "core/search/core_search.h"
#include "core/search/enumerate.h"
#include "core/search/why_not.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::HasSubstr;

SearchSpace smallSpace() {
    SearchSpace space;
    space.base = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 2048, 32);
    space.base.zero_stage = 1;
    space.fixed = {"schedule", "zero_stage", "chunks", "offload", "rank_order"};
    space.top = 5;
    return space;
}

/// One grid, everything else open.
SearchSpace oneGrid() {
    SearchSpace space;
    space.base = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 2048, 64);
    Layout& l = space.base.layout;
    l.tp = 1;
    l.pp = 4;
    l.dp = 2;
    l.ep = 2;
    space.base.micro_batch_size = 4;
    space.base.cluster.device.memory = gib(20);  // some recompute is needed
    space.fixed = {"tp", "cp", "pp", "ep", "etp", "micro_batch_size"};
    space.top = 5;
    return space;
}

SearchResult found(const SearchSpace& space, const ParallelFor& parallel = sequentialFor()) {
    Result<SearchResult> out = searchPlans(space, parallel);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

/// Step of the fastest plan of each grid, micro-batch and pipeline that fits, every plan of the
/// space predicted with its schedule played; fastest first.
std::vector<double> bruteForce(const SearchSpace& space) {
    std::map<std::string, double> best;
    for (Plan plan : enumeratePlans(space)) {
        const Result<Prediction> p = predict(plan, PredictMode::Simulated, PredictDetail::StepOnly);
        if (!p.ok() || p->memory.device_total > plan.cluster.device.memory) continue;
        plan.recompute = {};
        plan.zero_stage = 0;
        plan.offload = {};
        plan.all_to_all = {};
        const auto [known, added] = best.try_emplace(layoutText(plan), p->step.value);
        if (!added) known->second = std::min(known->second, p->step.value);
    }
    std::vector<double> out;
    for (const auto& [name, step] : best) out.push_back(step);
    std::ranges::sort(out);
    return out;
}

void expectBest(const SearchSpace& space, std::size_t count) {
    const SearchResult result = found(space);
    const std::vector<double> expected = bruteForce(space);
    ASSERT_GE(expected.size(), count);
    ASSERT_EQ(result.plans.size(), space.top);
    EXPECT_DOUBLE_EQ(result.plans[0].prediction.step.value, expected[0]);
    for (std::size_t i = 0; i < count; ++i)
        EXPECT_NEAR(result.plans[i].prediction.step.value / expected[i], 1.0, 1e-3) << i;
}

TEST(Search, FindsWhatBruteForceFindsOverGrids) {
    expectBest(smallSpace(), 5);
}

TEST(Search, FindsWhatBruteForceFindsOverSchedulesAndSavings) {
    expectBest(oneGrid(), 5);
    EXPECT_LT(found(oneGrid()).evaluated,
              static_cast<std::int64_t>(enumeratePlans(oneGrid()).size()));
}

/// What every plan of a space takes and holds.
struct Measure {
    double step = 0.0;
    Bytes total;
};

std::vector<Measure> measured(const SearchSpace& space) {
    std::vector<Measure> out;
    for (const Plan& plan : enumeratePlans(space)) {
        const Result<Prediction> p = predict(plan, PredictMode::Simulated, PredictDetail::StepOnly);
        if (p.ok()) out.push_back({p->step.value, p->memory.device_total});
    }
    std::ranges::sort(out, {}, &Measure::total);
    return out;
}

/// The best plan under limits of memory: from where only the smallest plan fits to where a quarter
/// does.
void expectBestUnderLimits(SearchSpace space, std::size_t limits) {
    space.top = 1;
    const std::vector<Measure> plans = measured(space);
    ASSERT_GT(plans.size(), 4 * limits);
    for (std::size_t n = 0; n < limits; ++n) {
        SCOPED_TRACE(n);
        space.base.cluster.device.memory =
            plans[n * plans.size() / (4 * limits)].total * (1.0 + 1e-6);
        double best = plans[0].step;
        for (const Measure& plan : plans)
            if (plan.total <= space.base.cluster.device.memory) best = std::min(best, plan.step);
        const SearchResult result = found(space);
        ASSERT_EQ(result.plans.size(), 1U);
        EXPECT_DOUBLE_EQ(result.plans[0].prediction.step.value, best);
    }
}

TEST(Search, FindsWhatBruteForceFindsUnderAnyLimitOfMemory) {
    for (const ScheduleKind schedule : {ScheduleKind::OneF1B, ScheduleKind::DualPipe}) {
        SCOPED_TRACE(toText(schedule));
        SearchSpace space = oneGrid();
        space.base.schedule = schedule;
        space.fixed.push_back("schedule");
        expectBestUnderLimits(space, 10);
    }
    SearchSpace grids = smallSpace();  // so many that the best so far bounds the others
    grids.fixed = {"schedule", "offload", "rank_order"};
    expectBestUnderLimits(grids, 12);
}

TEST(CoreSearch, KeepsAPlanThatFitsByTheChunksOfItsExchangeAlone) {
    SearchSpace space = oneGrid();
    space.base.schedule = ScheduleKind::OneF1B;
    space.fixed.push_back("schedule");
    // Between the least that plans need with their exchange whole and in chunks.
    Bytes whole = gib(1000), chunked = gib(1000);
    for (const Plan& plan : enumeratePlans(space)) {
        const Result<Prediction> p = predict(plan, PredictMode::Simulated, PredictDetail::StepOnly);
        ASSERT_TRUE(p.ok());
        Bytes& least = plan.all_to_all.chunks > 1 ? chunked : whole;
        least = std::min(least, p->memory.device_total);
    }
    ASSERT_LT(chunked, whole);
    space.base.cluster.device.memory = (chunked + whole) * 0.5;
    const SearchChoices choices(space);
    CoreSearch search(space, choices, nullptr);
    std::vector<FoundPlan> found;
    for (const SearchCore& core : choices.cores())
        search.refine(core, {}, CoreSearch::kNoLimit - 1, found);  // as when some plan was found
    ASSERT_FALSE(found.empty());
    for (const FoundPlan& plan : found) EXPECT_GT(plan.point.exchange.chunks, 1);
}

/// A grid of its own layers' load, which the estimator cannot put together from parts.
SearchSpace unevenLoad() {
    SearchSpace space = oneGrid();
    space.base.schedule = ScheduleKind::OneF1B;
    space.base.zero_stage = 1;
    RoutingLoad& load = space.base.routing_load;
    load.kind = RoutingLoadKind::Histogram;
    const auto experts = static_cast<std::size_t>(space.base.model.moe->num_experts);
    for (std::size_t layer = 0; layer < space.base.model.layers.size(); ++layer) {
        load.histogram.emplace_back(experts, 1.0);
        load.histogram.back()[layer % experts] = 4.0;
    }
    space.fixed = {"tp",       "cp",         "pp",     "ep",      "etp",
                   "schedule", "zero_stage", "chunks", "offload", "rank_order"};
    space.top = 2;
    return space;
}

TEST(Search, FindsWhatBruteForceFindsUnderALoadThatDiffersByLayer) {
    expectBest(unevenLoad(), 2);
}

TEST(Search, FindsWhatBruteForceFindsWithActivationsOffTheDevice) {
    SearchSpace space = unevenLoad();
    space.base.routing_load = {};
    space.base.offload.activations = 0.5;
    expectBest(space, 2);
}

TEST(Search, FindsWhatBruteForceFindsWhereOnlySomeSchedulesWaitForMessages) {
    SearchSpace space = oneGrid();
    space.base.framework = Framework::Megatron;
    space.fixed = {"tp", "cp", "ep", "etp", "zero_stage", "offload", "recompute"};
    space.base.zero_stage = 1;
    space.base.cluster.device.memory = gib(80);
    expectBest(space, 5);
}

TEST(Search, IsTheSameInAnyOrder) {
    const SearchSpace space = smallSpace();
    const SearchResult straight = found(space);
    const ParallelFor shuffled = [](std::size_t n, const std::function<void(std::size_t)>& body) {
        std::vector<std::size_t> order(n);
        for (std::size_t i = 0; i < n; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), std::mt19937(7));
        for (std::size_t i : order) body(i);
    };
    EXPECT_EQ(searchJson(straight).dump(), searchJson(found(space, shuffled)).dump());
}

TEST(Search, FixedKeysAreTheBases) {
    SearchSpace space = smallSpace();
    space.fixed = {"schedule", "tp", "ep", "micro_batch_size"};
    space.base.layout.tp = 2;
    space.base.layout.ep = 4;
    space.base.micro_batch_size = 2;
    const SearchResult result = found(space);
    ASSERT_FALSE(result.plans.empty());
    for (const RankedPlan& ranked : result.plans) {
        EXPECT_EQ(ranked.plan.layout.tp, 2);
        EXPECT_EQ(ranked.plan.layout.ep, 4);
        EXPECT_EQ(ranked.plan.micro_batch_size, 2);
        EXPECT_EQ(ranked.plan.layout.world(), 8);
    }
    space.fixed = {"tpp"};
    const Result<SearchResult> unknown = searchPlans(space, sequentialFor());
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(unknown.error().text(), HasSubstr("nearest known: 'tp'"));
}

TEST(Search, WithoutAFeasiblePlanTheRejectionsNameTheShortfall) {
    SearchSpace space = smallSpace();
    space.base.cluster.device.memory = gib(4);
    const SearchResult result = found(space);
    EXPECT_TRUE(result.plans.empty());
    EXPECT_EQ(result.feasible, 0);
    ASSERT_FALSE(result.rejections.empty());
    EXPECT_EQ(result.rejections[0].rule, "memory");
    EXPECT_THAT(result.rejections[0].message, HasSubstr("more than the 4.00 GiB of a device"));
    // The nearest example: no plan of the space misses by less.
    Bytes least = bytes(1e18);
    for (const Plan& plan : enumeratePlans(space)) {
        const Result<Prediction> p =
            predict(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
        if (p.ok()) least = std::min(least, p->memory.device_total);
    }
    EXPECT_THAT(result.rejections[0].message, HasSubstr(humanBytes(least - gib(4))));
}

TEST(Search, KeepsTheMarginAndNamesBrokenRulesAndSlowerPlans) {
    SearchSpace space = smallSpace();
    space.memory_margin = 0.8;
    const SearchResult result = found(space);
    for (const RankedPlan& ranked : result.plans)
        EXPECT_LE(ranked.prediction.memory.device_total, ranked.prediction.memory.capacity * 0.2);
    std::vector<std::string> rules;
    for (const Rejection& r : result.rejections) rules.push_back(r.rule);
    EXPECT_THAT(rules, testing::Contains("memory"));
    EXPECT_THAT(rules, testing::Contains("slower"));
}

TEST(Search, StopsWhenAskedAndReportsProgress) {
    const SearchSpace space = smallSpace();
    std::stop_source source;
    std::int64_t last = 0;
    const Result<SearchResult> stopped =
        searchPlans(space, sequentialFor(), source.get_token(), [&](const SearchProgress& p) {
            EXPECT_GE(p.done, last);
            last = p.done;
            if (p.done > 0) source.request_stop();
        });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, ErrorCode::Cancelled);
    EXPECT_GT(last, 0);  // after the first report nothing more is evaluated
    EXPECT_LT(last, static_cast<std::int64_t>(enumeratePlans(space).size()));

    bool had_best = false;
    SearchProgress end;
    const Result<SearchResult> whole =
        searchPlans(space, sequentialFor(), {}, [&](const SearchProgress& p) {
            had_best |= p.best != nullptr;
            EXPECT_LE(p.done, p.total);
            end = p;
        });
    ASSERT_TRUE(whole.ok());
    EXPECT_LE(end.done, end.total);  // bounds end a search early
    EXPECT_TRUE(had_best);
}

TEST(Search, ObjectivesRankByTheirOwnNumber) {
    SearchSpace space = smallSpace();
    space.objective = Objective::MemoryHeadroom;
    const SearchResult result = found(space);
    ASSERT_GE(result.plans.size(), 2u);
    for (std::size_t i = 1; i < result.plans.size(); ++i)
        EXPECT_LE(result.plans[i - 1].prediction.memory.device_total,
                  result.plans[i].prediction.memory.device_total);
}

TEST(Search, TheParetoSetHasNothingThatAnotherBeats) {
    SearchSpace space = smallSpace();
    const Result<std::vector<ParetoPlan>> plans = paretoPlans(space, sequentialFor());
    ASSERT_TRUE(plans.ok());
    ASSERT_GE(plans->size(), 3u);
    for (const ParetoPlan& a : *plans)
        for (const ParetoPlan& b : *plans)
            EXPECT_FALSE(a.step < b.step && a.device_total < b.device_total &&
                         a.plan.layout.world() < b.plan.layout.world());
    EXPECT_DOUBLE_EQ(plans->front().step.value, found(space).plans[0].prediction.step.value);
    EXPECT_EQ(plans->front().plan.layout.world(), 8);
    EXPECT_LT(plans->back().plan.layout.world(), 8);
}

TEST(WhyNot, NamesTheRuleTheMemoryOrTheTermThatIsSlower) {
    const SearchSpace space = smallSpace();
    const SearchResult result = found(space);
    const auto ask = [&](std::string_view text) {
        return whyNot(space, askedPlan(space, text).value(), &result.plans[0]).value();
    };
    EXPECT_EQ(ask("ep=3").verdict, WhyNotVerdict::Rule);
    EXPECT_THAT(ask("ep=3").message, HasSubstr("3"));
    const WhyNot large = ask("ep=1 zero_stage=0");
    EXPECT_EQ(large.verdict, WhyNotVerdict::Memory);
    EXPECT_THAT(large.message, HasSubstr("of a device"));
    EXPECT_FALSE(large.fixes.empty());
    const WhyNot slow = ask("tp=8 ep=8 etp=1 recompute=full");
    EXPECT_EQ(slow.verdict, WhyNotVerdict::Slower);
    double sum = 0.0;
    for (const WhyNotTerm& term : slow.terms) sum += term.seconds;
    const Plan plan = askedPlan(space, "tp=8 ep=8 etp=1 recompute=full").value();
    EXPECT_NEAR(sum, predict(plan).value().step.value - result.plans[0].prediction.step.value,
                1e-9);
    EXPECT_EQ(whyNot(space, result.plans[0].plan, &result.plans[0]).value().verdict,
              WhyNotVerdict::Best);
    EXPECT_FALSE(askedPlan(space, "tpp=2").ok());
}

TEST(Enumerate, LayersLeftOverGoToTheMiddle) {
    EXPECT_EQ(balancedStages(27, 4), (std::vector<std::int64_t>{7, 7, 7, 6}));
    EXPECT_EQ(balancedStages(10, 4), (std::vector<std::int64_t>{2, 3, 3, 2}));
    EXPECT_TRUE(balancedStages(32, 4).empty());
    for (std::int64_t pp : {3, 5, 7}) {
        std::int64_t sum = 0;
        for (std::int64_t layers : balancedStages(32, pp)) sum += layers;
        EXPECT_EQ(sum, 32);
    }
}

}  // namespace
}  // namespace piper
