// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/host_data.h"

namespace piper::cuda {

/// Operands of one grouped product on the device and the host, the result poisoned before a run.
class GroupedData {
public:
    GroupedData(const Device& device, int kind, std::vector<std::int64_t> rows_of_group,
                std::int64_t in, std::int64_t out);

    [[nodiscard]] PiperCudaGrouped product(int path) const;
    [[nodiscard]] const std::vector<std::int64_t>& offsets() const { return m_offsets; }
    [[nodiscard]] double flops() const;
    /// NaN in every element of a result that is overwritten; zeros where it is added to.
    void poison() const;
    /// Compares the result; at most about `samples` elements of each group.
    [[nodiscard]] Correctness compare(std::int64_t samples) const;

private:
    [[nodiscard]] double wanted(std::size_t group, std::int64_t row, std::int64_t column) const;
    [[nodiscard]] std::int64_t resultElements() const;
    [[nodiscard]] std::int64_t resultBytes() const;
    template <class T>
    [[nodiscard]] double worstOf(std::int64_t samples) const;

    const Device& m_device;
    int m_kind;
    std::int64_t m_in, m_out;
    std::vector<std::int64_t> m_offsets;
    std::vector<Bf16> m_x, m_dy, m_w;
    std::unique_ptr<DeviceMemory> m_device_x, m_device_dy, m_device_w, m_result, m_poison,
        m_device_offsets;
};

[[nodiscard]] std::string kindName(int kind);
[[nodiscard]] std::string pathName(int path);
/// The paths that the device has, the one that is taken by itself first.
[[nodiscard]] std::vector<int> pathsOf(const Device& device);

}  // namespace piper::cuda
