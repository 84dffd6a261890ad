// SPDX-License-Identifier: Apache-2.0
#include "core/cost/cost.h"

#include <algorithm>
#include <cmath>

#include "core/cost/curves.h"

namespace piper {

namespace {

/// Without measurement: share of the data sheet's bandwidth a memory-bound kernel reaches
/// (aiconfigurator systems/*.yaml: 0.8; SimuMax: 0.67 on B200, 0.91 on A100).
constexpr double kBandwidthShare = 0.8;

}  // namespace

Cost operator+(const Cost& a, const Cost& b) {
    if (a.time.value == 0.0) return b;
    if (b.time.value == 0.0) return a;
    Cost out{a.time + b.time, Evidence::weaker(a.evidence, b.evidence)};
    out.evidence.low = a.evidence.low + b.evidence.low;
    out.evidence.high = a.evidence.high + b.evidence.high;
    return out;
}

Cost operator*(const Cost& a, double factor) {
    Cost out = a;
    out.time *= factor;
    out.evidence.low *= factor;
    out.evidence.high *= factor;
    return out;
}

Cost costOf(Seconds time, EvidenceKind kind, bool extrapolated) {
    struct Range {
        double low, high;
    };
    // By kind: how far published checks of such figures lie apart (docs/formulas.md).
    constexpr std::array<Range, 4> kRange = {{{0.9, 1.1}, {0.8, 1.3}, {0.9, 2.0}, {0.5, 2.0}}};
    Range range = kRange[static_cast<std::size_t>(kind)];
    if (extrapolated) range = {range.low * 0.8, range.high * 1.3};
    return {time, {kind, time.value * range.low, time.value * range.high, extrapolated}};
}

CostModel::CostModel(const Plan& plan) : m_plan(plan) {
    const DeviceSpec& device = plan.cluster.device;
    const auto found = device.peak.find(plan.precision);
    m_peak_known = found != device.peak.end();
    if (m_peak_known) {
        m_peak = found->second.value;
    } else {
        // Stood in by the slowest rate the sheet gives, so that a missing figure never flatters.
        for (const auto& [precision, rate] : device.peak)
            m_peak = m_peak == 0.0 ? rate.value : std::min(m_peak, rate.value);
    }
    m_element = elementBytes(plan.precision).value;
    indexCurves();
    indexCollectives();
}

void CostModel::indexCurves() {
    const MeasuredCurves& curves = m_plan.cluster.curves;
    for (const GemmPoint& p : curves.gemm)
        if (p.precision == m_plan.precision) m_best_rate = std::max(m_best_rate, p.rate.value);
    for (const GemmPoint& p : curves.gemm) {
        if (p.precision != m_plan.precision || p.rate.value <= 0.0) continue;
        const double g = static_cast<double>(p.groups);
        const double m = static_cast<double>(p.m), n = static_cast<double>(p.n),
                     k = static_cast<double>(p.k);
        const double measured = 2.0 * g * m * n * k / p.rate.value;
        m_gemm.push_back({{std::log2(m), std::log2(n), std::log2(k), std::log2(g)},
                          measured / gemmModel(g, m, n, k).value});
    }
    for (const AttentionPoint& p : curves.attention)
        if (p.precision == m_plan.precision && p.rate.value > 0.0) m_attention.push_back(p);
    for (const MemoryPoint& p : curves.memory)
        if (p.rate.value > 0.0 && p.size.value > 0.0)
            m_memory.push_back({std::log2(p.size.value),
                                p.size.value / p.rate.value / memoryModel(p.size, 1.0).value});
    sortBySize(m_memory);
    for (const OverheadPoint& p : curves.overhead) {
        if (p.size.value <= 0.0 || p.time.value <= 0.0) continue;
        for (const EnumName<Phase>& row : enumNames<Phase>())
            if (row.name == p.operation)
                m_overhead[static_cast<std::size_t>(row.value)].push_back(
                    {std::log2(p.size.value), p.time.value / memoryModel(p.size, 1.0).value});
    }
    for (auto& points : m_overhead) sortBySize(points);
}

Seconds CostModel::memoryModel(Bytes traffic, double kernels) const {
    const DeviceSpec& d = m_plan.cluster.device;
    const Seconds moving = d.memory_bandwidth.value > 0.0
                               ? traffic / (d.memory_bandwidth * kBandwidthShare)
                               : Seconds();
    return moving + d.launch_overhead * kernels;
}

Cost CostModel::memoryBound(Bytes traffic, double kernels) const {
    if (traffic.value <= 0.0) return {};
    const Seconds model = memoryModel(traffic, kernels);
    if (m_memory.empty()) return costOf(model, EvidenceKind::VendorPeak, false);
    const Interpolated at = interpolateRatio(m_memory, std::log2(traffic.value));
    return costOf(model * at.value, EvidenceKind::Measured, at.extrapolated);
}

Cost CostModel::attention(const AttentionWork& work) const {
    if (work.flops.value <= 0.0) return {};
    const Seconds launch = m_plan.cluster.device.launch_overhead;
    if (!m_attention.empty()) {
        const Interpolated rate = interpolateAttention(m_attention, work);
        return costOf(Seconds(work.flops.value / rate.value), EvidenceKind::Measured,
                      rate.extrapolated);
    }
    const DeviceFamily family = deviceFamily(m_plan.cluster.device.name);
    const double heads = static_cast<double>(work.batch * work.heads);
    const Efficiency published = publishedAttentionEfficiency(family, heads, work.backward);
    // Nothing published for this family: between the A100's and the B200's saturated figures.
    constexpr double kAssumedForward = 0.45, kAssumedBackward = 0.38;
    const double assumed = work.backward ? kAssumedBackward : kAssumedForward;
    if (m_peak <= 0.0) return costOf(launch, EvidenceKind::Assumed, true);
    if (published.value <= 0.0 || !m_peak_known)
        return costOf(Seconds(work.flops.value / (m_peak * assumed)) + launch,
                      EvidenceKind::Assumed, !m_peak_known);
    return costOf(Seconds(work.flops.value / (m_peak * published.value)) + launch,
                  EvidenceKind::Published,
                  published.extrapolated || m_plan.precision != Precision::Bf16);
}

Cost CostModel::operation(const OperationWork& work, Phase phase) const {
    Cost sum;
    for (const GemmWork& g : work.gemms) sum = sum + gemm(g);
    if (work.attention) sum = sum + attention(*work.attention);
    if (work.memory_traffic.value > 0.0) {
        const auto& overhead = m_overhead[static_cast<std::size_t>(phase)];
        if (overhead.empty()) {
            sum = sum + memoryBound(work.memory_traffic, work.kernels);
        } else {
            const Interpolated at =
                interpolateRatio(overhead, std::log2(work.memory_traffic.value));
            sum = sum + costOf(memoryModel(work.memory_traffic, 1.0) * at.value,
                               EvidenceKind::Measured, at.extrapolated);
        }
    }
    sum = sum * work.imbalance;
    if (work.communication) sum = sum + communication(*work.communication);
    return sum;
}

}  // namespace piper
