// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/cost/curves.h"

namespace piper {

namespace {

/// Inverse-distance weights over points in log space: exact at a point, smooth between.
constexpr double kSharpness = 1.5;  ///< distance^(2 * 1.5) = cubed

double weightOf(double squared_distance) {
    return std::pow(squared_distance + 1e-12, -kSharpness);
}

}  // namespace

Interpolated interpolateAttention(const std::vector<AttentionPoint>& points,
                                  const AttentionWork& work) {
    const double heads = std::log2(static_cast<double>(work.batch * work.heads));
    const double seq = std::log2(static_cast<double>(work.seq_len));
    const double dim = std::log2(static_cast<double>(work.qk_head_dim + work.v_head_dim) / 2.0);
    const bool same_pass = std::any_of(points.begin(), points.end(), [&](const AttentionPoint& p) {
        return p.backward == work.backward;
    });
    double sum = 0.0, weights = 0.0, nearest = std::numeric_limits<double>::max();
    for (const AttentionPoint& p : points) {
        if (same_pass && p.backward != work.backward) continue;
        const double dh = std::log2(static_cast<double>(p.batch * p.heads)) - heads;
        const double ds = std::log2(static_cast<double>(p.seq_len)) - seq;
        const double dd = std::log2(static_cast<double>(p.head_dim)) - dim;
        const double distance = 0.25 * dh * dh + ds * ds + dd * dd;
        const double w = weightOf(distance);
        sum += w * std::log2(p.rate.value);
        weights += w;
        nearest = std::min(nearest, distance);
    }
    return {std::exp2(sum / weights), !same_pass || nearest > 4.0};
}

/// Roofline-like sum: arithmetic at the best known rate, operands once through memory, and one call
/// (a device that runs a loop over groups pays each call; a CPU does).
Seconds CostModel::gemmModel(double groups, double m, double n, double k) const {
    const DeviceSpec& d = m_plan.cluster.device;
    const double rate = m_best_rate > 0.0 ? m_best_rate : m_peak;
    double time = rate > 0.0 ? groups * 2.0 * m * n * k / rate : 0.0;
    if (d.memory_bandwidth.value > 0.0)
        time += groups * m_element * (m * k + k * n + m * n) / d.memory_bandwidth.value;
    const double calls = d.kind == DeviceKind::Cpu ? groups : 1.0;
    return Seconds(time + calls * d.launch_overhead.value);
}

Cost CostModel::measuredGemm(const GemmWork& w) const {
    const std::array<double, 4> at = {
        std::log2(static_cast<double>(w.m)), std::log2(static_cast<double>(w.n)),
        std::log2(static_cast<double>(w.k)), std::log2(static_cast<double>(w.groups))};
    std::array<double, 4> low, high;
    low.fill(std::numeric_limits<double>::max());
    high.fill(std::numeric_limits<double>::lowest());
    double sum = 0.0, weights = 0.0;
    for (const GemmRatio& p : m_gemm) {
        double distance = 0.0;
        for (std::size_t i = 0; i < 4; ++i) {
            const double d = p.at[i] - at[i];
            distance += (i == 3 ? 0.5 : 1.0) * d * d;
            low[i] = std::min(low[i], p.at[i]);
            high[i] = std::max(high[i], p.at[i]);
        }
        const double weight = weightOf(distance);
        sum += weight * std::log2(p.ratio);
        weights += weight;
    }
    // A loop over groups costs what its calls cost: a CPU needs no grouped point.
    const std::size_t axes = m_plan.cluster.device.kind == DeviceKind::Cpu ? 3 : 4;
    bool outside = false;
    for (std::size_t i = 0; i < axes; ++i) outside |= at[i] < low[i] - 0.5 || at[i] > high[i] + 0.5;
    const Seconds model = gemmModel(static_cast<double>(w.groups), static_cast<double>(w.m),
                                    static_cast<double>(w.n), static_cast<double>(w.k));
    return costOf(model * std::exp2(sum / weights) * static_cast<double>(w.count),
                  EvidenceKind::Measured, outside);
}

Cost CostModel::publishedGemm(const GemmWork& w) const {
    const DeviceSpec& d = m_plan.cluster.device;
    const DeviceFamily family = deviceFamily(d.name);
    const double m = static_cast<double>(w.m), n = static_cast<double>(w.n),
                 k = static_cast<double>(w.k), g = static_cast<double>(w.groups);
    const double count = static_cast<double>(w.count);
    Efficiency efficiency = w.groups > 1 ? publishedGroupedEfficiency(family, m, n, k)
                                         : publishedGemmEfficiency(family, m, n, k);
    EvidenceKind kind = EvidenceKind::Published;
    if (efficiency.value <= 0.0) {
        // Nothing published: 0.7 of the peak for large problems, falling below 256 rows as the
        // published families do.
        kind = EvidenceKind::Assumed;
        const double smallest = std::min({m, n, k});
        efficiency = {0.7 * smallest / (smallest + 256.0), false};
    }
    if (m_peak <= 0.0) return costOf(d.launch_overhead * count, EvidenceKind::Assumed, true);
    if (!m_peak_known) kind = EvidenceKind::Assumed;
    const double arithmetic = 2.0 * g * m * n * k / (m_peak * efficiency.value);
    const double moving = d.memory_bandwidth.value > 0.0
                              ? g * m_element * (m * k + k * n + m * n) / d.memory_bandwidth.value
                              : 0.0;
    const double once = std::max({arithmetic, moving, d.launch_overhead.value});
    const bool other_precision =
        m_plan.precision != Precision::Bf16 && m_plan.precision != Precision::Fp16;
    return costOf(Seconds(once * count), kind, efficiency.extrapolated || other_precision);
}

Cost CostModel::gemm(const GemmWork& work) const {
    if (work.groups <= 0 || work.m <= 0 || work.n <= 0 || work.k <= 0 || work.count <= 0) return {};
    return m_gemm.empty() ? publishedGemm(work) : measuredGemm(work);
}

}  // namespace piper
