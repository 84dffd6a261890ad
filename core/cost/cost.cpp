// SPDX-License-Identifier: Apache-2.0
#include "core/cost/cost.h"

#include <algorithm>
#include <cmath>

#include "core/cost/curves.h"
#include "core/cost/host_link.h"
#include "core/resources/routing.h"

namespace piper {

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

namespace {

/// log2: how far SimuMax's shares of the A100 and the B200 lie from aiconfigurator's 0.8; the range
/// of its own shares over kinds of kernels where a kind was not measured on the die.
constexpr double kPublishedMemorySpread = 0.16, kOtherMemorySpread = 0.5;

}  // namespace

Precision headPrecision(Precision p) {
    return elementBytes(p).value <= 1.0 ? Precision::Bf16 : p;
}

CostModel::CostModel(const Plan& plan)
    : m_plan(plan),
      m_rates(matrixRates(plan.cluster.device, plan.precision)),
      m_head_rates(headPrecision(plan.precision) == plan.precision
                       ? m_rates
                       : matrixRates(plan.cluster.device, headPrecision(plan.precision))),
      m_attention_rates(attentionRates(plan.cluster.device, plan.precision)),
      m_die(chipOf(plan.cluster.device.name).die),
      m_gradient_bytes(stateBytes(plan.framework, plan.precision).gradients),
      m_communication(plan) {
    indexCurves();
}

void CostModel::indexCurves() {
    const MeasuredCurves& curves = m_plan.cluster.curves;
    for (const GemmPoint& p : curves.gemm)
        if (p.precision == m_plan.precision) m_best_rate = std::max(m_best_rate, p.rate.value);
    std::vector<RatioField::Point> points;
    for (const GemmPoint& p : curves.gemm) {
        if (p.precision != m_plan.precision || p.rate.value <= 0.0) continue;
        const double g = static_cast<double>(p.groups);
        const double m = static_cast<double>(p.m), n = static_cast<double>(p.n),
                     k = static_cast<double>(p.k);
        const double measured = 2.0 * g * m * n * k / p.rate.value;
        points.push_back(
            {measuredPlace(g, m, n, k), std::log2(measured / gemmModel(g, m, n, k).value), 0.0F});
    }
    m_gemm = RatioField(std::move(points));
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
    for (auto& of_phase : m_in_step) of_phase.fill(1.0);
    for (const OperationPoint& p : curves.operation) {
        const Result<Phase> phase = parseEnum<Phase>(p.operation, "phase");
        const Result<OperationKind> kind = parseEnum<OperationKind>(p.kind, "operation kind");
        if (phase.ok() && kind.ok() && p.ratio > 0.0) inStep(*phase, *kind) = p.ratio;
    }
}

Seconds CostModel::memoryModel(Bytes traffic, double kernels) const {
    const DeviceSpec& d = m_plan.cluster.device;
    const double share = bandwidthShare(m_die, MemoryKind::Elementwise).value;
    const Seconds moving =
        d.memory_bandwidth.value > 0.0 ? traffic / (d.memory_bandwidth * share) : Seconds();
    return moving + d.launch_overhead * kernels;
}

MemoryKind CostModel::memoryKind(Phase phase) const {
    if (phase == Phase::HeadLoss && !m_plan.fused_cross_entropy) return MemoryKind::CrossEntropy;
    if ((phase == Phase::Dispatch || phase == Phase::Combine) && !movesTokens(m_plan))
        return MemoryKind::Permute;
    return MemoryKind::Elementwise;
}

Cost CostModel::memoryBound(Bytes traffic, double kernels, MemoryKind kind) const {
    if (traffic.value <= 0.0) return {};
    const DeviceSpec& d = m_plan.cluster.device;
    if (!m_memory.empty()) {
        const Interpolated at = interpolateRatio(m_memory, std::log2(traffic.value));
        return costOf(memoryModel(traffic, kernels) * at.value, EvidenceKind::Measured,
                      at.extrapolated);
    }
    if (d.kind == DeviceKind::Cpu || d.memory_bandwidth.value <= 0.0)
        return costOf(memoryModel(traffic, kernels), EvidenceKind::VendorPeak, false);
    const BandwidthShare share = bandwidthShare(m_die, kind);
    const double seconds = traffic.value / (d.memory_bandwidth.value * share.value) +
                           kernels * d.launch_overhead.value;
    const RatedTime time{seconds,
                         share.published ? EvidenceKind::Published : EvidenceKind::VendorPeak,
                         share.published ? kPublishedMemorySpread : kOtherMemorySpread, false};
    return {Seconds(seconds), time.evidence()};
}

Cost CostModel::operation(const OperationWork& work, Phase phase) const {
    Cost sum;
    const bool head =
        phase == Phase::HeadLoss || phase == Phase::Router || phase == Phase::Embedding;
    const MatrixRates& rates = head ? m_head_rates : m_rates;
    for (const GemmWork& g : work.gemms) sum = sum + (m_gemm.empty() ? gemmAt(rates, g) : gemm(g));
    if (work.attention) sum = sum + attention(*work.attention);
    if (work.memory_traffic.value > 0.0) {
        const auto& overhead = m_overhead[static_cast<std::size_t>(phase)];
        if (overhead.empty()) {
            sum = sum + memoryBound(work.memory_traffic, work.kernels, memoryKind(phase));
        } else {
            const Interpolated at =
                interpolateRatio(overhead, std::log2(work.memory_traffic.value));
            sum = sum + costOf(memoryModel(work.memory_traffic, 1.0) * at.value,
                               EvidenceKind::Measured, at.extrapolated);
        }
    }
    sum = sum * (work.imbalance * inStep(phase, work.kind));
    if (phase == Phase::Optimizer && m_plan.offload.optimizer &&
        hostLink(m_plan.cluster.device).link.value > 0.0) {
        // The host steps its part of the state after the device's part.
        const double moved = m_plan.offload.fraction;
        const double elements = work.memory_traffic.value / optimizerStepBytes(stateBytes(m_plan));
        sum = sum * (1.0 - moved) + hostOptimizer(m_plan, moved * elements);
    }
    if (work.communication) sum = sum + communication(*work.communication);
    return sum;
}

}  // namespace piper
