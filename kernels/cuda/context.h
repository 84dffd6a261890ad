// SPDX-License-Identifier: Apache-2.0
#pragma once

// A context of the plugin, and how its functions answer: a PiperCudaStatus, with the reason in a
// text of the calling thread.

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/baselines.h"
#include "kernels/cuda/grouped_plan.h"
#include "kernels/cuda/plugin.h"

struct PiperCudaContext {
    int device = 0;
    piper::cuda::DeviceTraits traits;
    void* encode_tensor_map = nullptr;  ///< of the driver; null where it has none
    cudaStream_t stream = nullptr;
    cublasHandle_t blas = nullptr;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    piper::cuda::GroupedBaselines baselines;
};

namespace piper::cuda {

[[nodiscard]] const char* lastError();
/// Keeps "what: why" for lastError and gives the status back.
int refuse(int status, const char* what, const char* why);
/// Answer of a call of the runtime or of cuBLAS; `what` says what was being done.
int answer(cudaError_t error, const char* what);
int answer(cublasStatus_t status, const char* what);
/// A function of the driver, or null.
[[nodiscard]] void* driverFunction(const char* name);
/// Makes the context's device current.
int selectDevice(const PiperCudaContext* context, const char* what);

}  // namespace piper::cuda
