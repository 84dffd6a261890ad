// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/plugin.h"

namespace piper::cuda {

[[nodiscard]] std::vector<float> randomFloats(std::int64_t count, std::uint32_t seed);
[[nodiscard]] std::vector<Bf16> randomBf16(std::int64_t count, std::uint32_t seed);
/// Of the type T: f32 or bf16.
template <class T>
[[nodiscard]] std::vector<T> randomRows(std::int64_t count, std::uint32_t seed) {
    if constexpr (sizeof(T) == 2) {
        return randomBf16(count, seed);
    } else {
        return randomFloats(count, seed);
    }
}
/// 0 to count - 1 in random order.
[[nodiscard]] std::vector<std::int32_t> randomOrder(std::int64_t count, std::uint32_t seed);
[[nodiscard]] std::vector<std::int32_t> randomExperts(std::int64_t count, int experts,
                                                      std::uint32_t seed);
[[nodiscard]] std::vector<Bf16> bf16Of(const std::vector<float>& values);

template <class T>
constexpr int kType = sizeof(T) == 2 ? PIPER_CUDA_BF16 : PIPER_CUDA_F32;

/// The element as a double; bf16 and f32.
template <class T>
[[nodiscard]] double valueAt(const std::vector<T>& values, std::int64_t index) {
    return static_cast<double>(toFloat(values[static_cast<std::size_t>(index)]));
}

/// Keeps the largest difference; NaN stays.
class Worst {
public:
    void add(double got, double wanted) {
        const double difference = got > wanted ? got - wanted : wanted - got;
        if (!(difference <= m_value)) m_value = difference;
    }
    [[nodiscard]] double value() const { return m_value; }

private:
    double m_value = 0;
};

}  // namespace piper::cuda
