// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/host_device.h"
#include "kernels/ops/reference.h"

namespace piper::test {

/// Rows of T, 16-byte aligned when asked for, between guards that must stay.
template <class T>
class DeviceRows {
public:
    /// Poisoned: NaN everywhere. `shift` elements away from the alignment.
    DeviceRows(std::int64_t rows, std::int64_t columns, int shift = 0)
        : m_rows(rows), m_columns(columns), m_room(static_cast<std::size_t>(rows * columns) + 64) {
        for (T& value : m_room) value = poison();
        m_first = 16;
        while (reinterpret_cast<std::uintptr_t>(&m_room[m_first]) % 16 != 0) ++m_first;
        m_first += static_cast<std::size_t>(shift);
    }
    [[nodiscard]] T* data() { return &m_room[m_first]; }
    void fill(std::mt19937& random, float reach = 1.0F) {
        std::uniform_real_distribution<float> uniform(-reach, reach);
        for (std::int64_t i = 0; i < m_rows * m_columns; ++i) {
            data()[i] = cuda::fromFloat<T>(uniform(random));
        }
    }
    [[nodiscard]] reference::Tensor tensor() {
        reference::Tensor result(m_rows, m_columns);
        for (std::int64_t i = 0; i < m_rows * m_columns; ++i) {
            result.data[static_cast<std::size_t>(i)] =
                static_cast<double>(cuda::toFloat(data()[i]));
        }
        return result;
    }
    /// Every element within `relative` of its size plus `absolute`, and the guards untouched.
    void expectNear(const reference::Tensor& wanted, double relative, double absolute) {
        ASSERT_EQ(wanted.data.size(), static_cast<std::size_t>(m_rows * m_columns));
        for (std::size_t i = 0; i < wanted.data.size(); ++i) {
            const double want = wanted.data[i];
            ASSERT_NEAR(static_cast<double>(cuda::toFloat(data()[i])), want,
                        relative * std::abs(want) + absolute)
                << "row " << i / static_cast<std::size_t>(m_columns) << " column "
                << i % static_cast<std::size_t>(m_columns);
        }
        const std::size_t end = m_first + wanted.data.size();
        for (std::size_t i = 0; i < m_room.size(); ++i) {
            if (i >= m_first && i < end) continue;
            ASSERT_TRUE(std::isnan(cuda::toFloat(m_room[i]))) << "a guard";
        }
    }

private:
    static T poison() { return cuda::fromFloat<T>(std::numeric_limits<float>::quiet_NaN()); }

    std::int64_t m_rows, m_columns;
    std::vector<T> m_room;
    std::size_t m_first = 0;
};

/// Of an emulated block.
constexpr int kThreads = 64;

/// What one rounding to T costs.
template <class T>
constexpr double kRounding = sizeof(T) == 2 ? 1.0 / 256 : 1e-6;

}  // namespace piper::test
