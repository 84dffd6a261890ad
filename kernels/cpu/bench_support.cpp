// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bench_support.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kernels/ops/counter_random.h"
#include "kernels/ops/initial_weights.h"

namespace piper::bench {

Result<std::unique_ptr<Stage>> Stage::make() {
    std::unique_ptr<Stage> stage(new Stage());
    PIPER_ASSIGN(stage->m_backend, makeCpuBackend(stage->m_allocator));
    return stage;
}

Result<Matrix> Stage::filled(std::int64_t rows, std::int64_t cols, float scale) {
    PIPER_ASSIGN(Buffer buffer, m_allocator.allocateFloats(MemoryTerm::Workspace, rows * cols));
    const Matrix out = buffer.matrix(rows, cols);
    // A few thousand numbers repeated: making millions would take longer than the benchmark.
    constexpr std::int64_t kPeriod = 4093;
    for (std::int64_t i = 0; i < std::min(out.size(), kPeriod); ++i)
        out.data[i] = scale * initialWeight({.seed = 11}, m_drawn + i);
    m_drawn += kPeriod;
    for (std::int64_t i = kPeriod; i < out.size(); ++i) out.data[i] = out.data[i - kPeriod];
    m_buffers.push_back(std::move(buffer));
    return out;
}

std::vector<std::int32_t> Stage::ids(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(count));
    for (std::int32_t& id : out)
        id = static_cast<std::int32_t>(mixBits(static_cast<std::uint64_t>(m_drawn++)) %
                                       static_cast<std::uint64_t>(below));
    return out;
}

double threadSeconds() {
    timespec now{};
    PIPER_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Result<Seconds> medianTime(const std::function<Status()>& call, Seconds budget) {
    using Clock = std::chrono::steady_clock;
    constexpr std::size_t kFewest = 3;
    constexpr std::size_t kMost = 101;
    PIPER_TRY(call());
    std::vector<double> times;
    const auto begin = Clock::now();
    const std::chrono::duration<double> limit(budget.value);
    while (times.size() < kMost && (times.size() < kFewest || Clock::now() - begin < limit)) {
        const double start = threadSeconds();
        PIPER_TRY(call());
        times.push_back(threadSeconds() - start);
    }
    std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
    return Seconds(std::max(times[times.size() / 2], 1e-9));
}

Status checkAgainst(ConstMatrix got, const reference::Tensor& want, const std::string& what,
                    double tolerance) {
    PIPER_CHECK(got.size() == static_cast<std::int64_t>(want.data.size()));
    double top = 1e-3;
    for (const double x : want.data) top = std::max(top, std::abs(x));
    for (std::size_t i = 0; i < want.data.size(); ++i)
        if (!(std::abs(static_cast<double>(got.data[i]) - want.data[i]) <= tolerance * top))
            return fail(ErrorCode::External, "{}: element {} is {} and should be {}", what, i,
                        got.data[i], want.data[i]);
    return {};
}

std::vector<std::int64_t> sampleRows(std::int64_t rows) {
    std::vector<std::int64_t> out;
    for (std::int64_t r = 0; r < rows; r += std::max<std::int64_t>(1, rows / 3)) out.push_back(r);
    if (rows > 0 && out.back() != rows - 1) out.push_back(rows - 1);
    return out;
}

}  // namespace piper::bench
