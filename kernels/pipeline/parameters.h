// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/initial_weights.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Which replicas hold the same parameters: dp for dense ones, edp for experts.
enum class ParameterGroup : std::uint8_t { Dense, Expert };
inline constexpr std::size_t kNumParameterGroups = 2;

/// What the optimizer keeps of a parameter; Weight, FirstMoment and SecondMoment make its state.
enum class ParameterCopy : std::uint8_t { Weight, Gradient, FirstMoment, SecondMoment };
inline constexpr std::size_t kNumParameterCopies = 4;

/// A norm over rows; bias only with LayerNorm.
struct NormTensors {
    Vector weight, bias;
};

/// An MLP, or `groups` of them one below the other. up: [groups * width, hidden], width being
/// 2 ffn for SwiGLU (gate rows, then up rows) and ffn otherwise; down: [groups * hidden, ffn].
struct MlpTensors {
    Matrix up, down;
    Vector up_bias, down_bias;  ///< empty without
    std::int64_t ffn = 0;
};

/// Multi-head latent attention's way to query, key and value.
struct LatentTensors {
    Matrix query_down, query_up;  ///< empty where the query is not compressed (then `query`)
    Vector query_norm, key_value_norm;
    Matrix key_value_down, key_value_up;
};

/// Weights of a layer, or their gradients: this rank's part of them.
struct LayerTensors {
    LayerId layer;
    NormTensors attention_norm;
    Vector query_norm, key_norm;
    Matrix query, key, value, output;
    Vector query_bias, key_bias, value_bias, output_bias;
    LatentTensors latent;
    NormTensors mlp_norm;
    Matrix router;
    Vector router_bias;  ///< added to the scores when experts are chosen; moved by their load
    MlpTensors mlp;      ///< of a dense layer, or the routed experts on this rank
    MlpTensors shared;   ///< empty without shared experts
    Matrix shared_gate;  ///< [1, hidden], empty without
};

struct StageTensors {
    Matrix embedding;  ///< first stage
    Matrix position;   ///< first stage, learned positions
    std::vector<LayerTensors> layers;
    NormTensors final_norm;  ///< last stage
    Matrix head;             ///< the embedding itself where both are tied and here
    [[nodiscard]] LayerTensors& of(LayerId layer);
};

/// A rectangle of one tensor of the whole model, as it lies in a group's flat buffer.
struct TensorPiece {
    std::string tensor;  ///< its name, the same on every layout: "layer 3 expert 5 gate"
    std::int64_t offset = 0, rows = 1, cols = 0;
    std::int64_t first_row = 0, first_col = 0;  ///< in the whole tensor
    std::int64_t full_rows = 1, full_cols = 0;

    [[nodiscard]] std::int64_t size() const { return rows * cols; }
};

/// One tensor in a group's flat buffer.
struct ParameterEntry {
    std::string name;  ///< "layer 3 router"
    ParameterGroup group = ParameterGroup::Dense;
    std::int64_t offset = 0, count = 0;
    bool decays = true;       ///< norms and biases do not
    bool replicated = false;  ///< the ranks of a tensor-parallel group hold the same
    bool partial = false;     ///< and their gradients add up to its gradient
    bool counted = true;      ///< false for the second copy of a tied tensor
    LayerId layer;            ///< invalid outside the layers
    std::vector<TensorPiece> pieces;
};

/// What of the model a rank holds.
struct ParameterPlace {
    StageId stage;
    std::vector<ExpertId> experts;  ///< of every MoE layer on this rank, in order
    RankCoordinates rank;
};

/// The groups that share out the optimizer's work; null for none.
struct ShardGroups {
    Communicator* dense = nullptr;
    Communicator* expert = nullptr;
};

/// Elements [begin, end) of a group's flat buffer.
struct ShardRange {
    std::int64_t begin = 0, end = 0;
};

/// Weights, gradients and optimizer state of one rank: flat buffers of a group, so that a
/// reduction is one call. With a sharded optimizer (ZeRO 1) each replica keeps the moments of an
/// equal part of every buffer only, and updates that part.
class ParameterStore {
public:
    /// Weights get their initial values, functions of seed, layer, tensor and expert alone.
    [[nodiscard]] static Result<ParameterStore> create(const Plan& plan,
                                                       const ParameterPlace& place,
                                                       std::uint64_t seed, Backend& backend,
                                                       ShardGroups shards = {});

    [[nodiscard]] StageTensors& weights() { return m_weights; }
    [[nodiscard]] StageTensors& gradients() { return m_gradients; }
    [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return m_entries; }
    [[nodiscard]] Vector flat(ParameterCopy copy, ParameterGroup group) {
        return buffer(copy, group).floats();
    }
    /// What this rank updates; everything without a sharded optimizer.
    [[nodiscard]] ShardRange shard(ParameterGroup group) const {
        return m_shard[static_cast<std::size_t>(group)];
    }
    [[nodiscard]] bool sharded(ParameterGroup group) const {
        return m_shards[static_cast<std::size_t>(group)] != nullptr;
    }
    [[nodiscard]] Vector weight(const ParameterEntry& entry) {
        return part(ParameterCopy::Weight, entry.group, entry.offset, entry.count);
    }
    [[nodiscard]] Vector gradient(const ParameterEntry& entry) {
        return part(ParameterCopy::Gradient, entry.group, entry.offset, entry.count);
    }
    /// `count` elements from `offset` of a group's buffer; of a moment inside the own shard.
    [[nodiscard]] Vector part(ParameterCopy copy, ParameterGroup group, std::int64_t offset,
                              std::int64_t count);

    Status clearGradients(Backend& backend);
    /// Sums a group's gradients over its replicas: all of them, or the own shard.
    Status reduceGradients(ParameterGroup group, Communicator& replicas, Backend& backend);
    /// Brings the updated shards of the weights together again.
    Status gatherWeights(ParameterGroup group, Backend& backend);
    /// Sum of squares of the gradients of the own shard of a group; a tensor that the ranks of a
    /// tensor-parallel group of `tensor_ranks` hold alike counts a part each.
    [[nodiscard]] Result<double> squaredNorm(Backend& backend, ParameterGroup group,
                                             std::int64_t tensor_ranks);
    /// The lowest layer with a gradient that is not finite; num_layers for one outside the layers,
    /// nullopt when all are finite.
    [[nodiscard]] Result<std::optional<std::int64_t>> nonFiniteLayer(Backend& backend,
                                                                     std::int64_t num_layers);
    Status update(Backend& backend, const AdamWParameters& parameters);

private:
    [[nodiscard]] Buffer& buffer(ParameterCopy copy, ParameterGroup group) {
        return m_buffers[static_cast<std::size_t>(copy) * kNumParameterGroups +
                         static_cast<std::size_t>(group)];
    }
    /// Calls visit(entry, offset, count) for what of each entry of the group is in the own shard.
    template <class Visit>
    Status eachOwned(ParameterGroup group, Visit&& visit);
    Status allocate(Backend& backend, const std::array<std::int64_t, kNumParameterGroups>& used);

    std::array<Buffer, kNumParameterCopies * kNumParameterGroups> m_buffers;
    std::array<Communicator*, kNumParameterGroups> m_shards{};
    std::array<ShardRange, kNumParameterGroups> m_shard{};
    std::vector<ParameterEntry> m_entries;
    StageTensors m_weights, m_gradients;
};

}  // namespace piper
