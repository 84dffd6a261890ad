// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/cast.h"
#include "core/plan/pipeline_shape.h"
#include "core/resources/exchange.h"
#include "core/resources/routing.h"
#include "core/resources/shard.h"

namespace piper {

namespace {

/// Payload of one dispatch or combine of `routed` rows on each rank (exchange.h). Of a flat
/// exchange (ep - 1) / ep of them leave their rank under any load, since the ranks' shares sum
/// to 1.
void addPayload(const Plan& plan, const OperationKey& key, StageId stage, double routed, double row,
                CommunicationWork& c) {
    const double ep = asDouble(plan.layout.ep), topk = asDouble(plan.model.moe->router_topk);
    const AllToAllAlgorithm algorithm =
        movesTokens(plan) ? AllToAllAlgorithm::Flat : exchangeAlgorithm(plan);
    const ExchangeRows rows = stageExchangeRows(plan, algorithm, stage);
    const double tokens = routed / topk;
    c.flat_bytes = Bytes(routed * (ep - 1.0) / ep * row);
    c.bytes = Bytes(tokens * rows.total() * row);
    c.between_nodes = Bytes(tokens * rows.between_nodes * row);
    if (algorithm == AllToAllAlgorithm::Flat) c.bytes = c.flat_bytes;
    if (algorithm != AllToAllAlgorithm::NodeDedup || key.phase != Phase::Dispatch ||
        key.pass != Pass::Backward)
        return;
    // The gradient of a slot's weight comes back beside the rows, hop by hop like a slot's row.
    const ExchangeRows slots = stageExchangeRows(plan, AllToAllAlgorithm::Node, stage);
    c.bytes += Bytes(tokens * slots.total() * 4.0);
    c.between_nodes += Bytes(tokens * slots.between_nodes * 4.0);
}

/// Dispatch or combine of one chunk; the hottest rank receives its share from all others.
OperationWork routedExchange(const Plan& plan, const OperationKey& key, StageId stage) {
    OperationWork work;
    if (!plan.model.moe) return work;
    const Shard s = shardOf(plan);
    const double chunks = asDouble(std::max<std::int64_t>(1, plan.all_to_all.chunks));
    const double row = asDouble(s.hidden) * s.element;
    const double sent = asDouble(s.routed_rows) / chunks;
    const double received = asDouble(s.routed_rows) / chunks;
    const double tokens = asDouble(s.routed_tokens) / chunks;
    if (movesTokens(plan)) {
        // The exchange reads tokens where they lie and gives each rank one copy: one pass on the
        // expert's side copies it to its experts, or adds their rows up.
        const double copies = tokens * expectedNodes(plan.model.moe->num_experts,
                                                     plan.model.moe->router_topk, plan.layout.ep);
        work.memory_traffic = Bytes((copies + received) * row);
        work.kernels = 1.0;
    } else {
        // Sorting rows on the sender's and on the expert's side: each reads and writes a row; the
        // token's side of a combine also writes the weighted sum.
        work.memory_traffic = Bytes(2.0 * (sent + received) * row);
        if (key.phase == Phase::Combine) work.memory_traffic += Bytes(tokens * row);
        work.kernels = 2.0;
    }
    work.imbalance = 1.0;
    if (plan.layout.ep <= 1) return work;
    CommunicationWork c;
    c.kind = CollectiveKind::AllToAll;
    c.dimension = "ep";
    c.group_size = plan.layout.ep;
    addPayload(plan, key, stage, sent, row, c);
    c.hottest_bytes = c.flat_bytes * stageImbalance(plan, stage);
    c.messages = plan.layout.ep - 1;
    c.combine = key.phase == Phase::Combine;
    work.communication = c;
    return work;
}

OperationWork collective(CollectiveKind kind, const char* dimension, std::int64_t group,
                         Bytes buffer, std::int64_t calls) {
    OperationWork work;
    if (group <= 1 || calls <= 0 || buffer.value <= 0.0) return work;
    CommunicationWork c;
    c.kind = kind;
    c.dimension = dimension;
    c.group_size = group;
    // A ring takes g - 1 steps of a g-th of the buffer, an all-reduce twice that.
    const std::int64_t passes = kind == CollectiveKind::AllReduce ? 2 : 1;
    c.bytes = buffer * (asDouble(passes) * asDouble(group - 1) / asDouble(group));
    c.hottest_bytes = c.bytes;
    c.calls = calls;
    c.messages = calls * (group - 1) * passes;
    work.communication = c;
    return work;
}

/// All tensor-parallel collectives of one layer in one pass. Source: Megatron-LM's tensor and
/// sequence parallelism (arXiv 1909.08053, 2205.05198): one pair after attention and one after the
/// MLP; with sequence parallelism the backward pass gathers the input a second time.
OperationWork tensorParallel(const Plan& plan, const OperationKey& key) {
    const Shard s = shardOf(plan);
    const Layout& l = plan.layout;
    const bool shared = plan.model.moe && plan.model.moe->shared_ffn_hidden_size > 0;
    const bool backward = key.pass == Pass::Backward;
    const std::int64_t blocks = 1 + (key.layer == LayerKind::Dense || shared ? 1 : 0);
    const double stream = asDouble(s.tokens) * asDouble(s.hidden) * s.element;
    // Rows an expert split over etp needs from, and gives back to, the other ranks of its group.
    const bool split_experts = key.layer == LayerKind::Moe && l.etp > 1;
    const double rows =
        split_experts ? asDouble(s.received_rows) * asDouble(s.hidden) * s.element : 0.0;
    switch (key.kind) {
        case OperationKind::AllReduce:
            if (l.sp) return {};
            return collective(CollectiveKind::AllReduce, "tp", l.tp,
                              Bytes(asDouble(blocks) * stream), blocks);
        case OperationKind::AllGather: {
            const std::int64_t calls = l.sp ? blocks * (backward ? 2 : 1) : 0;
            return collective(CollectiveKind::AllGather, "tp", std::max(l.tp, l.etp),
                              Bytes(asDouble(calls) * stream + rows),
                              calls + (split_experts ? 1 : 0));
        }
        case OperationKind::ReduceScatter: {
            const std::int64_t calls = l.sp ? blocks : 0;
            return collective(CollectiveKind::ReduceScatter, "tp", std::max(l.tp, l.etp),
                              Bytes(asDouble(calls) * stream + rows),
                              calls + (split_experts ? 1 : 0));
        }
        default:
            return {};
    }
}

/// Keys and values of the other parts of the sequence: gathered forward and again backward, their
/// gradients scattered back. A ring moves the same bytes in cp - 1 messages.
OperationWork contextParallel(const Plan& plan, const OperationKey& key) {
    const Shard s = shardOf(plan);
    const double local = asDouble(s.tokens) * asDouble(s.kv_heads) * asDouble(s.qk_dim + s.v_dim);
    const Bytes buffer = Bytes(local * asDouble(plan.layout.cp) * s.element);
    if (key.kind == OperationKind::AllGather)
        return collective(CollectiveKind::AllGather, "cp", plan.layout.cp, buffer, 1);
    if (key.kind == OperationKind::ReduceScatter && key.pass == Pass::Backward)
        return collective(CollectiveKind::ReduceScatter, "cp", plan.layout.cp, buffer, 1);
    return {};
}

OperationWork stageBoundary(const Plan& plan) {
    OperationWork work;
    if (plan.layout.pp <= 1) return work;
    const Shard s = shardOf(plan);
    CommunicationWork c;
    c.kind = CollectiveKind::PointToPoint;
    c.dimension = "pp";
    c.group_size = 2;
    c.bytes = Bytes(asDouble(s.local_tokens) * asDouble(s.hidden) * s.element);
    c.hottest_bytes = c.bytes;
    c.messages = 1;
    work.communication = c;
    return work;
}

/// Gradients once a step. ZeRO 0: all-reduce. ZeRO 1, 2: reduce-scatter, then all-gather of the
/// updated weights. ZeRO 3: weights are gathered before forward and before backward of every
/// micro-batch, gradients scattered after each.
OperationWork dataParallel(const Plan& plan, const OperationKey& key, StageId stage) {
    const Layout& l = plan.layout;
    // Frozen weights have no gradients and do not change: ZeRO 3 still gathers them.
    const bool gathers = key.kind == OperationKind::AllGather && plan.zero_stage >= 3;
    if (weightsFrozen(plan) && !gathers) return {};
    const bool expert = key.layer == LayerKind::Moe;
    const StageParameters p = stageParameters(plan, stage);
    const StateBytes b = stateBytes(plan.framework, plan.precision);
    const double elements = expert ? p.expert : p.dense;
    // The other copy of a bidirectional pipeline is another replica.
    const std::int64_t copies = pipelineShape(plan).modelCopies();
    const std::int64_t group = (expert ? l.edp() : l.dp * l.cp) * copies;
    const char* dimension = expert ? "edp" : "dp";
    const std::int64_t rounds = plan.zero_stage >= 3 ? plan.numMicroBatches() : 1;
    if (key.kind == OperationKind::AllReduce && plan.zero_stage == 0)
        return collective(CollectiveKind::AllReduce, dimension, group,
                          Bytes(elements * b.gradients), 1);
    if (key.kind == OperationKind::ReduceScatter && plan.zero_stage >= 1)
        return collective(CollectiveKind::ReduceScatter, dimension, group,
                          Bytes(elements * b.gradients * asDouble(rounds)), rounds);
    if (key.kind == OperationKind::AllGather && plan.zero_stage >= 1) {
        const double element = activationElementBytes(plan.precision).value;
        const std::int64_t calls = plan.zero_stage >= 3 ? 2 * rounds : 1;
        return collective(CollectiveKind::AllGather, dimension, group,
                          Bytes(elements * element * asDouble(calls)), calls);
    }
    return {};
}

}  // namespace

OperationWork communicationWork(const Plan& plan, const OperationKey& key, StageId stage) {
    switch (key.phase) {
        case Phase::Dispatch:
        case Phase::Combine:
            return routedExchange(plan, key, stage);
        case Phase::TpComm:
            return tensorParallel(plan, key);
        case Phase::CpComm:
            return contextParallel(plan, key);
        case Phase::PpComm:
            return stageBoundary(plan);
        case Phase::DpComm:
            return dataParallel(plan, key, stage);
        default:
            return {};
    }
}

}  // namespace piper
