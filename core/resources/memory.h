// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/run/vocabulary.h"

namespace piper {

enum class Lifetime { Persistent, PerMicroBatch, PerOperation };

/// One line of the memory table. Made for the search's inner loop: texts are static, and the
/// formula is written out only when asked for.
struct MemoryEntry {
    MemoryTerm term = MemoryTerm::Other;
    std::string_view name;  ///< "expert weights", "attention output", ...
    Bytes bytes;            ///< of one copy on one rank
    Lifetime lifetime = Lifetime::Persistent;
    std::string_view shape;  ///< "[T k, H]", "parameters"
    double rows = 0.0, width = 1.0, element_bytes = 0.0;
    double layers = 1.0;      ///< layers added up in this line
    double shards = 1.0;      ///< ranks it is divided over (ZeRO)
    bool recomputed = false;  ///< computed again inside the backward pass

    /// With its numbers, for the hover text: "[T, H] = [4096, 2048] x 2 B x 4 layers".
    [[nodiscard]] std::string formula() const;
};

/// All terms of one rank of a stage.
struct StageMemory {
    StageId stage;
    std::vector<MemoryEntry> entries;
    /// Micro-batches kept at the peak; with several model chunks a rank micro-batch chunks.
    std::int64_t in_flight = 1;
    Bytes persistent;       ///< sum of Persistent
    Bytes per_micro_batch;  ///< sum of PerMicroBatch, of one micro-batch of the whole stage
    Bytes transient;        ///< PerOperation entries of the moment of the peak
    /// persistent + micro_batches_at_peak * per_micro_batch + transient: what the allocator hands
    /// out (PyTorch's max_memory_allocated).
    Bytes peak;
    std::string_view peak_moment;  ///< "backward of the experts", "optimizer step"
    double micro_batches_at_peak = 0.0;
    std::array<Bytes, kNumMemoryTerms> at_peak{};  ///< by term
    Bytes device_total;  ///< with allocator slack, communicators and context: what must fit
};

/// Device memory outside the tensors (docs/formulas.md, "Outside the tensors").
struct DeviceReserve {
    std::int64_t communicators = 0;
    Bytes communicator_bytes;  ///< of each
    Bytes context;             ///< driver context and loaded kernels
    double allocator_slack = 0.0;
    [[nodiscard]] Bytes total(Bytes allocated) const;
};
[[nodiscard]] DeviceReserve deviceReserve(const Plan& plan);
/// Process groups of more than one rank that a rank belongs to.
[[nodiscard]] std::int64_t numCommunicators(const Plan& plan);

/// Memory of every stage. in_flight follows the plan's schedule (1F1B: min(M, pp - stage)).
/// Expert rows are those of the rank that gets most under the plan's routing load.
/// Source: docs/formulas.md, "Memory". Errors: none; the plan was validated.
[[nodiscard]] std::vector<StageMemory> stageMemory(const Plan& plan);

/// What one layer keeps of one micro-batch from its forward to its backward: tensor by tensor,
/// what selective recompute drops left out. `imbalance`: rows of this rank's experts over the mean.
[[nodiscard]] std::vector<MemoryEntry> layerActivations(const Plan& plan, LayerKind kind,
                                                        double imbalance = 1.0);
/// What it keeps under full recompute: its input.
[[nodiscard]] std::vector<MemoryEntry> layerCheckpoint(const Plan& plan);
/// Kept of a micro-batch by the embedding (first stage) and by the head (last stage).
[[nodiscard]] std::vector<MemoryEntry> embeddingActivations(const Plan& plan);
[[nodiscard]] std::vector<MemoryEntry> headActivations(const Plan& plan);
/// What comes and goes in the backward pass of one layer (`kind`), or of the head.
[[nodiscard]] std::vector<MemoryEntry> layerTransients(const Plan& plan, LayerKind kind,
                                                       double imbalance = 1.0);
[[nodiscard]] std::vector<MemoryEntry> headTransients(const Plan& plan);
/// FSDP: what is gathered of a layer (and of the next) while its backward pass runs.
[[nodiscard]] std::vector<MemoryEntry> gatheredLayer(const Plan& plan, LayerKind kind);
/// The embedding's gradient of one micro-batch before it is added to the buffer.
[[nodiscard]] std::vector<MemoryEntry> embeddingTransients(const Plan& plan);
/// Share of a stage's activations that is not off-loaded: two layers always stay.
[[nodiscard]] double activationsOnDevice(const Plan& plan, StageId stage);
/// What lives only while the optimizer runs: gradients in fp32 where their buffer is narrower.
[[nodiscard]] std::vector<MemoryEntry> optimizerTransients(const Plan& plan, StageId stage);
/// Weights, gradients, master weights and optimizer state of one rank of a stage, after ZeRO, and
/// what the GEMM library keeps for itself.
[[nodiscard]] std::vector<MemoryEntry> persistentMemory(const Plan& plan, StageId stage);
/// Full recompute: the first so many of `layers` layers of a stage chunk keep only their input.
[[nodiscard]] std::int64_t recomputedLayers(const Plan& plan, std::int64_t layers);
/// inFlightUntilInputGrad of the plan's schedule: what its slot table holds whole
/// (core/plan/pipeline_shape.h).
[[nodiscard]] std::int64_t inFlightMicroBatches(const Plan& plan, StageId stage);
[[nodiscard]] Bytes sumOf(const std::vector<MemoryEntry>& entries);

/// The paper's own closed forms (arXiv 2605.05049 as restated in docs/formulas.md).
enum class PaperReading { Corrected, AsPublished };
struct PaperMemoryInput {
    double hidden_size = 1, num_layers = 1, num_experts = 1, router_topk = 1, num_heads = 1;
    double seq_len = 1, global_batch = 1;  ///< tokens; sequences of all ranks
    double ffn = 1, pp = 1, ep = 1, num_microbatches = 1;
    int expert_matrices = 3;
    bool attention_square = true;  ///< the 4 b H s^2 term (absent with fused attention)
};
/// The paper's symbols of a plan (b is the global batch; one expert width, no GQA or MLA).
[[nodiscard]] PaperMemoryInput paperInput(const Plan& plan);
/// Corrected: attention activations of an EP rank are those of its b / EP sequences, and a stage
/// holds min(M, PP - i) micro-batches. AsPublished: undivided, and PP - i.
/// Equation 3: bytes on stage i under 1F1B.
[[nodiscard]] Bytes paperStageMemory(const PaperMemoryInput& in, int stage, PaperReading reading);
/// Equation 1: unpartitioned.
[[nodiscard]] Bytes paperUnpartitionedMemory(const PaperMemoryInput& in);
/// Equation 2: expert-data parallel over ep.
[[nodiscard]] Bytes paperExpertDataParallelMemory(const PaperMemoryInput& in, PaperReading reading);
/// Equation 4: first stage minus last.
[[nodiscard]] Bytes paperStageSkew(const PaperMemoryInput& in, PaperReading reading);
/// L (4 d^2 + matrices E d f); with the router (X-MoE's own count) another E d a layer.
[[nodiscard]] double paperParameters(const PaperMemoryInput& in, bool with_router = false);
/// X-MoE (arXiv 2508.13337): dispatched, combined and two intermediate tensors of one layer at two
/// bytes: 2 (2 k S H + 2 k S F), for one sequence.
[[nodiscard]] Bytes xmoeLayerActivation(const PaperMemoryInput& in);
/// Forward lower bound of one layer's two all-to-alls: 4 b s k d / (ep * nic).
[[nodiscard]] Seconds paperAllToAllBound(const PaperMemoryInput& in, BytesPerSecond nic);
/// Bytes a GPU sends to move every expert of one layer: 16 * 3 E d f / group.
[[nodiscard]] Bytes expertMigrationBytes(double num_experts, double hidden_size, double ffn,
                                         double group);
/// Share of dispatched rows that duplicate a row to the same node (uniform routing, k distinct).
[[nodiscard]] double dispatchRedundancy(std::int64_t num_experts, std::int64_t router_topk,
                                        std::int64_t nodes);

}  // namespace piper
