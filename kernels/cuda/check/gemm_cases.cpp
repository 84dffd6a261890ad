// SPDX-License-Identifier: Apache-2.0
// The dense product of cuBLAS: what the grouped ones are compared with.
#include <cmath>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/host_data.h"

namespace piper::cuda {
namespace {

struct Shape {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b;
};

/// c = op(a) op(b) + beta c0, the host in double.
template <class T>
Correctness checkGemm(const Device& device, const Shape& s, float beta, double allowed) {
    const auto a = randomRows<T>(s.m * s.k, 1);
    const auto b = randomRows<T>(s.k * s.n, 2);
    const auto c0 = randomRows<T>(s.m * s.n, 3);
    const DeviceMemory da(device, a);
    const DeviceMemory db(device, b);
    const DeviceMemory dc(device, c0);
    const PiperCudaGemm gemm{s.m,
                             s.n,
                             s.k,
                             s.transpose_a ? 1 : 0,
                             s.transpose_b ? 1 : 0,
                             kType<T>,
                             1.0F,
                             beta,
                             da.as<>(),
                             db.as<>(),
                             dc.as<>()};
    device.require(device.api().gemm(device.context(), &gemm), "gemm");
    const auto c = dc.read<T>(s.m * s.n);
    Worst worst;
    for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
            double sum = double(beta) * valueAt(c0, i * s.n + j);
            for (std::int64_t p = 0; p < s.k; ++p) {
                sum += valueAt(a, s.transpose_a ? p * s.m + i : i * s.k + p) *
                       valueAt(b, s.transpose_b ? j * s.k + p : p * s.n + j);
            }
            worst.add(valueAt(c, i * s.n + j), sum);
        }
    }
    return {worst.value(), allowed};
}

}  // namespace

void addGemmCases(std::vector<CorrectnessCase>& cases) {
    for (const Shape& s : {Shape{64, 96, 128, false, true}, Shape{64, 96, 128, false, false},
                           Shape{64, 96, 128, true, false}, Shape{37, 61, 129, true, true},
                           Shape{1, 256, 512, false, true}}) {
        const std::string sizes = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" +
                                  std::to_string(s.k) + (s.transpose_a ? " a^T" : "") +
                                  (s.transpose_b ? " b^T" : "");
        // Each of k products is below 1, and f32 keeps 2^-24 of a running sum of about sqrt(k);
        // bf16 keeps 2^-9 of a sum that stays below about 4 sqrt(k / 9).
        cases.push_back({"gemm f32 " + sizes, [s](const Device& device) {
                             return checkGemm<float>(device, s, 0.5F, 1e-6 * double(s.k));
                         }});
        cases.push_back({"gemm bf16 " + sizes, [s](const Device& device) {
                             const double largest = 4.0 * std::sqrt(double(s.k) / 9.0) + 1.0;
                             return checkGemm<Bf16>(device, s, 0.0F, largest / 256.0);
                         }});
    }
}

}  // namespace piper::cuda
