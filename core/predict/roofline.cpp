// SPDX-License-Identifier: Apache-2.0
#include "core/predict/roofline.h"

#include <algorithm>

#include "core/cost/cost.h"
#include "core/cost/roof.h"

namespace piper {
namespace {

using Kind = OperationKind;

constexpr std::array kComputeKinds = {Kind::Forward, Kind::InputGrad, Kind::WeightGrad};

/// Compute phases that have GEMMs, each with its keys.
std::vector<OperationKey> gemmKeys(const Plan& plan) {
    std::vector<OperationKey> out;
    const auto add = [&](Phase phase, LayerKind layer, bool shared) {
        for (const Kind kind : kComputeKinds) {
            OperationKey key;
            key.phase = phase;
            key.kind = kind;
            key.pass = kind == Kind::Forward ? Pass::Forward : Pass::Backward;
            key.layer = layer;
            key.shared_expert = shared;
            out.push_back(key);
        }
    };
    add(Phase::Attention, LayerKind::Moe, false);
    const auto has = [&plan](LayerKind kind) {
        return std::ranges::find(plan.model.layers, kind) != plan.model.layers.end();
    };
    if (has(LayerKind::Dense) || plan.model.layers.empty())
        add(Phase::Expert, LayerKind::Dense, false);
    if (plan.model.moe) {
        add(Phase::Router, LayerKind::Moe, false);
        add(Phase::Expert, LayerKind::Moe, false);
        add(Phase::Expert, LayerKind::Moe, true);
    }
    add(Phase::HeadLoss, LayerKind::Dense, false);
    return out;
}

std::vector<OperationKey> linkKeys() {
    std::vector<OperationKey> out;
    const auto add = [&](Phase phase, Kind kind, LayerKind layer = LayerKind::Moe) {
        OperationKey key;
        key.phase = phase;
        key.kind = kind;
        key.layer = layer;
        out.push_back(key);
    };
    add(Phase::Dispatch, Kind::Dispatch);
    add(Phase::Combine, Kind::Combine);
    for (const Phase phase : {Phase::TpComm, Phase::CpComm})
        for (const Kind kind : {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter})
            add(phase, kind);
    add(Phase::PpComm, Kind::Send);
    for (const LayerKind layer : {LayerKind::Dense, LayerKind::Moe})
        for (const Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather})
            add(Phase::DpComm, kind, layer);
    return out;
}

/// A, B and C of all groups; C is read as well where it is added to.
Bytes gemmBytes(const Plan& plan, const GemmWork& work, Precision precision) {
    const auto groups = static_cast<double>(work.groups);
    const auto m = static_cast<double>(work.m), n = static_cast<double>(work.n),
               k = static_cast<double>(work.k);
    const double output = work.accumulates ? 2.0 * stateBytes(plan).gradients
                                           : activationElementBytes(precision).value;
    return Bytes(groups * ((m * k + k * n) * elementBytes(precision).value + m * n * output));
}

Result<GemmRoof> gemmRoof(const Plan& plan, const CostModel& cost, const OperationKey& key,
                          GemmWork work) {
    const bool ends = key.phase == Phase::HeadLoss || key.phase == Phase::Router;
    const Precision precision = ends ? headPrecision(plan.precision) : plan.precision;
    GemmRoof out;
    out.key = key;
    PIPER_ASSIGN(out.peak, plan.cluster.device.peakFor(precision));
    work.count = 1;
    out.work = work;
    OperationWork one;
    one.gemms = {work};
    const Cost price = cost.operation(one, key.phase);
    out.flops = work.flops();
    out.bytes = gemmBytes(plan, work, precision);
    out.time = price.time;
    out.evidence = price.evidence;
    out.rate = out.flops / out.time;
    out.roof = FlopsPerSecond(
        std::min(out.peak.value, out.intensity() * plan.cluster.device.memory_bandwidth.value));
    return out;
}

Result<LinkRoof> linkRoof(const Plan& plan, const CostModel& cost, const OperationKey& key,
                          const CommunicationWork& work) {
    LinkRoof out;
    out.key = key;
    out.dimension = work.dimension;
    out.kind = work.kind;
    const GroupSpread spread = cost.spreadOf(work.dimension);
    out.ranks = spread.size;
    out.nodes = spread.nodes;
    const Cost price = cost.communication(work);
    const auto calls = static_cast<double>(std::max<std::int64_t>(1, work.calls));
    out.bytes = work.bytes * (1.0 / calls);
    out.time = price.time * (1.0 / calls);
    out.evidence = price.evidence;
    out.rate = out.bytes / out.time;
    PIPER_ASSIGN(const CollectiveRoof roof, collectiveRoof(plan.cluster, work.kind, spread));
    out.roof = roof.busbw;
    out.level = roof.level;
    return out;
}

bool sameCall(const GemmRoof& known, const OperationKey& key, const GemmWork& work) {
    return known.key == key && known.work.groups == work.groups && known.work.m == work.m &&
           known.work.n == work.n && known.work.k == work.k;
}

}  // namespace

Result<Roofline> roofline(const Plan& plan) {
    const std::vector<Violation> broken = validatePlan(plan);
    if (!broken.empty())
        return fail(ErrorCode::RuleBroken, "{}: {}", broken.front().rule, broken.front().message);
    const CostModel cost(plan);
    Roofline out;
    PIPER_ASSIGN(out.peak, plan.cluster.device.peakFor(plan.precision));
    out.memory_bandwidth = plan.cluster.device.memory_bandwidth;
    // The head lies on the last stage; all else is on every one.
    const StageId last(static_cast<std::int32_t>(plan.layout.pp - 1));
    for (const OperationKey& key : gemmKeys(plan))
        for (const GemmWork& work : operationWork(plan, key, last).gemms) {
            const bool known = std::ranges::any_of(
                out.gemms, [&](const GemmRoof& g) { return sameCall(g, key, work); });
            if (known || work.flops().value <= 0.0) continue;
            PIPER_ASSIGN(GemmRoof roof, gemmRoof(plan, cost, key, work));
            out.gemms.push_back(std::move(roof));
        }
    for (const OperationKey& key : linkKeys()) {
        const OperationWork work = operationWork(plan, key, last);
        if (!work.communication || work.communication->bytes.value <= 0.0) continue;
        PIPER_ASSIGN(LinkRoof roof, linkRoof(plan, cost, key, *work.communication));
        out.links.push_back(std::move(roof));
    }
    return out;
}

}  // namespace piper
