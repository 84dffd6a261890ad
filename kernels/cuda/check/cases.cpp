// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace piper::cuda {
namespace {

std::vector<float> randomFloats(std::int64_t count, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = uniform(generator);
    return values;
}

/// Nearest bf16, ties to even; the values here are finite.
std::uint16_t toBf16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}
float fromBf16(std::uint16_t value) {
    const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16U;
    float result = 0;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

std::vector<std::uint16_t> bf16Of(const std::vector<float>& values) {
    std::vector<std::uint16_t> result;
    result.reserve(values.size());
    for (const float value : values) result.push_back(toBf16(value));
    return result;
}
std::vector<float> floatsOf(const std::vector<std::uint16_t>& values) {
    std::vector<float> result;
    result.reserve(values.size());
    for (const std::uint16_t value : values) result.push_back(fromBf16(value));
    return result;
}

struct Shape {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b;
};

PiperCudaGemm gemmOf(const Shape& s, PiperCudaType type, const DeviceMemory& a,
                     const DeviceMemory& b, const DeviceMemory& c, float beta) {
    return {
        s.m,      s.n,      s.k,     s.transpose_a ? 1 : 0, s.transpose_b ? 1 : 0, type, 1.0F, beta,
        a.as<>(), b.as<>(), c.as<>()};
}

double element(const std::vector<float>& values, bool transposed, std::int64_t row,
               std::int64_t column, std::int64_t rows, std::int64_t columns) {
    const std::int64_t place = transposed ? column * rows + row : row * columns + column;
    return static_cast<double>(values[static_cast<std::size_t>(place)]);
}

/// Largest |device - host| of c = op(a) op(b) + beta * c0, the host in double.
double gemmDifference(const Shape& s, const std::vector<float>& a, const std::vector<float>& b,
                      const std::vector<float>& c0, float beta, const std::vector<float>& c) {
    double worst = 0;
    for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
            const auto at = static_cast<std::size_t>(i * s.n + j);
            double sum = static_cast<double>(beta) * static_cast<double>(c0[at]);
            for (std::int64_t p = 0; p < s.k; ++p) {
                sum += element(a, s.transpose_a, i, p, s.m, s.k) *
                       element(b, s.transpose_b, p, j, s.k, s.n);
            }
            const double difference = std::abs(sum - static_cast<double>(c[at]));
            if (!(difference <= worst)) worst = difference;  // NaN stays
        }
    }
    return worst;
}

Correctness checkGemmF32(const Device& device, const Shape& s) {
    const auto a = randomFloats(s.m * s.k, 1);
    const auto b = randomFloats(s.k * s.n, 2);
    const auto c0 = randomFloats(s.m * s.n, 3);
    const DeviceMemory da(device, s.m * s.k * 4);
    const DeviceMemory db(device, s.k * s.n * 4);
    const DeviceMemory dc(device, s.m * s.n * 4);
    da.write(a);
    db.write(b);
    dc.write(c0);
    const auto gemm = gemmOf(s, PIPER_CUDA_F32, da, db, dc, 0.5F);
    device.require(device.api().gemm(device.context(), &gemm), "gemm");
    const auto c = dc.read<float>(s.m * s.n);
    // Each of k products is below 1, and f32 keeps 2^-24 of a running sum of about sqrt(k).
    return {gemmDifference(s, a, b, c0, 0.5F, c), 1e-6 * static_cast<double>(s.k)};
}

Correctness checkGemmBf16(const Device& device, const Shape& s) {
    const auto a = bf16Of(randomFloats(s.m * s.k, 1));
    const auto b = bf16Of(randomFloats(s.k * s.n, 2));
    const std::vector<std::uint16_t> c0(static_cast<std::size_t>(s.m * s.n), 0);
    const DeviceMemory da(device, s.m * s.k * 2);
    const DeviceMemory db(device, s.k * s.n * 2);
    const DeviceMemory dc(device, s.m * s.n * 2);
    da.write(a);
    db.write(b);
    dc.write(c0);
    const auto gemm = gemmOf(s, PIPER_CUDA_BF16, da, db, dc, 0.0F);
    device.require(device.api().gemm(device.context(), &gemm), "gemm");
    const auto c = floatsOf(dc.read<std::uint16_t>(s.m * s.n));
    // Inputs are the rounded ones, so only the result's rounding remains: 2^-9 of at most about
    // 4 sqrt(k / 9) for sums of k products of two uniform numbers.
    const double largest = 4.0 * std::sqrt(static_cast<double>(s.k) / 9.0) + 1.0;
    return {gemmDifference(s, floatsOf(a), floatsOf(b), floatsOf(c0), 0.0F, c), largest / 256.0};
}

Correctness checkSwiglu(const Device& device, std::int64_t rows, std::int64_t ffn) {
    auto input = randomFloats(rows * 2 * ffn, 4);
    input[0] = -100.0F;  // exp overflows in f32: silu is 0, not NaN
    const DeviceMemory in(device, rows * 2 * ffn * 4);
    const DeviceMemory out(device, rows * ffn * 4);
    in.write(input);
    device.require(
        device.api().swigluForward(device.context(), in.as<float>(), out.as<float>(), rows, ffn),
        "swigluForward");
    const auto result = out.read<float>(rows * ffn);
    double worst = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < ffn; ++c) {
            const double gate = element(input, false, r, c, rows, 2 * ffn);
            const double up = element(input, false, r, ffn + c, rows, 2 * ffn);
            const double wanted = gate / (1.0 + std::exp(-gate)) * up;
            const double difference = std::abs(wanted - element(result, false, r, c, rows, ffn));
            if (!(difference <= worst)) worst = difference;
        }
    }
    return {worst, 1e-6};
}

std::vector<std::int32_t> randomSlots(std::int64_t tokens, std::int64_t topk) {
    std::vector<std::int32_t> slots(static_cast<std::size_t>(tokens * topk));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int32_t>(i);
    std::shuffle(slots.begin(), slots.end(), std::mt19937(5));
    return slots;
}

Correctness checkPermute(const Device& device, std::int64_t tokens, std::int64_t topk,
                         std::int64_t hidden) {
    const auto x = randomFloats(tokens * hidden, 6);
    const auto slots = randomSlots(tokens, topk);
    const std::int64_t num_rows = tokens * topk;
    const DeviceMemory dx(device, tokens * hidden * 4);
    const DeviceMemory dslots(device, num_rows * 4);
    const DeviceMemory drows(device, num_rows * hidden * 4);
    dx.write(x);
    dslots.write(slots);
    device.require(
        device.api().permuteForward(device.context(), dx.as<float>(), dslots.as<std::int32_t>(),
                                    drows.as<float>(), num_rows, topk, hidden),
        "permuteForward");
    const auto rows = drows.read<float>(num_rows * hidden);
    double worst = 0;
    for (std::int64_t r = 0; r < num_rows; ++r) {
        const std::int64_t token = slots[static_cast<std::size_t>(r)] / topk;
        for (std::int64_t c = 0; c < hidden; ++c) {
            const double difference = std::abs(element(x, false, token, c, tokens, hidden) -
                                               element(rows, false, r, c, num_rows, hidden));
            if (!(difference <= worst)) worst = difference;
        }
    }
    return {worst, 0.0};
}

Timing timeGemm(const Device& device, const Shape& s) {
    const DeviceMemory a(device, s.m * s.k * 2);
    const DeviceMemory b(device, s.k * s.n * 2);
    const DeviceMemory c(device, s.m * s.n * 2);
    a.write(bf16Of(randomFloats(s.m * s.k, 1)));
    b.write(bf16Of(randomFloats(s.k * s.n, 2)));
    const auto gemm = gemmOf(s, PIPER_CUDA_BF16, a, b, c, 0.0F);
    const double seconds = device.secondsPerCall(
        [&] { device.require(device.api().gemm(device.context(), &gemm), "gemm"); });
    const double flops =
        2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    return {seconds, flops, true};
}

Timing timeSwiglu(const Device& device, std::int64_t rows, std::int64_t ffn) {
    const DeviceMemory in(device, rows * 2 * ffn * 4);
    const DeviceMemory out(device, rows * ffn * 4);
    in.write(randomFloats(rows * 2 * ffn, 4));
    const double seconds = device.secondsPerCall([&] {
        device.require(device.api().swigluForward(device.context(), in.as<float>(), out.as<float>(),
                                                  rows, ffn),
                       "swigluForward");
    });
    return {seconds, static_cast<double>(rows * 3 * ffn * 4), false};
}

Timing timePermute(const Device& device, std::int64_t tokens, std::int64_t topk,
                   std::int64_t hidden) {
    const DeviceMemory x(device, tokens * hidden * 4);
    const DeviceMemory slots(device, tokens * topk * 4);
    const DeviceMemory rows(device, tokens * topk * hidden * 4);
    x.write(randomFloats(tokens * hidden, 6));
    slots.write(randomSlots(tokens, topk));
    const double seconds = device.secondsPerCall([&] {
        device.require(
            device.api().permuteForward(device.context(), x.as<float>(), slots.as<std::int32_t>(),
                                        rows.as<float>(), tokens * topk, topk, hidden),
            "permuteForward");
    });
    return {seconds, static_cast<double>(tokens * hidden * 4 * (1 + topk)), false};
}

Timing timeCopyOnDevice(const Device& device, std::int64_t bytes) {
    const DeviceMemory from(device, bytes);
    const DeviceMemory to(device, bytes);
    from.write(randomFloats(bytes / 4, 7));
    const double seconds = device.secondsPerCall([&] {
        device.require(device.api().copyOnDevice(device.context(), from.as<>(), to.as<>(), bytes),
                       "copy");
    });
    return {seconds, 2.0 * static_cast<double>(bytes), false};
}

Timing timeCopyToDevice(const Device& device, std::int64_t bytes) {
    const DeviceMemory to(device, bytes);
    const auto host = randomFloats(bytes / 4, 8);
    const double seconds = device.secondsPerCall(
        [&] {
            device.require(
                device.api().copyToDevice(device.context(), host.data(), to.as<>(), bytes),
                "copyToDevice");
        },
        1);
    return {seconds, static_cast<double>(bytes), false};
}

std::string sizes(const Shape& s) {
    return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
           (s.transpose_a ? " a^T" : "") + (s.transpose_b ? " b^T" : "");
}

}  // namespace

std::vector<CorrectnessCase> correctnessCases() {
    std::vector<CorrectnessCase> cases;
    for (const Shape& s : {Shape{64, 96, 128, false, true}, Shape{64, 96, 128, false, false},
                           Shape{64, 96, 128, true, false}, Shape{37, 61, 129, true, true},
                           Shape{1, 256, 512, false, true}}) {
        cases.push_back({"gemm f32 " + sizes(s),
                         [s](const Device& device) { return checkGemmF32(device, s); }});
        cases.push_back({"gemm bf16 " + sizes(s),
                         [s](const Device& device) { return checkGemmBf16(device, s); }});
    }
    for (const auto& [rows, ffn] : {std::pair{64, 256}, std::pair{33, 101}, std::pair{1, 1}}) {
        cases.push_back({"swiglu " + std::to_string(rows) + "x" + std::to_string(ffn),
                         [rows = rows, ffn = ffn](const Device& device) {
                             return checkSwiglu(device, rows, ffn);
                         }});
    }
    for (const int hidden : {256, 101}) {
        cases.push_back(
            {"permute 50 tokens top-3 hidden " + std::to_string(hidden),
             [hidden](const Device& device) { return checkPermute(device, 50, 3, hidden); }});
    }
    return cases;
}

std::vector<TimingCase> timingCases() {
    std::vector<TimingCase> cases;
    for (const Shape& s :
         {Shape{8192, 8192, 8192, false, true}, Shape{4096, 4096, 4096, false, true},
          Shape{256, 4096, 4096, false, true}, Shape{16, 4096, 4096, false, true}}) {
        cases.push_back(
            {"gemm bf16 " + sizes(s), [s](const Device& device) { return timeGemm(device, s); }});
    }
    cases.push_back({"swiglu f32 16384x2048",
                     [](const Device& device) { return timeSwiglu(device, 16384, 2048); }});
    cases.push_back({"permute f32 8192 tokens top-8 hidden 2048",
                     [](const Device& device) { return timePermute(device, 8192, 8, 2048); }});
    constexpr std::int64_t kGib = std::int64_t{1} << 30U;
    cases.push_back({"copy on the device 1 GiB",
                     [](const Device& device) { return timeCopyOnDevice(device, kGib); }});
    cases.push_back({"copy to the device 256 MiB pageable",
                     [](const Device& device) { return timeCopyToDevice(device, kGib / 4); }});
    return cases;
}

}  // namespace piper::cuda
