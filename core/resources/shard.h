// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/inline_list.h"
#include "core/plan/pipeline_shape.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"

namespace piper {

// What tp, cp, ep and etp leave of each shape on one rank. Every closed form takes its sizes from
// here, so that FLOPs, bytes and memory cannot disagree about a shape; the worker asks here what it
// makes again.

/// A weight matrix on one rank: y[rows, out] = x[rows, in] W[in, out].
struct Projection {
    std::int64_t in = 0, out = 0;
};
using Projections = InlineList<Projection, 5>;

struct Shard {
    std::int64_t tokens = 0;         ///< of one micro-batch, seen by tp-split GEMMs
    std::int64_t local_tokens = 0;   ///< of the sequence-parallel regions: norms, residual
    std::int64_t routed_tokens = 0;  ///< this rank routes: tokens / tp
    std::int64_t routed_rows = 0;    ///< rows it dispatches: router_topk * routed_tokens
    std::int64_t received_rows = 0;  ///< rows its experts compute when balanced
    std::int64_t local_experts = 1;
    std::int64_t hidden = 0;
    std::int64_t heads = 0, kv_heads = 0;  ///< on this rank
    std::int64_t qk_dim = 0, v_dim = 0;
    std::int64_t vocab = 0;   ///< rows of the embedding and columns of the head on this rank
    double element = 2.0;     ///< bytes of an activation element
    double gemm_input = 2.0;  ///< bytes of a kept element that only a GEMM reads (fp8: quantized)
};

[[nodiscard]] Shard shardOf(const Plan& plan);

/// The attention projections, in order of use. Source: arXiv 2405.04434 (MLA); GQA's fused QKV.
[[nodiscard]] Projections attentionProjections(const Plan& plan);
/// Up (gate and up as one matrix for SwiGLU) and down of an MLP of width ffn on this rank.
[[nodiscard]] Projections mlpProjections(std::int64_t hidden, std::int64_t ffn, MlpKind kind);
/// Width of the pre-activation: 2 ffn for SwiGLU (gate and up), ffn otherwise.
[[nodiscard]] std::int64_t preActivationWidth(std::int64_t ffn, MlpKind kind);

/// Widths on one rank.
[[nodiscard]] std::int64_t expertWidth(const Plan& plan);
[[nodiscard]] std::int64_t sharedExpertWidth(const Plan& plan);
[[nodiscard]] std::int64_t denseWidth(const Plan& plan);

/// The kind of the multi-token-prediction layers: that of the last layer.
[[nodiscard]] LayerKind lastLayerKind(const ModelSpec& model);

struct DenseAndExpert {
    double dense = 0.0, expert = 0.0;
};
/// Elements of one layer's weights on one rank.
[[nodiscard]] DenseAndExpert layerElements(const Plan& plan, LayerKind kind);

/// Megatron-LM pads the vocabulary to a multiple of 128 tp (--make-vocab-size-divisible-by).
[[nodiscard]] std::int64_t paddedVocabulary(const Plan& plan);

/// Bytes of one element in the plan's GEMM format, block scales counted.
[[nodiscard]] double gemmElementBytes(Precision precision);

/// A framework on a GPU that adds weight gradients inside the GEMM (Megatron-LM with Transformer
/// Engine): it keeps one placeholder for each shape of a weight.
[[nodiscard]] bool fusesGradientAccumulation(const Plan& plan);

/// The plan's selective recompute makes this module again.
[[nodiscard]] bool recomputes(const Plan& plan, const char* module);

/// Nothing but adapters trains, which are left out: no gradients of weights, no optimizer state.
[[nodiscard]] bool weightsFrozen(const Plan& plan);

/// Collectives and messages of a key (communication.cpp); empty work when the plan has none.
[[nodiscard]] OperationWork communicationWork(const Plan& plan, const OperationKey& key,
                                              StageId stage);
/// Mean imbalance of the MoE layers of a stage: what time waits for.
[[nodiscard]] double stageImbalance(const Plan& plan, StageId stage);

}  // namespace piper
