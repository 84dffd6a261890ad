// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_builder.h"

#include <algorithm>

namespace piper {

Lane laneOf(const OperationKey& key) {
    switch (key.phase) {
        case Phase::Dispatch:
        case Phase::Combine:
            return Lane::Ep;
        case Phase::TpComm:
        case Phase::CpComm:
            return Lane::TpCp;
        case Phase::PpComm:
            return Lane::Pp;
        case Phase::DpComm:
            return Lane::Dp;
        default:
            return Lane::Compute;
    }
}

bool isStageWork(const Plan& plan, const OperationKey& key) {
    return key.phase == Phase::DpComm || key.phase == Phase::Optimizer ||
           plan.routing_load.kind != RoutingLoadKind::Uniform;
}

bool SlotBuilder::hasWork(const OperationKey& key) const {
    const OperationWork& work = m_work.of(key, m_stage);
    return work.communication || work.attention || !work.gemms.empty() ||
           work.memory_traffic.value > 0.0;
}

const OperationWork& WorkTable::of(const OperationKey& key, StageId stage) {
    const auto [at, added] =
        m_known.try_emplace(packed(key, isStageWork(m_plan, key) ? stage.value : -1));
    if (added) at->second = operationWork(m_plan, key, stage);
    return at->second;
}

std::int32_t SlotBuilder::add(const OperationKey& key, const Ids& after, std::int64_t chunk) {
    Operation op;
    op.id = static_cast<std::int32_t>(m_operations.size());
    op.key = key;
    op.lane = laneOf(key);
    op.layer = m_layer;
    op.chunk = ChunkId(static_cast<std::int32_t>(chunk));
    op.model_chunk = m_chunk;
    for (std::int32_t id : after) {
        const bool implied = id >= 0 && m_operations[static_cast<std::size_t>(id)].lane == op.lane;
        if (!implied && std::ranges::find(op.dependencies, id) == op.dependencies.end())
            op.dependencies.push_back(id);
    }
    const OperationWork& work = m_work.of(key, m_stage);
    op.flops = work.flops();
    if (work.communication) op.bytes = work.communication->bytes;
    m_operations.push_back(std::move(op));
    return m_operations.back().id;
}

std::int32_t SlotBuilder::receive(Pass pass, StageId from, ModelChunkId to_chunk) {
    const std::int32_t id = add({OperationKind::Receive, Phase::PpComm, pass});
    address(from, to_chunk);
    return id;
}

void SlotBuilder::address(StageId peer, ModelChunkId to_chunk) {
    Operation& op = m_operations.back();
    op.peer = peer;
    op.model_chunk = to_chunk;
    if (peer != m_stage) return;
    op.lane = Lane::Host;
    op.bytes = Bytes();
}

void SlotBuilder::send(Pass pass, StageId to, ModelChunkId to_chunk, const Ids& after) {
    add({OperationKind::Send, Phase::PpComm, pass}, after);
    address(to, to_chunk);
}

SlotTemplate SlotBuilder::take(const LayerRange& layers) {
    SlotTemplate out;
    out.memory = slotMemory(m_work, m_stage, m_chunk, layers, m_operations);
    out.operations = std::move(m_operations);
    out.blocking_messages = !effectiveOverlap(m_work.plan()).pp;
    m_operations.clear();
    return out;
}

}  // namespace piper
