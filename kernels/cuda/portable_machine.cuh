// SPDX-License-Identifier: Apache-2.0
#pragma once

// The Machine of kernel bodies on a device: thin names for instructions of sm_80 and newer.

#include "kernels/cuda/host_device.h"

namespace piper::cuda {

extern __shared__ __align__(1024) unsigned char dynamic_shared[];

class PortableMachine {
public:
    __device__ __forceinline__ PortableMachine()
        : m_shared(static_cast<std::uint32_t>(__cvta_generic_to_shared(dynamic_shared))) {}

    __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
    __device__ __forceinline__ int threads() const { return static_cast<int>(blockDim.x); }
    __device__ __forceinline__ int block() const { return static_cast<int>(blockIdx.x); }
    __device__ __forceinline__ int blocks() const { return static_cast<int>(gridDim.x); }
    __device__ __forceinline__ void syncBlock() const { __syncthreads(); }
    __device__ __forceinline__ void syncWarp() const { __syncwarp(); }

    /// 16 bytes to shared memory, or zeros when not valid.
    __device__ __forceinline__ void copyAsync(int to, const void* from, bool valid) const {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(m_shared + to),
                     "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                     : "memory");
    }
    __device__ __forceinline__ void commitCopies() const {
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    /// Waits for all but the latest Pending groups of this thread.
    template <int Pending>
    __device__ __forceinline__ void waitCopies() const {
        asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
    }

    template <bool Transposed>
    __device__ __forceinline__ void loadMatrices(int from, std::uint32_t (&to)[4]) const {
        if constexpr (Transposed) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(m_shared + from)
                         : "memory");
        } else {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                         : "r"(m_shared + from)
                         : "memory");
        }
    }
    /// d += a b: Rows fragments of 16 by 16 and Columns of 16 by 8, two of them in four registers.
    template <int Rows, int Columns>
    __device__ __forceinline__ void multiply(float (&d)[Rows][Columns][4],
                                             const std::uint32_t (&a)[Rows][4],
                                             const std::uint32_t (&b)[Columns / 2][4]) const {
        PIPER_UNROLL
        for (int i = 0; i < Rows; ++i) {
            PIPER_UNROLL
            for (int j = 0; j < Columns; ++j) {
                float(&to)[4] = d[i][j];
                asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                    "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
                    : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                      "r"(b[j / 2][j % 2 * 2]), "r"(b[j / 2][j % 2 * 2 + 1]));
            }
        }
    }

    __device__ __forceinline__ std::uint32_t shuffleXor(std::uint32_t value, int mask) const {
        return __shfl_xor_sync(0xFFFFFFFFU, value, mask);
    }
    /// Lanes of the warp whose key is this lane's.
    __device__ __forceinline__ std::uint32_t matchAny(int key) const {
        return __match_any_sync(0xFFFFFFFFU, key);
    }

    __device__ __forceinline__ void store16(void* to, const std::uint32_t (&words)[4]) const {
        *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    }
    __device__ __forceinline__ void add2(float* to, float first, float second) const {
        float2 value = *reinterpret_cast<float2*>(to);
        value.x += first;
        value.y += second;
        *reinterpret_cast<float2*>(to) = value;
    }

    __device__ __forceinline__ void storeInt(int at, int value) const {
        *reinterpret_cast<int*>(dynamic_shared + at) = value;
    }
    __device__ __forceinline__ int loadInt(int at) const {
        return *reinterpret_cast<const int*>(dynamic_shared + at);
    }
    __device__ __forceinline__ const int* ints(int at) const {
        return reinterpret_cast<const int*>(dynamic_shared + at);
    }
    __device__ __forceinline__ void storeFloat(int at, float value) const {
        *reinterpret_cast<float*>(dynamic_shared + at) = value;
    }
    __device__ __forceinline__ float loadFloat(int at) const {
        return *reinterpret_cast<const float*>(dynamic_shared + at);
    }

protected:
    std::uint32_t m_shared;
};

}  // namespace piper::cuda
