// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/grouped_data.h"

#include <algorithm>
#include <cmath>

namespace piper::cuda {

GroupedData::GroupedData(const Device& device, int kind, std::vector<std::int64_t> rows_of_group,
                         std::int64_t in, std::int64_t out)
    : m_device(device), m_kind(kind), m_in(in), m_out(out), m_offsets{0} {
    for (const std::int64_t rows : rows_of_group) m_offsets.push_back(m_offsets.back() + rows);
    const std::int64_t rows = m_offsets.back();
    const auto groups = static_cast<std::int64_t>(rows_of_group.size());
    if (kind != PIPER_CUDA_INPUT_GRAD) m_x = randomBf16(rows * in, 1);
    if (kind != PIPER_CUDA_FORWARD) m_dy = randomBf16(rows * out, 2);
    if (kind != PIPER_CUDA_WEIGHT_GRAD) m_w = randomBf16(groups * out * in, 3);
    m_device_x = std::make_unique<DeviceMemory>(device, m_x);
    m_device_dy = std::make_unique<DeviceMemory>(device, m_dy);
    m_device_w = std::make_unique<DeviceMemory>(device, m_w);
    m_device_offsets = std::make_unique<DeviceMemory>(device, m_offsets);
    const auto elements = static_cast<std::size_t>(resultElements());
    m_poison = kind == PIPER_CUDA_WEIGHT_GRAD
                   ? std::make_unique<DeviceMemory>(device, std::vector<float>(elements, 0.0F))
                   : std::make_unique<DeviceMemory>(device, std::vector(elements, Bf16{0x7FC1}));
    m_result = std::make_unique<DeviceMemory>(device, resultBytes());
}

std::int64_t GroupedData::resultElements() const {
    if (m_kind == PIPER_CUDA_WEIGHT_GRAD) {
        return static_cast<std::int64_t>(m_offsets.size() - 1) * m_out * m_in;
    }
    return m_offsets.back() * (m_kind == PIPER_CUDA_FORWARD ? m_out : m_in);
}

PiperCudaGrouped GroupedData::product(int path) const {
    return {m_kind,
            path,
            m_offsets.back(),
            static_cast<std::int32_t>(m_offsets.size() - 1),
            m_in,
            m_out,
            m_device_x->as<>(),
            m_device_dy->as<>(),
            m_device_w->as<>(),
            m_result->as<>(),
            m_device_offsets->as<std::int64_t>()};
}

double GroupedData::flops() const {
    return 2.0 * static_cast<double>(m_offsets.back()) * static_cast<double>(m_in) *
           static_cast<double>(m_out);
}

std::int64_t GroupedData::resultBytes() const {
    return resultElements() * (m_kind == PIPER_CUDA_WEIGHT_GRAD ? 4 : 2);
}

void GroupedData::poison() const {
    m_device.require(m_device.api().copyOnDevice(m_device.context(), m_poison->as<>(),
                                                 m_result->as<>(), resultBytes()),
                     "copyOnDevice");
}

double GroupedData::wanted(std::size_t group, std::int64_t row, std::int64_t column) const {
    const std::int64_t weights = static_cast<std::int64_t>(group) * m_out * m_in;
    double sum = 0;
    if (m_kind == PIPER_CUDA_FORWARD) {
        for (std::int64_t i = 0; i < m_in; ++i) {
            sum += valueAt(m_x, row * m_in + i) * valueAt(m_w, weights + column * m_in + i);
        }
    } else if (m_kind == PIPER_CUDA_INPUT_GRAD) {
        for (std::int64_t o = 0; o < m_out; ++o) {
            sum += valueAt(m_dy, row * m_out + o) * valueAt(m_w, weights + o * m_in + column);
        }
    } else {
        for (std::int64_t r = m_offsets[group]; r < m_offsets[group + 1]; ++r) {
            sum += valueAt(m_dy, r * m_out + row) * valueAt(m_x, r * m_in + column);
        }
    }
    return sum;
}

template <class T>
double GroupedData::worstOf(std::int64_t samples) const {
    const bool weight = m_kind == PIPER_CUDA_WEIGHT_GRAD;
    const std::int64_t columns = m_kind == PIPER_CUDA_FORWARD ? m_out : m_in;
    const auto result = m_result->read<T>(resultElements());
    Worst worst;
    for (std::size_t g = 0; g + 1 < m_offsets.size(); ++g) {
        const std::int64_t first = weight ? static_cast<std::int64_t>(g) * m_out : m_offsets[g];
        const std::int64_t rows = weight ? m_out : m_offsets[g + 1] - m_offsets[g];
        // A stride without a common factor with the columns visits all of them.
        std::int64_t stride = std::max<std::int64_t>(1, rows * columns / samples);
        if (stride > 1) stride |= 1;
        for (std::int64_t i = 0; i < rows * columns; i += stride) {
            const std::int64_t row = i / columns;
            const double sum = wanted(g, weight ? row : first + row, i % columns);
            const double scale = 1.0 + std::abs(sum);
            worst.add(valueAt(result, first * columns + i) / scale, sum / scale);
        }
    }
    return worst.value();
}

Correctness GroupedData::compare(std::int64_t samples) const {
    // bf16 keeps 2^-9 of a sum.
    return m_kind == PIPER_CUDA_WEIGHT_GRAD ? Correctness{worstOf<float>(samples), 1e-4}
                                            : Correctness{worstOf<Bf16>(samples), 1.0 / 256};
}

std::string kindName(int kind) {
    return kind == PIPER_CUDA_FORWARD      ? "forward"
           : kind == PIPER_CUDA_INPUT_GRAD ? "input grad"
                                           : "weight grad";
}

std::string pathName(int path) {
    return path == PIPER_CUDA_HOPPER ? "hopper" : "portable";
}

std::vector<int> pathsOf(const Device& device) {
    if (device.info().compute_major != 9) return {PIPER_CUDA_PORTABLE};
    return {PIPER_CUDA_HOPPER, PIPER_CUDA_PORTABLE};
}

}  // namespace piper::cuda
