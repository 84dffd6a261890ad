// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/enum_text.h"

namespace piper {

/// What time goes to. The MLP of a dense layer counts as `expert`.
enum class Phase : std::uint8_t {
    Embedding,
    Attention,
    Router,
    Dispatch,
    Expert,
    Combine,
    HeadLoss,
    TpComm,
    CpComm,
    PpComm,
    DpComm,
    Optimizer,
    Idle
};
inline constexpr std::size_t kNumPhases = 13;

enum class PipelinePhase : std::uint8_t { Warmup, Steady, Cooldown };

/// The full set of operation kinds. Forward, InputGrad, WeightGrad and Recompute exist for each
/// compute phase; Dispatch and Combine carry a chunk index, and a Pass.
enum class OperationKind : std::uint8_t {
    Forward,
    InputGrad,
    WeightGrad,
    Recompute,
    Send,
    Receive,
    Dispatch,
    Combine,
    AllReduce,
    AllGather,
    ReduceScatter,
    Optimizer
};

inline constexpr std::size_t kNumOperationKinds = 12;

/// Which pass an operation belongs to. The gradient of a combine is a Combine with pass Backward:
/// its rows travel from the token's rank to the experts; that of a dispatch travels back.
enum class Pass : std::uint8_t { Forward, Backward, Recompute };

/// Lanes of a rank. Device streams of a trace are lanes `Stream` with an index of their own.
enum class Lane : std::uint8_t { Compute, Ep, TpCp, Pp, Dp, Host, Stream };

/// What kind of record an event is: an operation of a plan, or a row of a trace of others.
enum class EventCategory : std::uint8_t {
    Operation,  ///< of our own schedule: phase, kind, layer say which
    Kernel,
    Memcpy,
    Memset,
    Synchronization,   ///< waiting of a stream, an event or the device: never compute
    Runtime,           ///< call of the CUDA, HIP or driver interface
    HostOperation,     ///< framework operator or Python function
    Annotation,        ///< range named by the user (NVTX, record_function)
    DeviceAnnotation,  ///< the same, projected on a stream
    Instant,
    FlowStart,  ///< an arrow leaves here; correlation is its id
    FlowStep,
    FlowEnd,
    Counter,   ///< a value at a moment
    Metadata,  ///< a name of a process or thread
    Other
};

/// True for what occupies a device: kernels, copies and sets.
[[nodiscard]] bool isDeviceWork(EventCategory category);
/// True for records without a length of their own: instants, flow ends, counters, metadata.
[[nodiscard]] bool isMark(EventCategory category);

/// What memory is held for; used by the model's table and by the worker's tagged allocator.
enum class MemoryTerm : std::uint8_t {
    Weights,
    Gradients,
    MasterWeights,
    OptimizerState,
    EmbeddingActivation,  ///< output of the embedding, input of a stage
    AttentionActivation,  ///< norms, projections, attention output, log-sum-exp
    RouterActivation,     ///< router input, probabilities, routing tables
    DispatchedRows,       ///< permuted and received rows
    ExpertIntermediate,   ///< gate, up and activation of experts or of a dense MLP
    CombineActivation,    ///< expert outputs kept for the weighted sum
    HeadActivation,       ///< logits, log-probabilities, final norm
    StageBoundary,        ///< received and sent hidden states of the pipeline
    GradientActivation,   ///< gradients of activations in flight
    CommunicationBuffer,  ///< send and receive staging
    Workspace,            ///< GEMM scratch, packed weights
    Other
};
inline constexpr std::size_t kNumMemoryTerms = 16;

/// True for the terms that live from start to end (weights, gradients, optimizer), false for
/// those that come and go with micro-batches.
[[nodiscard]] bool isPersistent(MemoryTerm term);
/// True for dispatch, combine and the *_comm phases.
[[nodiscard]] bool isCommunication(Phase phase);

template <>
std::span<const EnumName<Phase>> enumNames<Phase>();
template <>
std::span<const EnumName<PipelinePhase>> enumNames<PipelinePhase>();
template <>
std::span<const EnumName<OperationKind>> enumNames<OperationKind>();
template <>
std::span<const EnumName<Pass>> enumNames<Pass>();
template <>
std::span<const EnumName<Lane>> enumNames<Lane>();
template <>
std::span<const EnumName<EventCategory>> enumNames<EventCategory>();
template <>
std::span<const EnumName<MemoryTerm>> enumNames<MemoryTerm>();

}  // namespace piper
