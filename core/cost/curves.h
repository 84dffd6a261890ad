// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cost/cost.h"

namespace piper {

/// A time with the range its kind of evidence has.
[[nodiscard]] Cost costOf(Seconds time, EvidenceKind kind, bool extrapolated);

struct Interpolated {
    double value = 1.0;
    bool extrapolated = false;
};

template <class Point>
void sortBySize(std::vector<Point>& points) {
    std::sort(points.begin(), points.end(),
              [](const Point& a, const Point& b) { return a.log_size < b.log_size; });
}

/// Geometric interpolation of the ratio over log size; beyond the ends the end's ratio, flagged
/// when more than a factor of two away. Points are sorted and not empty.
template <class Point>
[[nodiscard]] Interpolated interpolateRatio(const std::vector<Point>& points, double log_size) {
    if (log_size <= points.front().log_size)
        return {points.front().ratio, log_size < points.front().log_size - 1.0};
    if (log_size >= points.back().log_size)
        return {points.back().ratio, log_size > points.back().log_size + 1.0};
    const auto right =
        std::upper_bound(points.begin(), points.end(), log_size,
                         [](double value, const Point& p) { return value < p.log_size; });
    const auto left = right - 1;
    const double width = right->log_size - left->log_size;
    const double t = width > 0.0 ? (log_size - left->log_size) / width : 0.0;
    return {std::exp2(std::lerp(std::log2(left->ratio), std::log2(right->ratio), t)), false};
}

/// Where a GEMM lies among measured ones: an octave of a size is 1, groups matter less.
[[nodiscard]] RatioField::Place measuredPlace(double groups, double m, double n, double k);

/// Rate of attention at that shape from measured points of either pass (the same pass first).
[[nodiscard]] Interpolated interpolateAttention(const std::vector<AttentionPoint>& points,
                                                const AttentionWork& work);

}  // namespace piper
