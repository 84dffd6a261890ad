// SPDX-License-Identifier: Apache-2.0
#include "core/cost/ratio_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace piper {
namespace {

using Point = RatioField::Point;
using Place = RatioField::Place;

std::vector<Point> scattered(std::size_t count) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> size(4.0F, 15.0F);
    std::vector<Point> points;
    for (std::size_t i = 0; i < count; ++i) {
        const Place at = {size(random), size(random), size(random), 0.0F, 0.0F};
        points.push_back({at, 0.1 * at[0] - 0.03 * at[1] + 0.02 * at[2], 0.0F});
    }
    return points;
}

double distance(const Place& a, const Place& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum);
}

TEST(RatioField, PointsComeBackExactly) {
    const std::vector<Point> points = scattered(500);
    const RatioField field(points);
    for (const Point& p : points) EXPECT_NEAR(field.at(p.at).log_ratio, p.log_ratio, 1e-9);
}

TEST(RatioField, TheTreeFindsTheNearestPoint) {
    const std::vector<Point> points = scattered(2000);
    const RatioField field(points);
    for (const Point& q : scattered(2300)) {
        double nearest = 1e9;
        for (const Point& p : points) nearest = std::min(nearest, distance(p.at, q.at));
        EXPECT_NEAR(field.at(q.at).distance, nearest, 1e-5);
    }
}

TEST(RatioField, BetweenPointsALinearFieldIsNearlyLinear) {
    const RatioField field(scattered(3000));
    for (float x = 6.0F; x < 13.0F; x += 0.37F) {
        const double expected = 0.1 * x - 0.03 * 9.0 + 0.02 * 10.0;
        EXPECT_NEAR(field.at({x, 9.0F, 10.0F, 0.0F, 0.0F}).log_ratio, expected, 0.06);
    }
}

TEST(RatioField, OutsideIsSaid) {
    const RatioField field(scattered(500));
    EXPECT_FALSE(field.at({9.0F, 9.0F, 9.0F, 0.0F, 0.0F}).outside);
    EXPECT_TRUE(field.at({17.0F, 9.0F, 9.0F, 0.0F, 0.0F}).outside);
    EXPECT_TRUE(field.at({9.0F, 2.0F, 9.0F, 0.0F, 0.0F}).outside);
    EXPECT_TRUE(RatioField().at({}).outside);
    EXPECT_EQ(RatioField().at({}).log_ratio, 0.0);
}

TEST(RatioField, EqualPlacesAreTheirMean) {
    const Place at = {8.0F, 9.0F, 10.0F, 0.0F, 0.0F};
    const RatioField field({{at, 0.2, 0.0F}, {at, 0.4, 0.0F}, {{1, 1, 1, 0, 0}, 5.0, 0.0F}});
    EXPECT_EQ(field.points().size(), 2U);
    EXPECT_NEAR(field.at(at).log_ratio, 0.3, 1e-9);
}

TEST(RatioField, SpreadIsTheErrorOfALeftOutPoint) {
    // Alike everywhere but in one point.
    std::vector<Point> points;
    for (int x = 0; x < 10; ++x)
        for (int y = 0; y < 10; ++y)
            points.push_back({{static_cast<float>(x), static_cast<float>(y), 0, 0, 0},
                              x == 5 && y == 5 ? 1.0 : 0.0,
                              0.0F});
    RatioField field(points);
    field.measureSpread();
    const auto spread = [&](float x, float y) {
        for (const Point& p : field.points())
            if (p.at[0] == x && p.at[1] == y) return static_cast<double>(p.spread);
        return -1.0;
    };
    EXPECT_NEAR(spread(5, 5), 1.0, 1e-6);
    EXPECT_GT(spread(5, 4), 0.05);
    EXPECT_NEAR(spread(0, 0), 0.0, 1e-6);
    EXPECT_GT(field.at({5.0F, 5.0F, 0, 0, 0}).spread, field.at({1.0F, 1.0F, 0, 0, 0}).spread);
}

}  // namespace
}  // namespace piper
