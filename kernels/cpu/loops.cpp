// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops.h"

namespace piper {

const Loops& chooseLoops() {
#ifdef PIPER_LOOPS_X86
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("fma")) return kLoopsAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kLoopsAvx2;
#endif
    return kLoopsBaseline;
}

}  // namespace piper
