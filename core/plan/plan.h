// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/model/model.h"

namespace piper {

enum class ScheduleKind { GPipe, OneF1B, InterleavedOneF1B, ZbH1, ZbH2, ZbV, DualPipe, DualPipeV };
enum class Framework { Plain, Megatron, DeepSpeed, Torchtitan };
/// How rows cross nodes. Flat: straight to the receiver. Node: in one message for each other node,
/// handed on there. Rail: over the sender's neighbour on the receiver's rail (NCCL's PXN).
/// NodePair: in one message for each pair of nodes. NodeDedup: a token crosses to a node once and
/// one weighted sum of its rows there comes back (docs/alltoall.md). Vendor: MPI_Alltoallv.
enum class AllToAllAlgorithm { Auto, Flat, Node, Rail, NodePair, NodeDedup, Vendor };
/// Who moves dispatch and combine: auto is the device's own collectives (NCCL, RCCL, MPI);
/// DeepEP and HybridEP send a token once to a node and spread it there.
enum class AllToAllLibrary { Auto, Nccl, DeepEp, HybridEp };

/// Parallel degrees. Dense grid: tp x cp x dp x pp; expert grid: etp x ep x edp x pp.
struct Layout {
    std::int64_t tp = 1;
    bool sp = false;  ///< sequence parallel over the tp group
    std::int64_t cp = 1;
    std::int64_t pp = 1;
    std::int64_t vpp = 1;  ///< model chunks a rank
    std::int64_t ep = 1;
    std::int64_t etp = 1;
    std::int64_t dp = 1;

    [[nodiscard]] std::int64_t world() const { return tp * cp * pp * dp; }
    [[nodiscard]] std::int64_t edp() const { return world() / (pp * ep * etp); }
    bool operator==(const Layout&) const = default;
};

enum class RecomputeGranularity { None, Selective, Full };
/// Full: Block keeps the input of each of the first num_layers layers of a stage chunk; Uniform
/// keeps one input for every num_layers layers.
enum class RecomputeMethod { Block, Uniform };

/// What is computed again in the backward pass instead of being kept.
struct Recompute {
    RecomputeGranularity granularity = RecomputeGranularity::None;
    std::int64_t num_layers = 0;  ///< Block: layers a stage chunk (0 = all); Uniform: layers a
                                  ///< kept input (0 = 1)
    /// Selective, Megatron-LM's names: core_attn, moe_act, layernorm, moe, mla_up_proj, mlp,
    /// shared_experts; and op, torchtitan's choice by operation.
    std::vector<std::string> modules;
    RecomputeMethod method = RecomputeMethod::Block;
    bool operator==(const Recompute&) const = default;
};

struct Offload {
    bool optimizer = false;
    double fraction = 1.0;     ///< of the optimizer state kept in host memory
    double activations = 0.0;  ///< fraction of what layers keep that waits in host memory
    bool parameters = false;   ///< ZeRO 3: shards of the weights in host memory
    bool operator==(const Offload&) const = default;
};

enum class OptimizerKind { AdamW, Adafactor, Muon, Sgd };
/// How one part of the training state is stored; Default: as the framework does (StateBytes).
enum class StateFormat { Default, None, Fp32, Bf16, Fp16, Fp8 };

/// The optimizer and the precision of what it keeps. Adafactor: a row and a column for each
/// matrix; Muon: one moment for matrices; Sgd: one momentum.
struct OptimizerChoice {
    OptimizerKind kind = OptimizerKind::AdamW;
    StateFormat weights = StateFormat::Default;
    StateFormat gradients = StateFormat::Default;  ///< the buffer that micro-batches add to
    StateFormat master_weights = StateFormat::Default;
    StateFormat first_moment = StateFormat::Default;
    StateFormat second_moment = StateFormat::Default;
    /// Steps before the norm of all ranks' gradients is known and is amended afterwards (arXiv
    /// 2401.10241, section 4): no rank waits at the end of a step for the others.
    bool post_validation = false;
    bool operator==(const OptimizerChoice&) const = default;
};

/// Device memory outside the tensors; absent: the framework's and the device's default
/// (docs/formulas.md, "Outside the tensors").
struct MemoryReserve {
    std::optional<double> communication_buffer_bytes;  ///< of each communicator
    std::optional<double> workspace_bytes;             ///< GEMM scratch, inside the allocator
    std::optional<double> context_bytes;               ///< driver context and loaded kernels
    std::optional<double> allocator_slack;             ///< reserved over allocated, minus 1
    bool operator==(const MemoryReserve&) const = default;
};

enum class RoutingLoadKind { Uniform, Zipf, Histogram };

/// Rows over those of an even load, of the rank that has most of them.
struct RowPeak {
    double held = 1.0;      ///< kept for their backward pass at once, over all layers of a stage
    double exchange = 1.0;  ///< of one layer's exchange of one micro-batch
    bool operator==(const RowPeak&) const = default;
};

/// Share of the routed rows each expert gets.
struct RoutingLoad {
    RoutingLoadKind kind = RoutingLoadKind::Uniform;
    double zipf_exponent = 0.0;
    /// Histogram: [layers or 1][num_experts], any positive scale.
    std::vector<std::vector<double>> histogram;
    /// Of a measured run: its largest loads by stage, for memory; time follows the histogram. Used
    /// where there is one a stage.
    std::vector<RowPeak> peaks;
    bool operator==(const RoutingLoad&) const = default;
};

struct AllToAllChoice {
    AllToAllAlgorithm algorithm = AllToAllAlgorithm::Auto;
    AllToAllLibrary library = AllToAllLibrary::Auto;
    std::int64_t chunks = 1;      ///< token slices whose exchange overlaps expert compute
    std::int64_t node_limit = 0;  ///< nodes a token may reach, 0 without limit
    bool operator==(const AllToAllChoice&) const = default;
};

/// Communication that the framework runs behind compute.
struct Overlap {
    bool tp = false;  ///< exchanges in slices with the GEMMs they feed (userbuffers, async TP)
    bool cp = false;  ///< keys and values on a ring behind attention
    bool ep = false;  ///< dispatch and combine behind another micro-batch's compute
    bool pp = true;   ///< sends and receives do not hold up compute
    bool dp_grad_reduce = false;   ///< by buckets behind the last backward passes
    bool dp_param_gather = false;  ///< by buckets behind the first forward passes
    bool operator==(const Overlap&) const = default;
};

/// Everything a run is decided by. Model and worker read the same Plan.
struct Plan {
    ModelSpec model;
    ClusterSpec cluster;
    Layout layout;
    Framework framework = Framework::Plain;
    std::string rank_order = "tp-cp-ep-dp-pp";  ///< fastest first
    std::vector<std::int64_t> stage_layers;     ///< [pp * vpp]; empty: even split
    ScheduleKind schedule = ScheduleKind::OneF1B;
    std::int64_t micro_batch_size = 1;   ///< sequences
    std::int64_t global_batch_size = 1;  ///< sequences of all replicas and micro-batches
    std::int64_t seq_len = 1;            ///< tokens
    Recompute recompute;
    int zero_stage = 0;
    bool reshard_after_forward = true;  ///< zero_stage 3: gather again for the backward pass
    Offload offload;
    OptimizerChoice optimizer;
    Precision precision = Precision::Bf16;
    bool fp8_parameters = false;       ///< fp8 precisions: weights live in fp8 alone
    bool fused_attention = true;       ///< false: the [seq_len, seq_len] scores are kept
    bool fused_cross_entropy = false;  ///< no second copy of the logits
    bool cuda_graphs = false;          ///< attention, router and dense MLP are replayed as graphs
    MemoryReserve memory;
    std::optional<double> capacity_factor;  ///< nullopt: dropless
    RoutingLoad routing_load;
    std::vector<std::int64_t> expert_placement;  ///< [num_experts] -> ep rank; empty: in order
    AllToAllChoice all_to_all;
    std::optional<Overlap> overlap;  ///< nullopt: defaultOverlap(framework, schedule, zero_stage)

    /// Micro-batches of one step on one replica: global_batch_size / (micro_batch_size * dp).
    [[nodiscard]] std::int64_t numMicroBatches() const {
        return global_batch_size / (micro_batch_size * layout.dp);
    }
    /// Tokens of one micro-batch on one rank of the dense grid, before tp.
    [[nodiscard]] std::int64_t tokensPerMicroBatch() const {
        return micro_batch_size * seq_len / layout.cp;
    }
};

/// What a framework hides without being asked (core/plan/overlap.cpp names the options).
[[nodiscard]] Overlap defaultOverlap(Framework framework, ScheduleKind schedule, int zero_stage);
[[nodiscard]] Overlap effectiveOverlap(const Plan& plan);

/// num_layers over `chunks` in model order as evenly as whole layers go; what is left over goes to
/// the outer chunks first: 46 over 4 is 12, 11, 11, 12.
[[nodiscard]] std::vector<std::int64_t> balancedStageLayers(std::int64_t num_layers,
                                                            std::int64_t chunks);
/// Layers of every stage chunk [pp * vpp], in model order: chunk v of stage s is entry v * pp + s.
[[nodiscard]] std::vector<std::int64_t> effectiveStageLayers(const Plan& plan);
/// First and one past the last layer of that stage and chunk.
struct LayerRange {
    std::int64_t begin = 0, end = 0;
    [[nodiscard]] std::int64_t size() const { return end - begin; }
};
[[nodiscard]] LayerRange stageLayers(const Plan& plan, StageId stage, ModelChunkId chunk);

/// One broken rule: a stable name, the sentence with its numbers, legal neighbours.
struct Violation {
    std::string rule;
    std::string message;
    std::vector<std::string> fix;
};

/// Every broken rule at once; empty when the framework can launch the plan. Rules of a framework
/// are those of its recent releases (core/plan/rules_*.cpp name each).
[[nodiscard]] std::vector<Violation> validatePlan(const Plan& plan);
/// pp * lcm(tp * cp, ep * etp): the smallest world of these degrees.
[[nodiscard]] std::int64_t minimumWorld(const Layout& layout);

/// Where an effective value came from: "given", "default", "world 64 / (tp cp pp) 16".
struct EffectiveValue {
    std::string key;
    std::int64_t value = 0;
    std::string origin;
};

/// Parses "tp=8 pp=8 ep=8 etp=1" and completes it: degrees not given are 1, etp is the framework's
/// default (Megatron: tp), dp follows from the world. With a world of 0 it is the smallest these
/// degrees allow. A world that does not divide leaves dp at the quotient: validatePlan and
/// checkJson say what is wrong.
/// Errors: InvalidInput for an unknown key or a value below 1.
struct CompletedLayout {
    Layout layout;
    std::vector<EffectiveValue> effective;
};
[[nodiscard]] Result<CompletedLayout> completeLayout(std::string_view text, std::int64_t world,
                                                     Framework framework);

/// A rank's place in both grids.
struct RankCoordinates {
    std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;  ///< dense grid
    std::int64_t etp = 0, ep = 0, edp = 0;        ///< expert grid (pp shared)
};

/// The tokens of a rank order, fastest first. Errors: InvalidInput names the token that is unknown,
/// missing or there twice.
[[nodiscard]] Result<std::vector<std::string>> parseRankOrder(std::string_view rank_order);

/// Both process grids of a layout under its rank order. The expert grid takes the same order with
/// tp -> etp, dp -> edp and without cp, as Megatron-LM's parallel_state does.
/// The layout and the order were validated.
class ProcessGrid {
public:
    explicit ProcessGrid(const Layout& layout, std::string_view rank_order = "tp-cp-ep-dp-pp");
    [[nodiscard]] RankCoordinates coordinates(RankId rank) const;
    /// Ranks that differ from `rank` only in that dimension, in order:
    /// "tp", "cp", "dp", "pp", "ep", "etp", "edp".
    [[nodiscard]] std::vector<RankId> group(RankId rank, std::string_view dimension) const;
    [[nodiscard]] std::int64_t world() const { return m_layout.world(); }

private:
    Layout m_layout;
    std::vector<RankCoordinates> m_coordinates;  ///< [world]
};

/// A Megatron-LM pipeline layout such as "Ett|(tt|)*6mL": E embedding, t layer, m multi-token
/// prediction layer, L loss; `x*N` repeats, `|` ends a chunk, commas are for the eye.
struct PipelineChunk {
    bool embedding = false;
    std::int64_t layers = 0;
    std::int64_t mtp_layers = 0;
    bool loss = false;
};
/// Chunks in model order. Errors: InvalidInput names the place and what was expected.
[[nodiscard]] Result<std::vector<PipelineChunk>> parsePipelineLayout(std::string_view text);
/// The inverse, repeats folded.
[[nodiscard]] std::string pipelineLayoutText(const std::vector<std::int64_t>& stage_layers,
                                             std::int64_t mtp_layers);

/// Replaces a `model` or `cluster` given as a path by the document it names; core opens no files.
/// Errors: those of `read_file` and of the document's JSON, with the key.
[[nodiscard]] Result<Json> resolvePlanReferences(
    Json plan, const std::function<Result<std::string>(const std::string& path)>& read_file);

/// The plan file. Errors: InvalidInput with the key's path. `model` and `cluster` are objects
/// inside it (paths are resolved by the caller with resolvePlanReferences before reading).
[[nodiscard]] Result<Plan> readPlan(const Json& json, std::string_view where);
[[nodiscard]] Result<Plan> readPlanText(std::string_view text, std::string_view where);
[[nodiscard]] Json writePlan(const Plan& plan);

}  // namespace piper
