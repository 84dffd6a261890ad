// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/run/rank_clock.h"

namespace piper {
namespace {

RankTimeline rankWith(std::vector<ClockSample> samples, std::int64_t offset_ns = 0) {
    RankTimeline rank;
    rank.clock = std::move(samples);
    rank.offset_ns = offset_ns;
    return rank;
}

TEST(ClockFit, ADriftThatTheSamplesShowIsFoundAndWhatTheyDoNotShowIsNot) {
    std::mt19937 random(3);
    for (const double drift : {0.0, 20e-6, -35e-6}) {
        std::vector<ClockSample> samples;
        for (int i = 0; i < 60; ++i) {
            const std::int64_t time = std::int64_t{i} * 1'000'000'000;
            const auto trip = static_cast<std::int64_t>(4000 + random() % 6000);
            const auto error = static_cast<std::int64_t>(random() % 1000) - 500;
            const auto gained = static_cast<std::int64_t>(drift * static_cast<double>(time));
            samples.push_back({time, 5'000'000'000 + gained + error, trip});
        }
        const ClockFit fit = fitClock(samples);
        EXPECT_EQ(fit.samples, 60);
        EXPECT_NEAR(fit.drift, drift, 1e-7);
        if (drift == 0.0) {
            EXPECT_EQ(fit.drift, 0.0);
        }
        EXPECT_LT(fit.residual_max_ns, 1200.0);
        EXPECT_GT(fit.residual_rms_ns, 0.0);
        EXPECT_LE(fit.uncertainty_ns, 2500.0);
        const RankClock clock(rankWith(samples));
        const std::int64_t at = 30'000'000'000;
        EXPECT_NEAR(static_cast<double>(clock.toCommon(at) - at),
                    5e9 + drift * static_cast<double>(at), 400.0);
    }
}

TEST(ClockFit, ABadPingCountsForLittle) {
    const ClockFit fit = fitClock(
        std::vector<ClockSample>{{0, 100, 200}, {1000, 101, 200}, {2000, 900'000, 2'000'000}});
    EXPECT_NEAR(fit.offset_ns, 100.5, 1.0);
    EXPECT_EQ(fit.drift, 0.0);
    EXPECT_GT(fit.residual_max_ns, 800'000.0);
}

TEST(ClockFit, SamplesThatCannotBeAreLeftOut) {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const ClockFit fit = fitClock(
        std::vector<ClockSample>{{0, most, 1}, {most, 1, 1}, {5, 5, -1}, {0, 7, 0}, {0, 7, 0}});
    EXPECT_EQ(fit.samples, 2);
    EXPECT_EQ(fit.offset_ns, 7.0);
    EXPECT_EQ(fitClock({}).samples, 0);
    EXPECT_EQ(fitClock({}).offsetAt(77), 0.0);
}

TEST(RankClock, OneSampleOrNoneLeavesTheStoredOffset) {
    EXPECT_EQ(RankClock(rankWith({}, -40)).toCommon(100), 60);
    EXPECT_EQ(RankClock(rankWith({{0, 9, 1}}, -40)).toCommon(100), 60);
    // Two that agree count for more than the stored one.
    EXPECT_EQ(RankClock(rankWith({{0, 9, 1}, {50, 9, 1}}, -40)).toCommon(100), 109);
}

}  // namespace
}  // namespace piper
