// SPDX-License-Identifier: Apache-2.0
#include "core/run/vocabulary.h"

#include "core/run/run.h"

namespace piper {

bool isPersistent(MemoryTerm term) {
    switch (term) {
        case MemoryTerm::Weights:
        case MemoryTerm::Gradients:
        case MemoryTerm::MasterWeights:
        case MemoryTerm::OptimizerState:
            return true;
        default:
            return false;
    }
}

bool isCommunication(Phase phase) {
    switch (phase) {
        case Phase::Dispatch:
        case Phase::Combine:
        case Phase::TpComm:
        case Phase::CpComm:
        case Phase::PpComm:
        case Phase::DpComm:
            return true;
        default:
            return false;
    }
}

bool isDeviceWork(EventCategory category) {
    return category == EventCategory::Kernel || category == EventCategory::Memcpy ||
           category == EventCategory::Memset;
}

bool isMark(EventCategory category) {
    switch (category) {
        case EventCategory::Instant:
        case EventCategory::FlowStart:
        case EventCategory::FlowStep:
        case EventCategory::FlowEnd:
        case EventCategory::Counter:
        case EventCategory::Metadata:
            return true;
        default:
            return false;
    }
}

template <>
std::span<const EnumName<Phase>> enumNames<Phase>() {
    static constexpr EnumName<Phase> rows[] = {{Phase::Embedding, "embedding"},
                                               {Phase::Attention, "attention"},
                                               {Phase::Router, "router"},
                                               {Phase::Dispatch, "dispatch"},
                                               {Phase::Expert, "expert"},
                                               {Phase::Combine, "combine"},
                                               {Phase::HeadLoss, "head_loss"},
                                               {Phase::TpComm, "tp_comm"},
                                               {Phase::CpComm, "cp_comm"},
                                               {Phase::PpComm, "pp_comm"},
                                               {Phase::DpComm, "dp_comm"},
                                               {Phase::Optimizer, "optimizer"},
                                               {Phase::Idle, "idle"}};
    static_assert(std::size(rows) == kNumPhases);
    return rows;
}

template <>
std::span<const EnumName<PipelinePhase>> enumNames<PipelinePhase>() {
    static constexpr EnumName<PipelinePhase> rows[] = {{PipelinePhase::Warmup, "warmup"},
                                                       {PipelinePhase::Steady, "steady"},
                                                       {PipelinePhase::Cooldown, "cooldown"}};
    return rows;
}

template <>
std::span<const EnumName<OperationKind>> enumNames<OperationKind>() {
    static constexpr EnumName<OperationKind> rows[] = {
        {OperationKind::Forward, "forward"},
        {OperationKind::InputGrad, "input_grad"},
        {OperationKind::WeightGrad, "weight_grad"},
        {OperationKind::Recompute, "recompute"},
        {OperationKind::Send, "send"},
        {OperationKind::Receive, "receive"},
        {OperationKind::Dispatch, "dispatch"},
        {OperationKind::Combine, "combine"},
        {OperationKind::AllReduce, "all_reduce"},
        {OperationKind::AllGather, "all_gather"},
        {OperationKind::ReduceScatter, "reduce_scatter"},
        {OperationKind::Optimizer, "optimizer"}};
    return rows;
}

template <>
std::span<const EnumName<Pass>> enumNames<Pass>() {
    static constexpr EnumName<Pass> rows[] = {
        {Pass::Forward, "forward"}, {Pass::Backward, "backward"}, {Pass::Recompute, "recompute"}};
    return rows;
}

template <>
std::span<const EnumName<Lane>> enumNames<Lane>() {
    static constexpr EnumName<Lane> rows[] = {
        {Lane::Compute, "compute"}, {Lane::Ep, "ep"},     {Lane::TpCp, "tp_cp"},   {Lane::Pp, "pp"},
        {Lane::Dp, "dp"},           {Lane::Host, "host"}, {Lane::Stream, "stream"}};
    return rows;
}

template <>
std::span<const EnumName<EventCategory>> enumNames<EventCategory>() {
    static constexpr EnumName<EventCategory> rows[] = {
        {EventCategory::Operation, "operation"},
        {EventCategory::Kernel, "kernel"},
        {EventCategory::Memcpy, "memcpy"},
        {EventCategory::Memset, "memset"},
        {EventCategory::Synchronization, "synchronization"},
        {EventCategory::Runtime, "runtime"},
        {EventCategory::HostOperation, "host_operation"},
        {EventCategory::Annotation, "annotation"},
        {EventCategory::DeviceAnnotation, "device_annotation"},
        {EventCategory::Instant, "instant"},
        {EventCategory::FlowStart, "flow_start"},
        {EventCategory::FlowStep, "flow_step"},
        {EventCategory::FlowEnd, "flow_end"},
        {EventCategory::Counter, "counter"},
        {EventCategory::Metadata, "metadata"},
        {EventCategory::Other, "other"}};
    return rows;
}

template <>
std::span<const EnumName<MemoryTerm>> enumNames<MemoryTerm>() {
    static constexpr EnumName<MemoryTerm> rows[] = {
        {MemoryTerm::Weights, "weights"},
        {MemoryTerm::Gradients, "gradients"},
        {MemoryTerm::MasterWeights, "master_weights"},
        {MemoryTerm::OptimizerState, "optimizer_state"},
        {MemoryTerm::EmbeddingActivation, "embedding_activation"},
        {MemoryTerm::AttentionActivation, "attention_activation"},
        {MemoryTerm::RouterActivation, "router_activation"},
        {MemoryTerm::DispatchedRows, "dispatched_rows"},
        {MemoryTerm::ExpertIntermediate, "expert_intermediate"},
        {MemoryTerm::CombineActivation, "combine_activation"},
        {MemoryTerm::HeadActivation, "head_activation"},
        {MemoryTerm::StageBoundary, "stage_boundary"},
        {MemoryTerm::GradientActivation, "gradient_activation"},
        {MemoryTerm::CommunicationBuffer, "communication_buffer"},
        {MemoryTerm::Workspace, "workspace"},
        {MemoryTerm::Other, "other"}};
    static_assert(std::size(rows) == kNumMemoryTerms);
    return rows;
}

template <>
std::span<const EnumName<RunKind>> enumNames<RunKind>() {
    static constexpr EnumName<RunKind> rows[] = {{RunKind::Modelled, "modelled"},
                                                 {RunKind::Measured, "measured"}};
    return rows;
}

template <>
std::span<const EnumName<RunOutcome>> enumNames<RunOutcome>() {
    static constexpr EnumName<RunOutcome> rows[] = {{RunOutcome::Running, "running"},
                                                    {RunOutcome::Finished, "finished"},
                                                    {RunOutcome::Failed, "failed"},
                                                    {RunOutcome::Cancelled, "cancelled"}};
    return rows;
}

}  // namespace piper
