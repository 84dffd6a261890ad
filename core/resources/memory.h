// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/run/vocabulary.h"

namespace piper {

enum class Lifetime { Persistent, PerMicroBatch, PerOperation };

/// One line of the memory table.
struct MemoryEntry {
    MemoryTerm term = MemoryTerm::Other;
    std::string name;  ///< "expert weights", "attention output", ...
    Bytes bytes;       ///< of one copy on one rank
    Lifetime lifetime = Lifetime::Persistent;
    std::string formula;  ///< with its numbers, for the hover text
};

/// All terms of one rank of a stage.
struct StageMemory {
    StageId stage;
    std::vector<MemoryEntry> entries;
    std::int64_t in_flight = 1;  ///< micro-batches (times model chunks) kept at the peak
    Bytes persistent;            ///< sum of Persistent
    Bytes per_micro_batch;       ///< sum of PerMicroBatch, of one micro-batch of the whole stage
    Bytes transient;             ///< largest PerOperation moment
    Bytes peak;                  ///< persistent + in_flight * per_micro_batch + transient
    std::array<Bytes, kNumMemoryTerms> at_peak{};  ///< by term
};

/// Memory of every stage. in_flight follows the plan's schedule (1F1B: min(M, pp - stage)).
[[nodiscard]] std::vector<StageMemory> stageMemory(const Plan& plan);

/// The paper's own closed forms (arXiv 2605.05049 as restated in docs/formulas.md).
enum class PaperReading { Corrected, AsPublished };
struct PaperMemoryInput {
    double hidden_size, num_layers, num_experts, router_topk, num_heads, seq_len, global_batch;
    double ffn, pp, ep, num_microbatches;
    int expert_matrices = 3;
    bool attention_square = true;  ///< the 4 b H s^2 term (absent with fused attention)
};
/// Equation 3: bytes on stage i under 1F1B.
[[nodiscard]] Bytes paperStageMemory(const PaperMemoryInput& in, int stage, PaperReading reading);
/// Equation 1: unpartitioned.
[[nodiscard]] Bytes paperUnpartitionedMemory(const PaperMemoryInput& in);
/// Equation 2: expert-data parallel over ep.
[[nodiscard]] Bytes paperExpertDataParallelMemory(const PaperMemoryInput& in, PaperReading reading);
/// Equation 4: first stage minus last.
[[nodiscard]] Bytes paperStageSkew(const PaperMemoryInput& in, PaperReading reading);
/// L (4 d^2 + matrices E d f).
[[nodiscard]] double paperParameters(const PaperMemoryInput& in);
/// Forward lower bound of one layer's two all-to-alls: 4 b s k d / (ep * nic).
[[nodiscard]] Seconds paperAllToAllBound(const PaperMemoryInput& in, BytesPerSecond nic);
/// Bytes a GPU sends to move every expert of one layer: 16 * 3 E d f / group.
[[nodiscard]] Bytes expertMigrationBytes(double num_experts, double hidden_size, double ffn,
                                         double group);
/// Share of dispatched rows that duplicate a row to the same node (uniform routing, k distinct).
[[nodiscard]] double dispatchRedundancy(std::int64_t num_experts, std::int64_t router_topk,
                                        std::int64_t nodes);

}  // namespace piper
