// SPDX-License-Identifier: Apache-2.0
#define PIPER_LOOPS_TABLE kLoopsAvx2
#define PIPER_LOOPS_NAME "avx2"
#include "kernels/cpu/loops_impl.h"
