// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/host_data.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace piper::cuda {

std::vector<float> randomFloats(std::int64_t count, std::uint32_t seed) {
    std::minstd_rand generator(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(generator);
    return values;
}

std::vector<Bf16> bf16Of(const std::vector<float>& values) {
    std::vector<Bf16> result;
    result.reserve(values.size());
    for (const float value : values) result.push_back(fromFloat<Bf16>(value));
    return result;
}

std::vector<Bf16> randomBf16(std::int64_t count, std::uint32_t seed) {
    // A period of distinct values is enough: large matrices repeat it.
    const auto period = bf16Of(randomFloats(std::min<std::int64_t>(count, 1000003), seed));
    std::vector<Bf16> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); i += period.size()) {
        const std::size_t part = std::min(period.size(), values.size() - i);
        std::copy_n(period.begin(), part, values.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return values;
}

std::vector<std::int32_t> randomOrder(std::int64_t count, std::uint32_t seed) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

std::vector<std::int32_t> randomExperts(std::int64_t count, int experts, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(count));
    for (std::int32_t& expert : chosen) {
        expert = static_cast<std::int32_t>(generator() % static_cast<unsigned>(experts));
    }
    return chosen;
}

}  // namespace piper::cuda
