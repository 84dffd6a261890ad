// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/initial_weights.h"

#include <cmath>
#include <numbers>

#include "kernels/ops/counter_random.h"

namespace piper {

namespace {

std::uint64_t keyBits(const WeightKey& key) {
    std::uint64_t bits = mixBits(key.seed, static_cast<std::uint32_t>(key.layer.value));
    bits = mixBits(bits, static_cast<std::uint32_t>(key.tensor));
    return mixBits(bits, static_cast<std::uint32_t>(key.expert.value));
}

/// Box-Muller of the two halves of one mixed counter.
float normal(std::uint64_t key, std::int64_t index) {
    const std::uint64_t bits = mixBits(key, static_cast<std::uint64_t>(index));
    const double u = (static_cast<double>(bits >> 32U) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(bits & 0xffffffffU) * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

}  // namespace

float initialWeight(const WeightKey& key, std::int64_t index) {
    return normal(keyBits(key), index);
}

void fillInitialWeights(Matrix out, const WeightKey& key, float stddev, std::int64_t full_cols,
                        std::int64_t first_row, std::int64_t first_col) {
    PIPER_CHECK(first_row >= 0 && first_col >= 0 && first_col + out.cols <= full_cols);
    const std::uint64_t bits = keyBits(key);
    for (std::int64_t r = 0; r < out.rows; ++r) {
        const std::int64_t first = (first_row + r) * full_cols + first_col;
        for (std::int64_t c = 0; c < out.cols; ++c) out.at(r, c) = stddev * normal(bits, first + c);
    }
}

}  // namespace piper
