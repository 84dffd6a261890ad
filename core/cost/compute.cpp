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

RatioField::Place measuredPlace(double groups, double m, double n, double k) {
    const auto log = [](double x) { return static_cast<float>(std::log2(x)); };
    return {log(m), log(n), log(k), 0.7F * log(groups), 0.0F};
}

/// Roofline-like sum: arithmetic at the best known rate, operands once through memory, and one call
/// (a device that runs a loop over groups pays each call; a CPU does).
Seconds CostModel::gemmModel(double groups, double m, double n, double k) const {
    const DeviceSpec& d = m_plan.cluster.device;
    const double rate = m_best_rate > 0.0 ? m_best_rate : m_rates.site.peak;
    double time = rate > 0.0 ? groups * 2.0 * m * n * k / rate : 0.0;
    if (d.memory_bandwidth.value > 0.0)
        time += groups * m_rates.site.element_bytes * (m * k + k * n + m * n) /
                d.memory_bandwidth.value;
    const double calls = d.kind == DeviceKind::Cpu ? groups : 1.0;
    return Seconds(time + calls * d.launch_overhead.value);
}

Cost CostModel::measuredGemm(const GemmWork& w) const {
    const double g = static_cast<double>(w.groups), m = static_cast<double>(w.m),
                 n = static_cast<double>(w.n), k = static_cast<double>(w.k);
    // A loop over groups costs what its calls cost: a CPU needs no grouped point.
    const bool loop = m_plan.cluster.device.kind == DeviceKind::Cpu;
    const RatioField::Value at = m_gemm.at(measuredPlace(g, m, n, k));
    const bool outside = loop ? m_gemm.at(measuredPlace(1.0, m, n, k)).outside : at.outside;
    return costOf(gemmModel(g, m, n, k) * std::exp2(at.log_ratio) * static_cast<double>(w.count),
                  EvidenceKind::Measured, outside);
}

Cost CostModel::gemmAt(const MatrixRates& rates, const GemmWork& w) const {
    if (w.groups <= 0 || w.m <= 0 || w.n <= 0 || w.k <= 0 || w.count <= 0) return {};
    const RatedTime time = gemmTime(rates, w, m_gradient_bytes);
    return Cost{Seconds(time.seconds), time.evidence()} * static_cast<double>(w.count);
}

Cost CostModel::gemm(const GemmWork& work) const {
    if (work.groups <= 0 || work.m <= 0 || work.n <= 0 || work.k <= 0 || work.count <= 0) return {};
    return m_gemm.empty() ? gemmAt(m_rates, work) : measuredGemm(work);
}

Cost CostModel::fusedMoe(const FusedMoeWork& w) const {
    if (w.tokens <= 0 || w.hidden <= 0 || w.ffn <= 0) return {};
    const double experts = static_cast<double>(w.experts);
    KernelShape s;
    s.kind = KernelKind::FusedMoe;
    s.ep = static_cast<double>(w.ep);
    s.groups = experts / s.ep;
    s.m = static_cast<double>(w.tokens * w.topk) / experts;
    s.n = static_cast<double>(w.ffn);
    s.k = static_cast<double>(w.hidden);
    const KernelTable* table = findPublishedTable(KernelKind::FusedMoe, KernelLibrary::TrtLlm,
                                                  m_plan.precision, m_plan.cluster.device.name);
    const RatedTime time = fusedMoeTime(m_rates, table, s);
    return {Seconds(time.seconds), time.evidence()};
}

Cost CostModel::unfusedAttention(const AttentionWork& work) const {
    const double queries =
        static_cast<double>(work.seq_len) / static_cast<double>(m_plan.layout.cp);
    // Scores are kept in the activations' precision, never lower than two bytes.
    const Bytes traffic =
        softmaxBytes(work, queries, activationElementBytes(m_plan.precision).value);
    const RatedTime products = unfusedAttentionTime(m_head_rates, work, queries);
    return Cost{Seconds(products.seconds), products.evidence()} + memoryBound(traffic, 1.0);
}

Cost CostModel::attention(const AttentionWork& work) const {
    if (work.flops.value <= 0.0) return {};
    if (!m_attention.empty()) {
        const Interpolated rate = interpolateAttention(m_attention, work);
        return costOf(Seconds(work.flops.value / rate.value), EvidenceKind::Measured,
                      rate.extrapolated);
    }
    if (!work.fused) return unfusedAttention(work);
    if (m_attention_rates.site.peak <= 0.0)
        return costOf(m_plan.cluster.device.launch_overhead, EvidenceKind::Assumed, true);
    const RatedTime time = attentionTime(m_attention_rates, work);
    return {Seconds(time.seconds), time.evidence()};
}

}  // namespace piper
