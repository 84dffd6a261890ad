// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/bench.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/reference.h"

namespace piper::bench {

/// A backend with the buffers of one benchmark: filled with repeatable numbers, kept to the end.
class Stage {
public:
    [[nodiscard]] static Result<std::unique_ptr<Stage>> make();
    [[nodiscard]] Backend& cpu() { return *m_backend; }
    /// Standard normal numbers times scale.
    [[nodiscard]] Result<Matrix> filled(std::int64_t rows, std::int64_t cols, float scale = 1.0F);
    /// Uniform numbers below `below`.
    [[nodiscard]] std::vector<std::int32_t> ids(std::int64_t count, std::int64_t below);

private:
    Stage() = default;
    TaggedAllocator m_allocator;
    std::unique_ptr<Backend> m_backend;
    std::vector<Buffer> m_buffers;
    std::int64_t m_drawn = 0;
};

/// Processor time of this thread so far.
[[nodiscard]] double threadSeconds();

/// Processor seconds of one call on this thread (the operations use no other), so that whatever
/// else runs on the machine does not count: the median over repetitions that together take about
/// `budget` of the clock on the wall.
/// Errors: those of the call.
[[nodiscard]] Result<Seconds> medianTime(const std::function<Status()>& call, Seconds budget);

/// Errors: External when an element of got is off by more than tolerance times the largest of want.
[[nodiscard]] Status checkAgainst(ConstMatrix got, const reference::Tensor& want,
                                  const std::string& what, double tolerance = 1e-4);

/// Rows `first`, `first + step`, ... of a matrix, so that a check of a large product stays short.
[[nodiscard]] std::vector<std::int64_t> sampleRows(std::int64_t rows);

}  // namespace piper::bench
