// SPDX-License-Identifier: Apache-2.0
#include "core/predict/bottlenecks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

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
    empty.hottest_bytes = empty.flat_bytes = empty.bytes;
    return cost.communication(empty).time;
}

/// The rate of the largest square GEMM the memory of a device would hold in passing.
FlopsPerSecond bestGemmRate(const CostModel& cost) {
    const GemmWork large{1, 8192, 8192, 8192, 1};
    return large.flops() / cost.gemm(large).time;
}

class Causes {
public:
    /// `placed`: prices communication under the best rank order, so that what placement alone
    /// costs is not counted twice.
    Causes(const CostModel& cost, const CostModel& placed)
        : m_cost(cost), m_placed(placed), m_best(bestGemmRate(cost)) {}

    Cause a2aLatency() const {
        return Cause([this](const OperationWork& work, Phase) {
            return isAllToAll(work) ? latencyOf(m_placed, *work.communication) : Seconds();
        });
    }
    Cause a2aBandwidth() const {
        return Cause([this](const OperationWork& work, Phase) {
            if (!isAllToAll(work)) return Seconds();
            return m_placed.communication(*work.communication).time -
                   latencyOf(m_placed, *work.communication);
        });
    }
    Cause otherCommunication() const {
        return Cause([this](const OperationWork& work, Phase) {
            if (!work.communication || isAllToAll(work)) return Seconds();
            return m_placed.communication(*work.communication).time;
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
            if (even.communication)
                even.communication->hottest_bytes =
                    isAllToAll(even) ? even.communication->flat_bytes : even.communication->bytes;
            return m_cost.operation(work, phase).time - m_cost.operation(even, phase).time;
        });
    }
    /// Launches are left out: a faster memory would not shorten them.
    Cause memoryBound() const {
        return Cause([this](const OperationWork& work, Phase phase) {
            if (work.memory_traffic.value <= 0.0) return Seconds();
            return m_cost.memoryBound(work.memory_traffic, 0.0, m_cost.memoryKind(phase)).time *
                   work.imbalance;
        });
    }

private:
    const CostModel& m_cost;
    const CostModel& m_placed;
    FlopsPerSecond m_best;
};

/// Rank orders other than the plan's own that place some group differently: the dimensions larger
/// than 1 in every order, the stages slowest or fastest.
std::vector<std::string> otherOrders(const Plan& plan) {
    const Layout& l = plan.layout;
    std::vector<std::string> moved, fixed;
    for (const auto& [token, degree] :
         {std::pair("tp", l.tp), std::pair("cp", l.cp), std::pair("dp", std::max(l.dp, l.edp())),
          std::pair("ep", l.ep)})
        (degree > 1 ? moved : fixed).emplace_back(token);
    std::ranges::sort(moved);
    std::set<std::string> orders;
    do {
        std::vector<std::string> order = fixed;
        order.insert(order.end(), moved.begin(), moved.end());
        const std::string inner = fmt::format("{}", fmt::join(order, "-"));
        orders.insert(inner + "-pp");
        if (l.pp > 1) orders.insert("pp-" + inner);
    } while (std::ranges::next_permutation(moved).found);
    orders.erase(plan.rank_order);
    return {orders.begin(), orders.end()};
}

/// Where the groups of a plan lie, as one text: orders with the same text cost the same.
std::string spreadText(const CostModel& cost) {
    std::string text;
    for (const char* dimension : {"tp", "cp", "dp", "pp", "ep", "etp", "edp"})
        text += fmt::format("{};", fmt::join(cost.spreadOf(dimension).members, ","));
    return text;
}

/// The rank order that places the groups best, and the plan and prices under it.
class Placement {
public:
    Placement(const Plan& plan, const CostModel& cost) : m_plan(plan), m_cost(cost) {}

    /// Tries every order that places some group differently. Errors: those of `play`.
    Result<Bottleneck> search(double step_seconds, const PlayStep& play) {
        Bottleneck best;
        best.kind = BottleneckKind::Placement;
        best.step_without_it = seconds(step_seconds);
        if (m_plan.cluster.nodes <= 1) return best;
        std::set<std::string> seen = {spreadText(m_cost)};
        for (const std::string& order : otherOrders(m_plan)) {
            auto plan = std::make_unique<Plan>(m_plan);
            plan->rank_order = order;
            auto moved = std::make_unique<CostModel>(*plan);
            if (!seen.insert(spreadText(*moved)).second) continue;
            PIPER_ASSIGN(const double would, stepUnder(*moved, play));
            if (would >= best.step_without_it.value) continue;
            best.step_without_it = seconds(would);
            best.remedy = fmt::format("rank_order={}", order);
            m_best_plan = std::move(plan);
            m_best = std::move(moved);
        }
        if (step_seconds > 0.0)
            best.share_of_step = 1.0 - best.step_without_it.value / step_seconds;
        return best;
    }
    const CostModel& best() const { return m_best ? *m_best : m_cost; }

private:
    Result<double> stepUnder(const CostModel& moved, const PlayStep& play) const {
        Cause gain([&](const OperationWork& work, Phase) {
            if (!work.communication) return Seconds();
            return m_cost.communication(*work.communication).time -
                   moved.communication(*work.communication).time;
        });
        PIPER_ASSIGN(const StepEstimate without,
                     play([&gain](const Operation& op, const OperationWork& work, const Cost& now) {
                         return std::max(Seconds(), now.time - gain.of(work, op.key.phase));
                     }));
        return static_cast<double>(without.step_ns) * 1e-9;
    }

    const Plan& m_plan;
    const CostModel& m_cost;
    std::unique_ptr<Plan> m_best_plan;  ///< m_best refers to it
    std::unique_ptr<CostModel> m_best;
};

/// What the kind means, for one sentence.
std::string_view meaningOf(BottleneckKind kind) {
    switch (kind) {
        case BottleneckKind::A2aLatency:
            return "all-to-all latency, what its messages cost however small they are";
        case BottleneckKind::A2aBandwidth:
            return "all-to-all bandwidth, the bytes of dispatch and combine";
        case BottleneckKind::ExposedComm:
            return "communication other than all-to-all that no compute hides";
        case BottleneckKind::SkinnyGemm:
            return "expert GEMMs too small for the device";
        case BottleneckKind::Imbalance:
            return "the hottest expert rank, for which the others wait";
        case BottleneckKind::Hbm:
            return "memory-bound work: norms, sorting of rows, the optimizer";
        case BottleneckKind::Bubble:
            return "pipeline bubble, stages that wait for the first and last micro-batches";
        case BottleneckKind::Placement:
            return "groups that leave their node where another rank order keeps them in";
        case BottleneckKind::Compute:
            return "compute at the rate large GEMMs reach";
    }
    return "";
}

std::string sentenceOf(const Bottleneck& b) {
    return fmt::format("{:.0f} % of the step is {}: {} without it{}", 100.0 * b.share_of_step,
                       meaningOf(b.kind), humanSeconds(b.step_without_it),
                       b.remedy.empty() ? "" : " (" + b.remedy + ")");
}

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
    const double seconds_now = static_cast<double>(step.step_ns) * 1e-9;
    Placement placement(plan, cost);
    PIPER_ASSIGN(Bottleneck misplaced, placement.search(seconds_now, play));
    const Causes causes(cost, placement.best());
    std::vector<std::pair<BottleneckKind, Cause>> list = {
        {BottleneckKind::A2aLatency, causes.a2aLatency()},
        {BottleneckKind::A2aBandwidth, causes.a2aBandwidth()},
        {BottleneckKind::ExposedComm, causes.otherCommunication()},
        {BottleneckKind::SkinnyGemm, causes.skinnyGemm()},
        {BottleneckKind::Imbalance, causes.imbalance()},
        {BottleneckKind::Hbm, causes.memoryBound()},
    };
    std::vector<Bottleneck> out;
    double explained = step.bubble_fraction + misplaced.share_of_step;
    for (auto& [kind, cause] : list) {
        Cause& part = cause;
        PIPER_ASSIGN(const StepEstimate without,
                     play([&part](const Operation& op, const OperationWork& work, const Cost& now) {
                         const Seconds left = now.time - part.of(work, op.key.phase);
                         return std::max(Seconds(), left);
                     }));
        out.push_back(bottleneck(kind, seconds_now, static_cast<double>(without.step_ns) * 1e-9));
        explained += out.back().share_of_step;
    }
    out.push_back(std::move(misplaced));
    out.push_back(bottleneck(BottleneckKind::Bubble, seconds_now,
                             seconds_now * (1.0 - step.bubble_fraction)));
    out.push_back(
        bottleneck(BottleneckKind::Compute, seconds_now, seconds_now * std::min(1.0, explained)));
    for (Bottleneck& b : out) b.sentence = sentenceOf(b);
    std::ranges::stable_sort(out, std::ranges::greater{}, &Bottleneck::share_of_step);
    return out;
}

std::string bottleneckSentence(const std::vector<Bottleneck>& bottlenecks) {
    const auto worst = std::ranges::find_if(
        bottlenecks, [](const Bottleneck& b) { return b.kind != BottleneckKind::Compute; });
    if (worst == bottlenecks.end() || worst->share_of_step < 0.005)
        return "Nothing but compute holds the step.";
    return "The largest loss: " + worst->sentence + ".";
}

}  // namespace piper
