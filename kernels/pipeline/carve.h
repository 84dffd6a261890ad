// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/pipeline/parameters.h"

namespace piper {

/// How a piece of a tensor gets its first values.
struct InitialValues {
    enum class Kind : std::uint8_t { Normal, One, Zero };
    Kind kind = Kind::Normal;
    WeightTensor tensor = WeightTensor::Embedding;
    ExpertId expert = {};
    float stddev = 0.0F;
};

/// A piece, its first values and the layer they are keyed by.
struct CarvedPiece {
    TensorPiece piece;
    ParameterGroup group = ParameterGroup::Dense;
    LayerId layer;
    InitialValues initial;
};

/// Where the tensors of a rank lie: one description for weights and gradients, for their first
/// values, for a checkpoint and for the reductions of the gradients.
struct CarvedStage {
    StageTensors tensors;
    std::vector<ParameterEntry> entries;
    std::vector<CarvedPiece> pieces;
    std::array<std::int64_t, kNumParameterGroups> used{};  ///< elements of each group
};

/// Lays out the tensors of a rank one after the other from `base`; null pointers only measure.
[[nodiscard]] CarvedStage carveStage(const Plan& plan, const ParameterPlace& place,
                                     std::array<float*, kNumParameterGroups> base);

}  // namespace piper
