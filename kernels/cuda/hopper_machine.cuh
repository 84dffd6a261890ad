// SPDX-License-Identifier: Apache-2.0
#pragma once

// The Machine of hopper_kernel.h on a device of compute 9.0 (sm_90a).

#include <cuda.h>

#include "kernels/cuda/hopper_kernel.h"
#include "kernels/cuda/portable_machine.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace piper::cuda {

/// Tensor maps of the operands of m (a) and n (b), both of three dimensions: columns, rows, and the
/// groups of a weight.
struct TensorMaps {
    CUtensorMap a;
    CUtensorMap b;
};

class HopperMachine : public PortableMachine {
public:
    __device__ __forceinline__ void barrier(int number, int members) const {
        asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(members) : "memory");
    }
    __device__ __forceinline__ void initBarrier(int at, int count) const {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(m_shared + at), "r"(count)
                     : "memory");
    }
    __device__ __forceinline__ void fenceBarriers() const {
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        fenceAsync();
    }
    /// Writes of this thread to shared memory before asynchronous reads and writes of it.
    __device__ __forceinline__ void fenceAsync() const {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __device__ __forceinline__ void expectBytes(int at, int bytes) const {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(m_shared + at),
                     "r"(bytes)
                     : "memory");
    }
    __device__ __forceinline__ void arriveBarrier(int at) const {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(m_shared + at) : "memory");
    }
    /// Waits for the end of the phase with this parity.
    __device__ __forceinline__ void waitBarrier(int at, int parity) const {
        std::uint32_t done = 0;
        while (done == 0) {
            asm volatile(
                "{\n.reg .pred p;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                "selp.u32 %0, 1, 0, p;\n}\n"
                : "=r"(done)
                : "r"(m_shared + at), "r"(parity)
                : "memory");
        }
    }
    /// A box from column x, row y of group z to shared memory; `at` is the barrier that counts its
    /// bytes.
    __device__ __forceinline__ void copyBox(int to, const CUtensorMap& map, int x, int y, int z,
                                            int at) const {
        const auto address = reinterpret_cast<std::uint64_t>(&map);
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(m_shared + to),
            "l"(address), "r"(x), "r"(y), "r"(z), "r"(m_shared + at)
            : "memory");
    }

    /// Nothing that uses `d` is moved past this: products change it until they are waited for.
    template <int N>
    __device__ __forceinline__ void holdRegisters(float (&d)[N]) const {
        PIPER_UNROLL
        for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
    }
    __device__ __forceinline__ void beginProducts() const {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    }
    template <int N, bool TransposedA, bool TransposedB>
    __device__ __forceinline__ void product(float (&d)[N / 2], int a, int b) const {
        Wgmma<N, TransposedA ? 1 : 0, TransposedB ? 1 : 0>::issue(
            d, wgmmaDescriptor(m_shared + static_cast<std::uint32_t>(a)),
            wgmmaDescriptor(m_shared + static_cast<std::uint32_t>(b)), 1);
    }
    __device__ __forceinline__ void commitProducts() const {
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    template <int Pending>
    __device__ __forceinline__ void waitProducts() const {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
    }

    __device__ __forceinline__ void storeMatricesTransposed(int to,
                                                            const std::uint32_t (&words)[4]) const {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         m_shared + to),
                     "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
    }
    __device__ __forceinline__ void storeShared16(int at, const std::uint32_t (&words)[4]) const {
        *reinterpret_cast<uint4*>(dynamic_shared + at) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
    __device__ __forceinline__ void loadShared16(int at, std::uint32_t (&words)[4]) const {
        const uint4 value = *reinterpret_cast<const uint4*>(dynamic_shared + at);
        words[0] = value.x;
        words[1] = value.y;
        words[2] = value.z;
        words[3] = value.w;
    }
};

}  // namespace piper::cuda
