// SPDX-License-Identifier: Apache-2.0
#pragma once

// wgmma.mma_async of one warpgroup: 64 by N by 16 of bf16 from shared memory into f32 registers.
// The registers may not be touched until the group is waited for.

#include "kernels/cuda/host_device.h"

namespace piper::cuda {

/// d (N / 2 registers) = a b + d, or a b alone when `add` is 0. TransposedA, TransposedB: 1 for an
/// operand whose m or n is contiguous.
template <int N, int TransposedA, int TransposedB>
struct Wgmma;

// The registers of an instruction as text, and as operands from d[i] on.
#define PIPER_TEXT_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define PIPER_TEXT_16 \
    PIPER_TEXT_8      \
    ", %8, %9, %10, %11, %12, %13, %14, %15"
#define PIPER_TEXT_32 \
    PIPER_TEXT_16     \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PIPER_TEXT_64                                                                  \
    PIPER_TEXT_32                                                                      \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PIPER_TEXT_128                                                                 \
    PIPER_TEXT_64                                                                      \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109" \
    ", %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122"   \
    ", %123, %124, %125, %126, %127"
#define PIPER_OPERANDS_4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define PIPER_OPERANDS_8(i) PIPER_OPERANDS_4(i), PIPER_OPERANDS_4((i) + 4)
#define PIPER_OPERANDS_16(i) PIPER_OPERANDS_8(i), PIPER_OPERANDS_8((i) + 8)
#define PIPER_OPERANDS_32(i) PIPER_OPERANDS_16(i), PIPER_OPERANDS_16((i) + 16)
#define PIPER_OPERANDS_64(i) PIPER_OPERANDS_32(i), PIPER_OPERANDS_32((i) + 32)
#define PIPER_OPERANDS_128(i) PIPER_OPERANDS_64(i), PIPER_OPERANDS_64((i) + 64)

/// Operands after the registers: descriptors A and B, Add, then which of A and B are transposed.
#define PIPER_WGMMA(Columns, Registers, A, B, Add, TransA, TransB)                           \
    template <int TransposedA, int TransposedB>                                              \
    struct Wgmma<Columns, TransposedA, TransposedB> {                                        \
        static __device__ __forceinline__ void issue(float (&d)[Registers], std::uint64_t a, \
                                                     std::uint64_t b, int add) {             \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #Add                           \
                         ", 0;\n"                                                            \
                         "wgmma.mma_async.sync.aligned.m64n" #Columns                        \
                         "k16.f32.bf16.bf16 {" PIPER_TEXT_##Registers                        \
                         "}, %" #A ", %" #B ", p, 1, 1, %" #TransA ", %" #TransB ";\n}\n"    \
                         : PIPER_OPERANDS_##Registers(0)                                     \
                         : "l"(a), "l"(b), "r"(add), "n"(TransposedA), "n"(TransposedB));    \
        }                                                                                    \
    };
PIPER_WGMMA(16, 8, 8, 9, 10, 11, 12)
PIPER_WGMMA(32, 16, 16, 17, 18, 19, 20)
PIPER_WGMMA(64, 32, 32, 33, 34, 35, 36)
PIPER_WGMMA(128, 64, 64, 65, 66, 67, 68)
PIPER_WGMMA(256, 128, 128, 129, 130, 131, 132)
#undef PIPER_WGMMA
#undef PIPER_TEXT_8
#undef PIPER_TEXT_16
#undef PIPER_TEXT_32
#undef PIPER_TEXT_64
#undef PIPER_TEXT_128
#undef PIPER_OPERANDS_4
#undef PIPER_OPERANDS_8
#undef PIPER_OPERANDS_16
#undef PIPER_OPERANDS_32
#undef PIPER_OPERANDS_64
#undef PIPER_OPERANDS_128

}  // namespace piper::cuda
