// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/result.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/shapes.h"

namespace piper {

/// Causal attention in tiles of kTile queries by kTile keys, as FlashAttention-2 does (Dao,
/// arXiv 2307.08691): forward keeps a running maximum and sum per query, backward rebuilds the
/// probabilities of a tile from the log-sum-exp. Tiles wholly outside the causal band are skipped.
class Attention {
public:
    static constexpr std::int64_t kTile = 64;

    /// Scratch (two tiles and three rows) comes from the allocator as Workspace.
    [[nodiscard]] static Result<Attention> make(TaggedAllocator& allocator, Gemm& gemm,
                                                const Loops& loops);

    Status forward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                   Matrix o, Vector lse);
    Status backward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                    ConstMatrix o, ConstVector lse, ConstMatrix d_o, Matrix dq, Matrix dk,
                    Matrix dv);

private:
    struct Tile;
    struct Head;
    Attention(Gemm& gemm, const Loops& loops, Buffer scratch);
    Status product(const GemmCall& call);
    Status forwardHead(const Head& head, float* o, float* lse);
    Status forwardTile(const Head& head, const Tile& tile, float* o);
    void softmaxTile(const Head& head, const Tile& tile, float* o);
    void finishRows(const Head& head, std::int64_t first, std::int64_t rows, float* o, float* lse);
    Status backwardHead(const Head& head, const float* o, const float* d_o, const float* lse,
                        float* dq, float* dk, float* dv);
    Status backwardTile(const Head& head, const Tile& tile, const float* d_o, const float* lse,
                        float* dq, float* dk, float* dv);
    void gradTile(const Head& head, const Tile& tile, const float* lse);

    Gemm* m_gemm;
    const Loops* m_loops;
    Buffer m_scratch;
    Buffer m_delta;   ///< [seq_len] of backward: o . d_o per query
    float* m_scores;  ///< [kTile, kTile]
    float* m_grads;   ///< [kTile, kTile]
    float* m_max;     ///< [kTile] running maximum of the query tile
    float* m_sum;     ///< [kTile] running sum
    TaggedAllocator* m_allocator;
};

}  // namespace piper
