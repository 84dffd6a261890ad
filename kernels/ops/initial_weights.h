// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/index.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// Names a weight tensor; the numbers are part of the meaning of a seed and never change.
enum class WeightTensor : std::uint32_t {
    Embedding = 0,
    Query = 1,
    Key = 2,
    Value = 3,
    AttentionOutput = 4,
    Router = 5,
    ExpertGate = 6,
    ExpertUp = 7,
    ExpertDown = 8,
    SharedGate = 9,
    SharedUp = 10,
    SharedDown = 11,
    DenseGate = 12,
    DenseUp = 13,
    DenseDown = 14,
    Head = 15,
    QueryDown = 16,  ///< multi-head latent attention: to the compressed query
    QueryUp = 17,
    KeyValueDown = 18,
    KeyValueUp = 19,
    SharedExpertGate = 20,
    Position = 21
};

/// Which tensor of the whole model an element belongs to; layer and expert are those of the model,
/// not of a rank, and invalid where there is none.
struct WeightKey {
    std::uint64_t seed = 0;
    LayerId layer{};
    WeightTensor tensor = WeightTensor::Embedding;
    ExpertId expert{};
};

/// Standard normal number of one element of the whole tensor, in row-major order. A function of
/// its arguments alone, so any shard is made alone and equals the same part of the whole.
[[nodiscard]] float initialWeight(const WeightKey& key, std::int64_t index);

/// Fills out [rows, cols] with stddev * initialWeight of the tensor's elements whose row starts at
/// first_row and column at first_col; full_cols is the width of the whole tensor.
void fillInitialWeights(Matrix out, const WeightKey& key, float stddev, std::int64_t full_cols,
                        std::int64_t first_row = 0, std::int64_t first_col = 0);

}  // namespace piper
