// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/context.h"

#include <cstdio>

namespace piper::cuda {
namespace {

thread_local char last_error[256] = "";

}  // namespace

const char* lastError() {
    return last_error;
}

int refuse(int status, const char* what, const char* why) {
    std::snprintf(last_error, sizeof last_error, "%s: %s", what, why);
    return status;
}

int answer(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return PIPER_CUDA_OK;
    (void)cudaGetLastError();  // a refused call must not colour the next one's answer
    if (error == cudaErrorInsufficientDriver) {
        std::snprintf(last_error, sizeof last_error,
                      "no NVIDIA driver for CUDA %d.%d (libcuda.so.1 is absent or older)",
                      CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
        return PIPER_CUDA_NO_DRIVER;
    }
    if (error == cudaErrorNoDevice) {
        std::snprintf(last_error, sizeof last_error, "no CUDA device");
        return PIPER_CUDA_NO_DEVICE;
    }
    const bool memory = error == cudaErrorMemoryAllocation;
    return refuse(memory ? PIPER_CUDA_OUT_OF_MEMORY : PIPER_CUDA_FAILED, what,
                  cudaGetErrorString(error));
}

int answer(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PIPER_CUDA_OK;
    const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
    return refuse(memory ? PIPER_CUDA_OUT_OF_MEMORY : PIPER_CUDA_FAILED, what,
                  cublasGetStatusString(status));
}

void* driverFunction(const char* name) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) return function;
    (void)cudaGetLastError();
    return nullptr;
}

int selectDevice(const PiperCudaContext* context, const char* what) {
    if (context == nullptr) return refuse(PIPER_CUDA_INVALID, what, "no context");
    return answer(cudaSetDevice(context->device), what);
}

}  // namespace piper::cuda
