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

namespace piper {

/// Which replicas hold the same parameters: dp for dense ones, edp for experts.
enum class ParameterGroup : std::uint8_t { Dense, Expert };
inline constexpr std::size_t kNumParameterGroups = 2;

/// An MLP, or `groups` of them one below the other. up: [groups * width, hidden], width being
/// 2 ffn for SwiGLU (gate rows, then up rows) and ffn otherwise; down: [groups * hidden, ffn].
struct MlpTensors {
    Matrix up, down;
    std::int64_t ffn = 0;
};

/// Weights of a layer, or their gradients.
struct LayerTensors {
    LayerId layer;
    Vector attention_norm, query_norm, key_norm;
    Matrix query, key, value, output;
    Vector mlp_norm;
    Matrix router;
    MlpTensors mlp;     ///< of a dense layer, or the routed experts on this rank
    MlpTensors shared;  ///< empty without shared experts
};

struct StageTensors {
    Matrix embedding;  ///< first stage
    std::vector<LayerTensors> layers;
    Vector final_norm;  ///< last stage
    Matrix head;
    [[nodiscard]] LayerTensors& of(LayerId layer);
};

/// One tensor in a group's flat buffer.
struct ParameterEntry {
    std::string name;  ///< "layer 3 router"
    ParameterGroup group = ParameterGroup::Dense;
    std::int64_t offset = 0, count = 0;
    bool decays = true;  ///< norms do not
    LayerId layer;       ///< invalid outside the layers
};

/// Weights, gradients and optimizer state of one rank: flat buffers of a group, so that a
/// reduction is one call.
class ParameterStore {
public:
    /// experts: those of every MoE layer on this rank, in order. Weights get their initial values,
    /// functions of seed, layer, tensor and expert alone.
    [[nodiscard]] static Result<ParameterStore> create(const Plan& plan, StageId stage,
                                                       const std::vector<ExpertId>& experts,
                                                       std::uint64_t seed, Backend& backend);

    [[nodiscard]] StageTensors& weights() { return m_weights; }
    [[nodiscard]] StageTensors& gradients() { return m_gradients; }
    [[nodiscard]] const std::vector<ParameterEntry>& entries() const { return m_entries; }
    [[nodiscard]] Vector flatGradients(ParameterGroup group) { return buffer(1, group).floats(); }
    [[nodiscard]] Vector weight(const ParameterEntry& entry) { return part(0, entry); }
    [[nodiscard]] Vector gradient(const ParameterEntry& entry) { return part(1, entry); }

    Status clearGradients(Backend& backend);
    /// Sum of squares of the gradients of a group.
    [[nodiscard]] Result<double> squaredNorm(Backend& backend, ParameterGroup group);
    /// The lowest layer with a gradient that is not finite; num_layers for one outside the layers,
    /// nullopt when all are finite.
    [[nodiscard]] Result<std::optional<std::int64_t>> nonFiniteLayer(Backend& backend,
                                                                     std::int64_t num_layers);
    Status update(Backend& backend, const AdamWParameters& parameters);

private:
    static constexpr std::size_t kCopies = 4;  ///< weight, gradient, both moments
    [[nodiscard]] Buffer& buffer(std::size_t copy, ParameterGroup group) {
        return m_buffers[copy * kNumParameterGroups + static_cast<std::size_t>(group)];
    }
    [[nodiscard]] Vector part(std::size_t copy, const ParameterEntry& entry);

    std::array<Buffer, kCopies * kNumParameterGroups> m_buffers;
    std::vector<ParameterEntry> m_entries;
    StageTensors m_weights, m_gradients;
};

}  // namespace piper
