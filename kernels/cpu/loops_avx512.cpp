// SPDX-License-Identifier: Apache-2.0
#define PIPER_LOOPS_TABLE kLoopsAvx512
#define PIPER_LOOPS_NAME "avx512"
#include "kernels/cpu/loops_impl.h"
