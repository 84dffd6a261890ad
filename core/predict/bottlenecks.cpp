// SPDX-License-Identifier: Apache-2.0
#include "core/predict/bottlenecks.h"

#include <algorithm>
#include <map>

namespace piper {

template <>
std::span<const EnumName<BottleneckKind>> enumNames<BottleneckKind>() {
    static constexpr EnumName<BottleneckKind> kNames[] = {
        {BottleneckKind::A2aLatency, "a2a_latency"},
        {BottleneckKind::A2aBandwidth, "a2a_bandwidth"},
        {BottleneckKind::ExposedComm, "exposed_comm"},
        {BottleneckKind::SkinnyGemm, "skinny_gemm"},
        {BottleneckKind::Imbalance, "imbalance"},
        {BottleneckKind::Hbm, "hbm"},
        {BottleneckKind::Bubble, "bubble"},
        {BottleneckKind::Placement, "placement"},
        {BottleneckKind::Compute, "compute"},
    };
    return kNames;
}

template <>
std::span<const EnumName<FitVerdict>> enumNames<FitVerdict>() {
    static constexpr EnumName<FitVerdict> kNames[] = {
        {FitVerdict::Fits, "fits"},
        {FitVerdict::Tight, "tight"},
        {FitVerdict::DoesNotFit, "does_not_fit"},
    };
    return kNames;
}

namespace {

/// Seconds that a cause holds of one operation; each operation's work is looked at once.
class Cause {
public:
    using Seconds1 = std::function<Seconds(const OperationWork&, Phase)>;
    explicit Cause(Seconds1 part) : m_part(std::move(part)) {}

    Seconds of(const OperationWork& work, Phase phase) {
        const auto [at, added] = m_known.try_emplace(&work);
        if (added) at->second = m_part(work, phase);
        return at->second;
    }

private:
    Seconds1 m_part;
    std::map<const OperationWork*, Seconds> m_known;
};

bool isAllToAll(const OperationWork& work) {
    return work.communication && work.communication->kind == CollectiveKind::AllToAll;
}

Seconds latencyOf(const CostModel& cost, const CommunicationWork& work) {
    CommunicationWork empty = work;
    empty.bytes = Bytes(std::min(1.0, work.bytes.value));
    empty.hottest_bytes = empty.bytes;
    return cost.communication(empty).time;
}

/// The rate of the largest square GEMM the memory of a device would hold in passing.
FlopsPerSecond bestGemmRate(const CostModel& cost) {
    const GemmWork large{1, 8192, 8192, 8192, 1};
    return large.flops() / cost.gemm(large).time;
}

class Causes {
public:
    Causes(const Plan& plan, const CostModel& cost)
        : m_cost(cost), m_best(bestGemmRate(cost)), m_near(plan) {
        // The same ranks in one node: what is left of a collective does not come from placement.
        ClusterSpec& cluster = m_near.cluster;
        cluster.devices_per_node = std::max(cluster.numDevices(), plan.layout.world());
        cluster.nodes = 1;
        for (LinkLevel& level : cluster.levels) level.domain_devices = cluster.devices_per_node;
    }

    Cause a2aLatency() const {
        return Cause([this](const OperationWork& work, Phase) {
            return isAllToAll(work) ? latencyOf(m_cost, *work.communication) : Seconds();
        });
    }
    Cause a2aBandwidth() const {
        return Cause([this](const OperationWork& work, Phase) {
            if (!isAllToAll(work)) return Seconds();
            return m_cost.communication(*work.communication).time -
                   latencyOf(m_cost, *work.communication);
        });
    }
    Cause otherCommunication() const {
        return Cause([this](const OperationWork& work, Phase) {
            if (!work.communication || isAllToAll(work)) return Seconds();
            return m_cost.communication(*work.communication).time;
        });
    }
    Cause skinnyGemm() const {
        return Cause([this](const OperationWork& work, Phase phase) {
            Seconds excess;
            if (phase != Phase::Expert) return excess;
            for (const GemmWork& gemm : work.gemms)
                excess += std::max(Seconds(), m_cost.gemm(gemm).time - gemm.flops() / m_best);
            return excess * work.imbalance;
        });
    }
    Cause imbalance() const {
        return Cause([this](const OperationWork& work, Phase phase) {
            OperationWork even = work;
            even.imbalance = 1.0;
            if (even.communication) even.communication->hottest_bytes = even.communication->bytes;
            return m_cost.operation(work, phase).time - m_cost.operation(even, phase).time;
        });
    }
    Cause memoryBound() const {
        return Cause([this](const OperationWork& work, Phase phase) {
            if (work.memory_traffic.value <= 0.0) return Seconds();
            return m_cost.memoryBound(work.memory_traffic, work.kernels, m_cost.memoryKind(phase))
                .time;
        });
    }
    Cause placement() const {
        auto near = std::make_shared<CostModel>(m_near);
        return Cause([this, near](const OperationWork& work, Phase) {
            if (!work.communication) return Seconds();
            return std::max(Seconds(), m_cost.communication(*work.communication).time -
                                           near->communication(*work.communication).time);
        });
    }

private:
    const CostModel& m_cost;
    FlopsPerSecond m_best;
    Plan m_near;
};

Bottleneck bottleneck(BottleneckKind kind, double step, double without) {
    Bottleneck out;
    out.kind = kind;
    out.step_without_it = seconds(std::clamp(without, 0.0, step));
    out.share_of_step = step > 0.0 ? 1.0 - out.step_without_it.value / step : 0.0;
    return out;
}

}  // namespace

Result<std::vector<Bottleneck>> findBottlenecks(const Plan& plan, const CostModel& cost,
                                                const StepEstimate& step, const PlayStep& play) {
    const Causes causes(plan, cost);
    const double seconds_now = static_cast<double>(step.step_ns) * 1e-9;
    std::vector<std::pair<BottleneckKind, Cause>> list = {
        {BottleneckKind::A2aLatency, causes.a2aLatency()},
        {BottleneckKind::A2aBandwidth, causes.a2aBandwidth()},
        {BottleneckKind::ExposedComm, causes.otherCommunication()},
        {BottleneckKind::SkinnyGemm, causes.skinnyGemm()},
        {BottleneckKind::Imbalance, causes.imbalance()},
        {BottleneckKind::Hbm, causes.memoryBound()},
        {BottleneckKind::Placement, causes.placement()},
    };
    std::vector<Bottleneck> out;
    double explained = step.bubble_fraction;
    for (auto& [kind, cause] : list) {
        Cause& part = cause;
        PIPER_ASSIGN(const StepEstimate without,
                     play([&part](const Operation& op, const OperationWork& work, const Cost& now) {
                         const Seconds left = now.time - part.of(work, op.key.phase);
                         return std::max(Seconds(), left);
                     }));
        out.push_back(bottleneck(kind, seconds_now, static_cast<double>(without.step_ns) * 1e-9));
        // Placement is a part of the communication counted already.
        if (kind != BottleneckKind::Placement) explained += out.back().share_of_step;
    }
    out.push_back(bottleneck(BottleneckKind::Bubble, seconds_now,
                             seconds_now * (1.0 - step.bubble_fraction)));
    out.push_back(
        bottleneck(BottleneckKind::Compute, seconds_now, seconds_now * std::min(1.0, explained)));
    std::ranges::stable_sort(out, std::ranges::greater{}, &Bottleneck::share_of_step);
    return out;
}

std::string bottleneckSentence(const std::vector<Bottleneck>& bottlenecks) {
    const auto text = [](BottleneckKind kind) -> std::string_view {
        switch (kind) {
            case BottleneckKind::A2aLatency:
                return "all-to-all latency";
            case BottleneckKind::A2aBandwidth:
                return "all-to-all bandwidth";
            case BottleneckKind::ExposedComm:
                return "communication other than all-to-all";
            case BottleneckKind::SkinnyGemm:
                return "expert GEMMs too small for the device";
            case BottleneckKind::Imbalance:
                return "the hottest expert rank";
            case BottleneckKind::Hbm:
                return "memory-bound work";
            case BottleneckKind::Bubble:
                return "pipeline bubble";
            case BottleneckKind::Placement:
                return "exchange between nodes";
            case BottleneckKind::Compute:
                return "compute at full efficiency";
        }
        return "";
    };
    const auto worst = std::ranges::find_if(
        bottlenecks, [](const Bottleneck& b) { return b.kind != BottleneckKind::Compute; });
    if (worst == bottlenecks.end() || worst->share_of_step < 0.005)
        return "Nothing but compute holds the step.";
    return fmt::format("The largest loss is {}: {:.0f} % of the step, {} without it.",
                       text(worst->kind), 100.0 * worst->share_of_step,
                       humanSeconds(worst->step_without_it));
}

}  // namespace piper
