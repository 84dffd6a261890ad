// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/reference.h"

namespace piper {

/// A matrix of the test's own, full of NaN until something writes it.
struct Owned {
    std::vector<float> data;
    Matrix m;

    Owned(std::int64_t rows, std::int64_t cols)
        : data(static_cast<std::size_t>(rows * cols), std::numeric_limits<float>::quiet_NaN()),
          m(data.data(), rows, cols) {}
    Owned(Owned&&) = default;
    Owned(const Owned& o) : data(o.data), m(data.data(), o.m.rows, o.m.cols) {}
    Owned& operator=(const Owned&) = delete;
    [[nodiscard]] Vector v() { return data; }
    [[nodiscard]] reference::Tensor ref() const { return reference::Tensor(ConstMatrix(m)); }
};

#define EXPECT_OK(expression)                                              \
    do {                                                                   \
        const piper::Status status_of_call = (expression);                 \
        EXPECT_TRUE(status_of_call.ok()) << status_of_call.error().text(); \
    } while (false)

class CpuTest : public ::testing::Test {
protected:
    void SetUp() override {
        Result<std::unique_ptr<Backend>> made = makeCpuBackend(m_allocator);
        ASSERT_TRUE(made.ok()) << made.error().text();
        m_backend = std::move(made).value();
        // A new seed each time would hide a failure from the next run; the test's name gives one.
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        m_random.seed(static_cast<unsigned>(std::hash<std::string>{}(info->name())));
    }

    Owned random(std::int64_t rows, std::int64_t cols, float scale = 1.0F) {
        Owned out(rows, cols);
        std::normal_distribution<float> normal(0.0F, scale);
        for (float& x : out.data) x = normal(m_random);
        return out;
    }

    std::vector<std::int32_t> randomIds(std::int64_t n, std::int32_t below) {
        std::uniform_int_distribution<std::int32_t> uniform(0, below - 1);
        std::vector<std::int32_t> out(static_cast<std::size_t>(n));
        for (std::int32_t& x : out) x = uniform(m_random);
        return out;
    }

    Backend& cpu() { return *m_backend; }

    TaggedAllocator m_allocator;
    std::unique_ptr<Backend> m_backend;
    std::mt19937 m_random;
};

/// Largest |got - want| over the largest |want| (at least `floor`) stays below `tolerance`; NaN
/// anywhere fails.
inline void expectClose(ConstMatrix got, const reference::Tensor& want, double tolerance = 2e-5,
                        double floor = 1e-30) {
    ASSERT_EQ(got.size(), static_cast<std::int64_t>(want.data.size()));
    double top = floor;
    for (const double x : want.data) top = std::max(top, std::abs(x));
    for (std::size_t i = 0; i < want.data.size(); ++i) {
        const double error = std::abs(static_cast<double>(got.data[i]) - want.data[i]);
        ASSERT_LE(error, tolerance * top)
            << "element " << i << ": " << got.data[i] << " against " << want.data[i];
        ASSERT_FALSE(std::isnan(error)) << "element " << i;
    }
}

inline void expectClose(ConstVector got, const reference::Tensor& want, double tolerance = 2e-5) {
    expectClose(ConstMatrix(got.data(), 1, static_cast<std::int64_t>(got.size())), want, tolerance);
}

}  // namespace piper
