// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/exposure.h"

#include <algorithm>

#include "core/base/cast.h"
#include "core/cost/host_link.h"
#include "core/plan/pipeline_shape.h"
#include "core/resources/memory.h"
#include "core/schedule/host.h"

namespace piper {
namespace {

/// Of a hidden collective's time, what it takes from the compute beside it: it holds some of the
/// multiprocessors and memory bandwidth (Calculon's systems: 15 % on NVLink, 2 % on InfiniBand).
constexpr double kContention = 0.15;
/// FSDP gathers every layer twice: its collectives run beside all compute, and their prefetch is
/// bounded by memory (limit_all_gathers).
constexpr double kFsdpContention = 0.3;

/// Share of `all` that stays when up to `window` of it, without its part `alone`, is hidden.
double remaining(Seconds all, Seconds window, double alone, double contention = kContention) {
    if (all.value <= 0.0) return 1.0;
    const double hidden =
        std::clamp(window.value, 0.0, all.value * std::clamp(1.0 - alone, 0.0, 1.0));
    return 1.0 - hidden * (1.0 - contention) / all.value;
}

bool isBackward(OperationKind kind) {
    return kind == OperationKind::InputGrad || kind == OperationKind::WeightGrad;
}

}  // namespace

Exposure::Exposure(WorkTable& work, const CostModel& cost)
    : m_work(work),
      m_plan(work.plan()),
      m_cost(cost),
      m_overlap(effectiveOverlap(m_plan)),
      m_run_factors(runFactors(m_plan)),
      m_attention_factor(attentionFactor(m_plan)) {}

Seconds Exposure::seconds(const OperationKey& key, StageId stage) {
    const auto [at, added] =
        m_known.try_emplace(packed(key, isStageWork(m_plan, key) ? stage.value : -1));
    if (added) at->second = m_cost.operation(m_work.of(key, stage), key.phase).time;
    return at->second;
}

Seconds Exposure::computeOf(LayerKind layer, OperationKind kind, bool with_experts, StageId stage) {
    const Pass pass = isBackward(kind)                   ? Pass::Backward
                      : kind == OperationKind::Recompute ? Pass::Recompute
                                                         : Pass::Forward;
    Seconds sum = seconds({kind, Phase::Attention, pass, layer}, stage);
    if (layer == LayerKind::Dense || with_experts)
        sum += seconds({kind, Phase::Expert, pass, layer}, stage);
    if (layer == LayerKind::Moe && m_plan.model.moe && m_plan.model.moe->shared_ffn_hidden_size > 0)
        sum += seconds({kind, Phase::Expert, pass, layer, true}, stage);
    return sum;
}

Seconds Exposure::stagePass(bool backward, StageId stage) {
    Seconds sum;
    for (std::int64_t v = 0; v < pipelineShape(m_plan).chunks(); ++v) {
        const LayerRange range =
            stageLayers(m_plan, stage, ModelChunkId(static_cast<std::int32_t>(v)));
        for (std::int64_t l = range.begin; l < range.end; ++l) {
            const LayerKind kind = m_plan.model.layers[static_cast<std::size_t>(l)];
            if (!backward) {
                sum += computeOf(kind, OperationKind::Forward, true, stage);
                continue;
            }
            sum += computeOf(kind, OperationKind::InputGrad, true, stage) +
                   computeOf(kind, OperationKind::WeightGrad, true, stage);
        }
    }
    return sum;
}

/// In slices with the GEMMs before or after, all but one slice of tp. Without that the exchanges of
/// both passes are waited for: SimuMax's and Megatron-LM's published rows without overlap show no
/// gain from the backward pass's asynchronous calls.
double Exposure::tensorShare(const OperationKey& key, StageId stage) {
    if (!m_overlap.tp) return 1.0;
    const bool backward = key.pass == Pass::Backward;
    const OperationKind kind = backward                      ? OperationKind::InputGrad
                               : key.pass == Pass::Recompute ? OperationKind::Recompute
                                                             : OperationKind::Forward;
    Seconds window = computeOf(key.layer, kind, false, stage);
    if (backward) window += computeOf(key.layer, OperationKind::WeightGrad, false, stage);
    return remaining(seconds(key, stage), window * 0.5, 1.0 / asDouble(m_plan.layout.tp));
}

/// On a ring each part of the keys and values arrives while attention works on the part before.
double Exposure::contextShare(const OperationKey& key, StageId stage) {
    if (!m_overlap.cp) return 1.0;
    const OperationKind kind = key.pass == Pass::Backward    ? OperationKind::InputGrad
                               : key.pass == Pass::Recompute ? OperationKind::Recompute
                                                             : OperationKind::Forward;
    const OperationWork& attention =
        m_work.of({kind, Phase::Attention, key.pass, key.layer}, stage);
    const Seconds core =
        attention.attention ? m_cost.attention(*attention.attention).time : Seconds();
    return remaining(seconds(key, stage), core, 1.0 / asDouble(m_plan.layout.cp));
}

/// Behind a layer's compute of another micro-batch in the other direction; rows are still sorted on
/// the compute stream, and the first and last micro-batch have no partner.
double Exposure::expertShare(const OperationKey& key, StageId stage) {
    const OperationWork& work = m_work.of(key, stage);
    const std::int64_t count = m_plan.numMicroBatches() * m_plan.layout.vpp;
    // Pairs of slots hide their exchanges themselves.
    const bool paired = pairsSlots(m_plan.schedule);
    if (!m_overlap.ep || paired || !work.communication || key.pass == Pass::Recompute || count < 2)
        return 1.0;
    const Seconds all = seconds(key, stage);
    const Seconds moving = m_cost.communication(*work.communication).time;
    // Dispatch and combine of both passes share the compute of both.
    const Seconds window = (computeOf(LayerKind::Moe, OperationKind::Forward, true, stage) +
                            computeOf(LayerKind::Moe, OperationKind::InputGrad, true, stage) +
                            computeOf(LayerKind::Moe, OperationKind::WeightGrad, true, stage)) *
                           0.25;
    const double alone = 1.0 / asDouble(count);
    if (all.value <= 0.0) return 1.0;
    return 1.0 - moving.value / all.value * (1.0 - remaining(moving, window, alone));
}

/// ZeRO 3: shards that wait in host memory come up before each gather, behind the same compute.
Seconds Exposure::parameterUpload(StageId stage) const {
    if (m_plan.zero_stage < 3 || !m_plan.offload.parameters) return {};
    const StageParameters p = stageParameters(m_plan, stage);
    const Layout& l = m_plan.layout;
    const double shard =
        p.dense / asDouble(l.dp * l.cp) + p.expert / asDouble(std::max<std::int64_t>(1, l.edp()));
    return hostCopy(m_plan.cluster.device, activationElementBytes(m_plan.precision) *
                                               (2.0 * shard * asDouble(m_plan.numMicroBatches())));
}

/// Gradients by buckets behind the last backward of the stage, weights behind the first forward;
/// all but the bucket of one layer. ZeRO 3: behind every pass. Both grids share the compute.
double Exposure::dataShare(const OperationKey& key, StageId stage) {
    const bool gather = key.kind == OperationKind::AllGather;
    const bool hidden = gather ? m_overlap.dp_param_gather : m_overlap.dp_grad_reduce;
    const Seconds upload = gather ? parameterUpload(stage) : Seconds();
    if (!hidden && upload.value <= 0.0) return 1.0;
    Seconds all;
    for (LayerKind grid : {LayerKind::Dense, LayerKind::Moe}) {
        OperationKey part = key;
        part.layer = grid;
        all += seconds(part, stage);
    }
    if (all.value <= 0.0) return 1.0;
    const Seconds whole = all + upload;
    if (!hidden) return whole / all;
    std::int64_t layers = 0;
    for (std::int64_t v = 0; v < pipelineShape(m_plan).chunks(); ++v)
        layers += stageLayers(m_plan, stage, ModelChunkId(static_cast<std::int32_t>(v))).size();
    const bool every_pass = m_plan.zero_stage >= 3;
    Seconds window = stagePass(!gather, stage);
    if (every_pass) {
        // Weights are gathered before both passes; the reduction has what that leaves.
        if (gather) window += stagePass(true, stage) * 0.5;
        if (!gather) window = window * (m_overlap.dp_param_gather ? 0.5 : 1.0);
        window = window * asDouble(m_plan.numMicroBatches());
    }
    return remaining(whole, window, 1.0 / asDouble(std::max<std::int64_t>(1, layers)),
                     every_pass ? kFsdpContention : kContention) *
           (whole / all);
}

double Exposure::hiddenShare(const OperationKey& key, StageId stage) {
    switch (key.phase) {
        case Phase::TpComm:
            return tensorShare(key, stage);
        case Phase::CpComm:
            return contextShare(key, stage);
        case Phase::Dispatch:
        case Phase::Combine:
            return expertShare(key, stage);
        case Phase::DpComm:
            return dataShare(key, stage);
        default:
            return 1.0;
    }
}

double Exposure::computeShare(const OperationKey& key, StageId stage) {
    const RunFactors& run = m_run_factors;
    const Seconds all = seconds(key, stage);
    if (all.value <= 0.0) return run.matrix;
    const OperationWork& work = m_work.of(key, stage);
    const auto shareOf = [&](Seconds part) { return std::min(1.0, part / all); };
    const auto memory = [&] {
        return m_cost.memoryBound(work.memory_traffic, work.kernels, m_cost.memoryKind(key.phase))
                   .time *
               work.imbalance;
    };
    if (key.kind == OperationKind::Optimizer) {  // the host's part of it runs at the host's pace
        const double here = m_plan.offload.optimizer ? 1.0 - m_plan.offload.fraction : 1.0;
        return 1.0 + (run.memory - 1.0) * shareOf(memory() * here);
    }
    double out = run.matrix;
    if (run.memory != run.matrix && work.memory_traffic.value > 0.0)
        out += (run.memory - run.matrix) * shareOf(memory());
    if (m_attention_factor != 1.0 && work.attention)
        out += run.matrix * (m_attention_factor - 1.0) *
               shareOf(m_cost.attention(*work.attention).time);
    return out;
}

/// Of one layer of a stage, what it keeps in these terms: under full recompute its input alone.
Bytes Exposure::keptBytes(LayerKind layer, bool attention, StageId stage) const {
    std::int64_t layers = 0, again = 0;
    for (std::int64_t v = 0; v < pipelineShape(m_plan).chunks(); ++v) {
        const std::int64_t size =
            stageLayers(m_plan, stage, ModelChunkId(static_cast<std::int32_t>(v))).size();
        layers += size;
        again += recomputedLayers(m_plan, size);
    }
    const double recomputed = layers > 0 ? asDouble(again) / asDouble(layers) : 0.0;
    const auto sum = [attention](const std::vector<MemoryEntry>& entries) {
        Bytes out;
        for (const MemoryEntry& entry : entries)
            if ((entry.term == MemoryTerm::AttentionActivation) == attention) out += entry.bytes;
        return out;
    };
    return sum(layerCheckpoint(m_plan)) * recomputed +
           sum(layerActivations(m_plan, layer, memoryImbalance(m_plan, stage))) *
               (1.0 - recomputed);
}

/// What of a layer's kept tensors goes to host memory in the forward pass and comes back before the
/// input gradient; the link has the operation's own time for its part.
Seconds Exposure::offloadTime(const OperationKey& key, StageId stage) const {
    const bool attention = key.phase == Phase::Attention;
    const bool moves = key.kind == OperationKind::Forward || key.kind == OperationKind::InputGrad;
    if (!moves || key.shared_expert || !(attention || key.phase == Phase::Expert)) return {};
    const double moved = 1.0 - activationsOnDevice(m_plan, stage);
    if (moved <= 0.0) return {};
    return hostCopy(m_plan.cluster.device, keptBytes(key.layer, attention, stage) * moved);
}

double Exposure::busyShare(const OperationKey& key, StageId stage) {
    return isCommunication(key.phase) ? hiddenShare(key, stage) : computeShare(key, stage);
}

bool Exposure::waitsForHostMemory(const OperationKey& key, StageId stage) {
    if (key.phase == Phase::DpComm)
        return key.kind == OperationKind::AllGather && parameterUpload(stage).value > 0.0;
    const Seconds copy = offloadTime(key, stage);
    return copy.value > 0.0 && copy >= hostTime(m_plan, key) &&
           copy > seconds(key, stage) * busyShare(key, stage);
}

double Exposure::share(const OperationKey& key, StageId stage) {
    const double busy = busyShare(key, stage);
    const Seconds host = std::max(hostTime(m_plan, key), offloadTime(key, stage));
    if (host.value <= 0.0) return busy;
    const Seconds device = seconds(key, stage);
    return device.value > 0.0 ? std::max(busy, host / device) : busy;
}

}  // namespace piper
