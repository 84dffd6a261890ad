// SPDX-License-Identifier: Apache-2.0
#define PIPER_LOOPS_TABLE kLoopsBaseline
#define PIPER_LOOPS_NAME "baseline"
#include "kernels/cpu/loops_impl.h"
