// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/plan/plan.h"

namespace piper {

/// A piece of the model as the split sees it: a layer, the embedding or the head, on one rank.
struct SplitPiece {
    Seconds time;       ///< forward and backward of one micro-batch
    Seconds recompute;  ///< its forward once more
    Bytes persistent;   ///< weights, gradients, optimizer state
    Bytes kept;         ///< of one micro-batch, from forward to backward
    Bytes kept_recomputed;
    Bytes transient;  ///< while its backward runs
    bool operator==(const SplitPiece&) const = default;
};

/// Which layers of a stage may be computed again instead of kept.
enum class SplitRecompute {
    None,
    First,  ///< the first n of a stage: what Megatron-LM's method block takes
    Any
};

struct SplitProblem {
    std::vector<SplitPiece> layers;       ///< model order
    SplitPiece embedding, head;           ///< of the first and last stage; never recomputed
    std::vector<std::int64_t> in_flight;  ///< micro-batches each stage holds: [stages]
    Bytes capacity;                       ///< of one rank, for what is counted here
    std::int64_t least_layers = 1;        ///< a stage must have
    SplitRecompute recompute = SplitRecompute::Any;
};

struct StageSplit {
    std::vector<std::int64_t> stage_layers;        ///< [stages]
    std::vector<std::vector<LayerId>> recomputed;  ///< [stages], in order
    std::vector<Seconds> time;                     ///< [stages], of one micro-batch
    std::vector<Bytes> memory;                     ///< [stages], at the peak
    [[nodiscard]] Seconds slowest() const;
};

/// The split whose slowest stage is the fastest of all that fit, by dynamic programming over
/// (stages, layers); of equally slow ones that with the least time of all stages together. Exact:
/// every contiguous split and every choice of recomputed layers is covered; layers with equal
/// pieces are counted, not named, so that the choice of one stage costs the product of their
/// counts. Memory of a stage: persistent + in_flight * kept + the largest transient (of a
/// recomputed layer with its own tensors). Errors: RuleBroken names the least capacity that would
/// do; InvalidInput for fewer layers than least_layers a stage needs.
[[nodiscard]] Result<StageSplit> splitStages(const SplitProblem& problem);

/// The pieces of a plan under its cost model: one layer of either kind, embedding and head (with
/// multi-token prediction), from the same slots and memory table that the step is made of.
/// `capacity` per rank. Errors: Unsupported for several model chunks a rank: their loads add up
/// over pieces that do not touch, which a contiguous split does not decide.
[[nodiscard]] Result<SplitProblem> splitProblem(const Plan& plan, Bytes capacity);

}  // namespace piper
