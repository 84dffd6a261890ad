// SPDX-License-Identifier: Apache-2.0
#include "core/search/peer_space.h"

#include <gtest/gtest.h>

#include "core/predict/predict.h"

namespace piper {
namespace {

std::int64_t count(const PeerProblem& problem) {
    std::int64_t out = 0;
    forEachPeerStrategy(problem, [&out](const PeerStrategy&) { ++out; });
    return out;
}

// Counts that Calculon itself prints (commit caa4b11, llm-optimal-execution -d).
TEST(PeerSpace, CountsAreCalculons) {
    PeerProblem small = megatron22b();
    EXPECT_EQ(count(small), 7018);
    small.overlaps = true;
    EXPECT_EQ(count(small), 28006);
    PeerProblem large = gpt175b();
    EXPECT_EQ(count(large), 952776);
    large.devices = large.batch = 64;
    EXPECT_EQ(count(large), 467808);
    large.devices = large.batch = 4096;
    EXPECT_EQ(count(large), 1031448);
}

TEST(PeerSpace, AsManyOverfillANodeAsCalculonRefuses) {
    std::int64_t overfull = 0, all = 0;
    forEachPeerStrategy(gpt175b(), [&](const PeerStrategy& s) {
        ++all;
        overfull += overfillsNode(s) ? 1 : 0;
    });
    // 494 of 800 drawn from Calculon's were refused for their network.
    EXPECT_NEAR(static_cast<double>(overfull) / static_cast<double>(all), 494.0 / 800.0, 0.035);
}

TEST(PeerSpace, ItsBestStrategyIsNearCalculons) {
    Plan plan = peerBase(megatron22b()).value();
    PeerStrategy best;
    best.tp = 2;
    best.pp = 4;
    best.interleaving = 12;
    best.recompute = RecomputeGranularity::Selective;
    applyPeer(best, plan);
    EXPECT_TRUE(validatePlan(plan).empty());
    const Prediction p = predict(plan).value();
    // 4.6275 samples/s and 52.1 GiB there; ours has embedding, head and a measured run factor.
    EXPECT_NEAR(4.0 / p.step.value / 4.6275, 1.0, 0.15);
    EXPECT_NEAR(p.memory.device_total / gib(1) / 52.114, 1.0, 0.1);
}

}  // namespace
}  // namespace piper
