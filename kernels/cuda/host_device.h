// SPDX-License-Identifier: Apache-2.0
#pragma once

// What host and device code share: markers of functions and bf16. C++17 (nvcc under CMake 3.25).

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define PIPER_HOST_DEVICE __host__ __device__ __forceinline__
/// A kernel's body: compiled for the device, and for the host where a test runs it.
#define PIPER_KERNEL_BODY __device__ __forceinline__
#define PIPER_UNROLL _Pragma("unroll")
#else
#define PIPER_HOST_DEVICE inline
#define PIPER_KERNEL_BODY inline
#define PIPER_UNROLL
#endif

namespace piper::cuda {

template <class T>
PIPER_HOST_DEVICE T ceilDiv(T a, T b) {
    return (a + b - 1) / b;
}
template <class T>
PIPER_HOST_DEVICE T smaller(T a, T b) {
    return b < a ? b : a;
}
template <class T>
PIPER_HOST_DEVICE T larger(T a, T b) {
    return a < b ? b : a;
}

PIPER_HOST_DEVICE std::uint32_t bitsOf(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}
PIPER_HOST_DEVICE float floatOfBits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

/// The upper half of a float.
struct Bf16 {
    std::uint16_t bits;
};

/// Two bf16 in a word, `low` in its lower half. Nearest, ties to even; NaN stays NaN.
PIPER_HOST_DEVICE std::uint32_t packBf16(float low, float high) {
#ifdef __CUDA_ARCH__
    std::uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    const auto round = [](float value) -> std::uint32_t {
        const std::uint32_t bits = bitsOf(value);
        if (value != value) return 0x7FFFU;
        return (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    };
    return round(low) | round(high) << 16U;
#endif
}

PIPER_HOST_DEVICE float toFloat(Bf16 value) {
    return floatOfBits(static_cast<std::uint32_t>(value.bits) << 16U);
}
PIPER_HOST_DEVICE float toFloat(float value) {
    return value;
}
template <class T>
PIPER_HOST_DEVICE T fromFloat(float value);
template <>
PIPER_HOST_DEVICE float fromFloat<float>(float value) {
    return value;
}
template <>
PIPER_HOST_DEVICE Bf16 fromFloat<Bf16>(float value) {
    return {static_cast<std::uint16_t>(packBf16(value, 0.0F) & 0xFFFFU)};
}

}  // namespace piper::cuda
