// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/json.h"
#include "core/search/enumerate.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

using testing::HasSubstr;

SearchSpace smallSpace() {
    SearchSpace space;
    space.base = test::h100Plan("configs/OLMoE-1B-7B-0924.json", 1, 2048, 32);
    space.base.zero_stage = 1;
    space.fixed = {"schedule"};
    space.top = 5;
    return space;
}

SearchResult found(const SearchSpace& space, const ParallelFor& parallel = sequentialFor()) {
    Result<SearchResult> out = searchPlans(space, parallel);
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

std::vector<std::string> names(const SearchResult& result) {
    std::vector<std::string> out;
    for (const RankedPlan& plan : result.plans) out.push_back(layoutText(plan.plan));
    return out;
}

/// Every plan of the space predicted in full, best first.
std::vector<std::string> bruteForce(const SearchSpace& space) {
    std::vector<std::pair<double, std::string>> all;
    for (const Plan& plan : enumeratePlans(space)) {
        const Result<Prediction> p = predict(plan, PredictMode::Simulated, PredictDetail::StepOnly);
        if (p.ok() && p->memory.verdict != FitVerdict::DoesNotFit)
            all.emplace_back(-p->mfu, layoutText(plan));
    }
    std::ranges::sort(all);
    std::vector<std::string> out;
    for (const auto& [score, text] : all) out.push_back(text);
    return out;
}

TEST(Search, TheRankingIsThatOfBruteForce) {
    const SearchSpace space = smallSpace();
    const SearchResult result = found(space);
    std::vector<std::string> expected = bruteForce(space);
    ASSERT_GE(expected.size(), 5u);
    EXPECT_EQ(result.evaluated, static_cast<std::int64_t>(enumeratePlans(space).size()));
    expected.resize(5);
    EXPECT_EQ(names(result), expected);
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
    for (const Plan& plan : enumeratePlans(space))
        if (validatePlan(plan).empty()) least = std::min(least, predictMemory(plan).device_total);
    EXPECT_THAT(result.rejections[0].message, HasSubstr(humanBytes(least - gib(4))));
}

TEST(Search, KeepsTheMarginAndNamesBrokenRulesAndSlowerPlans) {
    SearchSpace space = smallSpace();
    space.memory_margin = 0.5;
    const SearchResult result = found(space);
    for (const RankedPlan& ranked : result.plans)
        EXPECT_LE(ranked.prediction.memory.device_total, ranked.prediction.memory.capacity * 0.5);
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
            EXPECT_GT(p.done, last);
            last = p.done;
            source.request_stop();
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
    EXPECT_EQ(end.done, end.total);
    EXPECT_TRUE(had_best);
}

TEST(Search, ObjectivesRankByTheirOwnNumber) {
    SearchSpace space = smallSpace();
    space.objective = Objective::MemoryHeadroom;
    const SearchResult result = found(space);
    ASSERT_GE(result.plans.size(), 2u);
    for (std::size_t i = 1; i < result.plans.size(); ++i)
        EXPECT_LE(result.plans[i - 1].prediction.memory.peak,
                  result.plans[i].prediction.memory.peak);
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
