// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/imposed_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/cast.h"
#include "core/resources/routing.h"
#include "tests/kernels/support/tiny_run.h"

namespace piper {
namespace {

Plan skewedPlan(double exponent) {
    Plan plan = test::tinyPlan();
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = exponent;
    return plan;
}

std::vector<std::int32_t> choose(const ImposedRouting& routing, std::int64_t step, int layer,
                                 std::int64_t sample, std::size_t count, std::int64_t first) {
    std::vector<std::int32_t> out(count);
    EXPECT_TRUE(routing.choose(step, LayerId(layer), sample, out, first).ok());
    return out;
}

/// Within five standard deviations of tokens that choose on their own.
void expectShare(std::int64_t count, std::int64_t tokens, double probability, std::size_t expert) {
    const double n = asDouble(tokens);
    const double spread = std::sqrt(n * probability * (1.0 - probability)) + 1.0;
    EXPECT_NEAR(asDouble(count), n * probability, 5.0 * spread) << "expert " << expert;
}

TEST(ImposedRouting, GivesEveryExpertItsShareAndNoTokenAnExpertTwice) {
    for (const double exponent : {0.3, 0.7, 2.5}) {
        SCOPED_TRACE(exponent);
        const Plan plan = skewedPlan(exponent);
        const auto topk = static_cast<std::size_t>(plan.model.moe->router_topk);
        const ImposedRouting routing(plan, 3);
        constexpr std::int64_t kTokens = 20000;
        const auto chosen = choose(routing, 4, 1, 9, static_cast<std::size_t>(kTokens) * topk, 0);
        std::vector<std::int64_t> counts(static_cast<std::size_t>(plan.model.moe->num_experts));
        for (std::size_t t = 0; t * topk < chosen.size(); ++t) {
            const auto begin = chosen.begin() + static_cast<std::ptrdiff_t>(t * topk);
            const std::set<std::int32_t> own(begin, begin + static_cast<std::ptrdiff_t>(topk));
            ASSERT_EQ(own.size(), topk);
            for (const std::int32_t e : own) ++counts.at(static_cast<std::size_t>(e));
        }
        const std::vector<double> shares = drawableShares(plan, LayerId(1));
        for (std::size_t e = 0; e < counts.size(); ++e)
            expectShare(counts[e], kTokens, shares[e] * asDouble(std::ssize(chosen)) / kTokens, e);
    }
}

TEST(ImposedRouting, FollowsTheHistogramOfEachLayer) {
    Plan plan = test::tinyPlan();
    const auto experts = static_cast<std::size_t>(plan.model.moe->num_experts);
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram.assign(static_cast<std::size_t>(plan.model.num_layers),
                                       std::vector<double>(experts, 0.0));
    // One expert of the second layer has all, which no token can take twice.
    plan.routing_load.histogram[1][2] = 1.0;
    plan.routing_load.histogram[2] = {0.0, 1.0, 1.0, 0.0, 0.0, 0.0};
    const ImposedRouting routing(plan, 1);
    for (const std::int32_t e : choose(routing, 0, 2, 0, 400, 0)) EXPECT_TRUE(e == 1 || e == 2);
    const auto of_one = choose(routing, 0, 1, 0, 400, 0);
    EXPECT_EQ(std::ranges::count(of_one, 2), 200);
}

TEST(ImposedRouting, DoesNotAskWhoHoldsTheToken) {
    const Plan plan = skewedPlan(1.0);
    const ImposedRouting routing(plan, 5);
    const auto whole = choose(routing, 1, 1, 7, 64, 0);
    const auto second = choose(routing, 1, 1, 7, 32, 16);
    EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + 32));
    EXPECT_NE(choose(routing, 2, 1, 7, 64, 0), whole);
    EXPECT_NE(choose(routing, 1, 2, 7, 64, 0), whole);
    EXPECT_NE(choose(routing, 1, 1, 8, 64, 0), whole);
    EXPECT_NE(choose(ImposedRouting(plan, 6), 1, 1, 7, 64, 0), whole);
}

TEST(ImposedRouting, IsForLoadsThatARouterOfOneGroupCanMeet) {
    EXPECT_FALSE(imposesRouting(test::tinyPlan()));
    Plan plan = skewedPlan(1.0);
    EXPECT_TRUE(imposesRouting(plan));
    plan.model.moe->num_groups = 2;
    EXPECT_FALSE(imposesRouting(plan));
    plan.model.moe.reset();
    EXPECT_FALSE(imposesRouting(plan));
}

TEST(ImposedRouting, DecidesWhatATrainingRunIsLoadedWith) {
    TrainingOptions options;
    options.steps = 6;
    test::TinyRun free(test::tinyPlan()), skewed(skewedPlan(1.5));
    ASSERT_TRUE(free.train(options).ok());
    ASSERT_TRUE(skewed.train(options).ok());
    EXPECT_EQ(free.recorder.timeline().counters.at("routing"), "free");
    EXPECT_EQ(skewed.recorder.timeline().counters.at("routing"), "imposed");
    std::vector<std::int64_t> counts(static_cast<std::size_t>(skewed.plan.model.moe->num_experts));
    for (const ExpertLoad& load : skewed.recorder.timeline().expert_load)
        for (std::size_t e = 0; e < counts.size(); ++e) counts[e] += load.tokens[e];
    std::int64_t rows = 0;
    for (const std::int64_t count : counts) rows += count;
    const std::int64_t topk = skewed.plan.model.moe->router_topk, tokens = rows / topk;
    ASSERT_GT(tokens, 100);
    const std::vector<double> shares = drawableShares(skewed.plan, LayerId(1));
    for (std::size_t e = 0; e < counts.size(); ++e)
        expectShare(counts[e], tokens, shares[e] * asDouble(topk), e);
}

}  // namespace
}  // namespace piper
