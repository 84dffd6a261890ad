// SPDX-License-Identifier: Apache-2.0
// A plugin of a later interface whose table is shorter than this program's.
#include "kernels/cuda/plugin.h"

extern "C" const PiperCudaApi* piperCudaApi(uint32_t) {
    static const struct {
        uint32_t interface_version = PIPER_CUDA_INTERFACE + 1;
        uint32_t table_bytes = 8;
    } table;
    return reinterpret_cast<const PiperCudaApi*>(&table);
}
