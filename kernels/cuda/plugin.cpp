// SPDX-License-Identifier: Apache-2.0
// The table of libpiper_cuda.so. Every function answers a PiperCudaStatus and leaves its reason in
// a text of the calling thread; nothing throws out of here.
#include "kernels/cuda/plugin.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/cuda/index_math.h"
#include "kernels/cuda/kernels.h"

struct PiperCudaContext {
    int device = 0;
    int multiprocessors = 1;
    cudaStream_t stream = nullptr;
    cublasHandle_t blas = nullptr;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
};

namespace {

thread_local char last_error[256] = "";

int refuse(int status, const char* what, const char* why) {
    std::snprintf(last_error, sizeof last_error, "%s: %s", what, why);
    return status;
}

int statusOf(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return PIPER_CUDA_OK;
        case cudaErrorInsufficientDriver:
            return PIPER_CUDA_NO_DRIVER;
        case cudaErrorNoDevice:
            return PIPER_CUDA_NO_DEVICE;
        case cudaErrorMemoryAllocation:
            return PIPER_CUDA_OUT_OF_MEMORY;
        default:
            return PIPER_CUDA_FAILED;
    }
}

/// Answer of a runtime call; `what` says what was being done.
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
    return refuse(statusOf(error), what, cudaGetErrorString(error));
}

int answer(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return PIPER_CUDA_OK;
    const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
    return refuse(memory ? PIPER_CUDA_OUT_OF_MEMORY : PIPER_CUDA_FAILED, what,
                  cublasGetStatusString(status));
}

int selectDevice(const PiperCudaContext* context, const char* what) {
    if (context == nullptr) return refuse(PIPER_CUDA_INVALID, what, "no context");
    return answer(cudaSetDevice(context->device), what);
}

const char* lastError() {
    return last_error;
}

int deviceCount(std::int32_t* count) {
    if (count == nullptr)
        return refuse(PIPER_CUDA_INVALID, "deviceCount", "no place for the count");
    *count = 0;
    return answer(cudaGetDeviceCount(count), "cudaGetDeviceCount");
}

int deviceInfo(std::int32_t device, PiperCudaDevice* info) {
    if (info == nullptr) return refuse(PIPER_CUDA_INVALID, "deviceInfo", "no place for the answer");
    std::memset(info, 0, sizeof *info);
    cudaDeviceProp properties{};
    int status = answer(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    if (status != PIPER_CUDA_OK) return status;
    std::snprintf(info->name, sizeof info->name, "%s", properties.name);
    info->compute_major = properties.major;
    info->compute_minor = properties.minor;
    info->multiprocessors = properties.multiProcessorCount;
    info->l2_bytes = properties.l2CacheSize;
    status = answer(cudaSetDevice(device), "cudaSetDevice");
    if (status != PIPER_CUDA_OK) return status;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    status = answer(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    info->free_bytes = static_cast<std::int64_t>(free_bytes);
    info->total_bytes = static_cast<std::int64_t>(total_bytes);
    return status;
}

void closeContext(PiperCudaContext* context) {
    if (context == nullptr) return;
    (void)cudaSetDevice(context->device);
    if (context->end != nullptr) (void)cudaEventDestroy(context->end);
    if (context->begin != nullptr) (void)cudaEventDestroy(context->begin);
    if (context->blas != nullptr) (void)cublasDestroy(context->blas);
    if (context->stream != nullptr) (void)cudaStreamDestroy(context->stream);
    delete context;
}

int fillContext(PiperCudaContext& context) {
    int status = answer(cudaSetDevice(context.device), "cudaSetDevice");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaDeviceGetAttribute(&context.multiprocessors, cudaDevAttrMultiProcessorCount,
                                           context.device),
                    "cudaDeviceGetAttribute");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking),
                    "cudaStreamCreate");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaEventCreate(&context.begin), "cudaEventCreate");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaEventCreate(&context.end), "cudaEventCreate");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cublasCreate(&context.blas), "cublasCreate");
    if (status != PIPER_CUDA_OK) return status;
    return answer(cublasSetStream(context.blas, context.stream), "cublasSetStream");
}

int openContext(std::int32_t device, PiperCudaContext** context) {
    if (context == nullptr) return refuse(PIPER_CUDA_INVALID, "openContext", "no place for it");
    *context = nullptr;
    auto* made = new (std::nothrow) PiperCudaContext;
    if (made == nullptr) return refuse(PIPER_CUDA_OUT_OF_MEMORY, "openContext", "host memory");
    made->device = device;
    const int status = fillContext(*made);
    if (status == PIPER_CUDA_OK) {
        *context = made;
    } else {
        closeContext(made);
    }
    return status;
}

int synchronize(PiperCudaContext* context) {
    const int status = selectDevice(context, "synchronize");
    return status != PIPER_CUDA_OK ? status
                                   : answer(cudaStreamSynchronize(context->stream), "synchronize");
}

int allocate(PiperCudaContext* context, std::int64_t bytes, void** data) {
    if (data == nullptr || bytes < 0) return refuse(PIPER_CUDA_INVALID, "allocate", "arguments");
    *data = nullptr;
    const int status = selectDevice(context, "allocate");
    if (status != PIPER_CUDA_OK || bytes == 0) return status;
    return answer(cudaMalloc(data, static_cast<std::size_t>(bytes)), "cudaMalloc");
}

int release(PiperCudaContext* context, void* data) {
    const int status = selectDevice(context, "release");
    return status != PIPER_CUDA_OK ? status : answer(cudaFree(data), "cudaFree");
}

int copy(PiperCudaContext* context, const void* from, void* to, std::int64_t bytes,
         cudaMemcpyKind kind, const char* what) {
    const int status = selectDevice(context, what);
    if (status != PIPER_CUDA_OK || bytes == 0) return status;
    if (from == nullptr || to == nullptr || bytes < 0) {
        return refuse(PIPER_CUDA_INVALID, what, "a null address or negative bytes");
    }
    return answer(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, context->stream),
                  what);
}

/// Host memory may go away after the call, so these two wait.
int copyToDevice(PiperCudaContext* context, const void* host, void* device, std::int64_t bytes) {
    const int status =
        copy(context, host, device, bytes, cudaMemcpyHostToDevice, "copy to the device");
    return status != PIPER_CUDA_OK ? status : synchronize(context);
}

int copyToHost(PiperCudaContext* context, const void* device, void* host, std::int64_t bytes) {
    const int status =
        copy(context, device, host, bytes, cudaMemcpyDeviceToHost, "copy to the host");
    return status != PIPER_CUDA_OK ? status : synchronize(context);
}

int copyOnDevice(PiperCudaContext* context, const void* from, void* to, std::int64_t bytes) {
    return copy(context, from, to, bytes, cudaMemcpyDeviceToDevice, "copy on the device");
}

int startTimer(PiperCudaContext* context) {
    const int status = selectDevice(context, "startTimer");
    return status != PIPER_CUDA_OK
               ? status
               : answer(cudaEventRecord(context->begin, context->stream), "cudaEventRecord");
}

int stopTimer(PiperCudaContext* context, double* seconds) {
    if (seconds == nullptr) return refuse(PIPER_CUDA_INVALID, "stopTimer", "no place for it");
    int status = selectDevice(context, "stopTimer");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaEventRecord(context->end, context->stream), "cudaEventRecord");
    if (status != PIPER_CUDA_OK) return status;
    status = answer(cudaEventSynchronize(context->end), "cudaEventSynchronize");
    if (status != PIPER_CUDA_OK) return status;
    float milliseconds = 0;
    status = answer(cudaEventElapsedTime(&milliseconds, context->begin, context->end),
                    "cudaEventElapsedTime");
    *seconds = static_cast<double>(milliseconds) * 1e-3;
    return status;
}

bool validGemm(const PiperCudaGemm& g) {
    constexpr std::int64_t kLimit = INT32_MAX;  // cublasGemmEx takes int
    return g.m >= 0 && g.n >= 0 && g.k >= 0 && g.m <= kLimit && g.n <= kLimit && g.k <= kLimit &&
           (g.type == PIPER_CUDA_F32 || g.type == PIPER_CUDA_BF16) && g.a != nullptr &&
           g.b != nullptr && g.c != nullptr;
}

int gemm(PiperCudaContext* context, const PiperCudaGemm* g) {
    const int status = selectDevice(context, "gemm");
    if (status != PIPER_CUDA_OK) return status;
    if (g == nullptr || !validGemm(*g)) {
        return refuse(PIPER_CUDA_INVALID, "gemm", "a size, a type or an address");
    }
    if (g->m == 0 || g->n == 0) return PIPER_CUDA_OK;
    const auto blas =
        piper::cuda::columnMajor(g->m, g->n, g->k, g->transpose_a != 0, g->transpose_b != 0);
    const cudaDataType type = g->type == PIPER_CUDA_F32 ? CUDA_R_32F : CUDA_R_16BF;
    return answer(
        cublasGemmEx(context->blas, blas.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                     blas.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(blas.m),
                     static_cast<int>(blas.n), static_cast<int>(blas.k), &g->alpha, g->b, type,
                     static_cast<int>(blas.lda), g->a, type, static_cast<int>(blas.ldb), &g->beta,
                     g->c, type, static_cast<int>(blas.ldc), CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

int swigluForward(PiperCudaContext* context, const float* gate_up, float* out, std::int64_t rows,
                  std::int64_t ffn) {
    const int status = selectDevice(context, "swigluForward");
    if (status != PIPER_CUDA_OK) return status;
    if (rows < 0 || ffn < 0) return refuse(PIPER_CUDA_INVALID, "swigluForward", "a negative size");
    if (rows == 0 || ffn == 0) return PIPER_CUDA_OK;
    return answer(piper::cuda::launchSwiglu({gate_up, out, rows, ffn}, context->multiprocessors,
                                            context->stream),
                  "swigluForward");
}

int permuteForward(PiperCudaContext* context, const float* x, const std::int32_t* slot_of_row,
                   float* rows, std::int64_t num_rows, std::int64_t router_topk,
                   std::int64_t hidden) {
    const int status = selectDevice(context, "permuteForward");
    if (status != PIPER_CUDA_OK) return status;
    if (num_rows < 0 || hidden < 0 || router_topk < 1) {
        return refuse(PIPER_CUDA_INVALID, "permuteForward", "a negative size or router_topk < 1");
    }
    if (num_rows == 0 || hidden == 0) return PIPER_CUDA_OK;
    return answer(piper::cuda::launchPermute({x, slot_of_row, rows, num_rows, router_topk, hidden},
                                             context->multiprocessors, context->stream),
                  "permuteForward");
}

constexpr PiperCudaApi kApi = {PIPER_CUDA_INTERFACE,
                               sizeof(PiperCudaApi),
                               CUDART_VERSION,
                               lastError,
                               deviceCount,
                               deviceInfo,
                               openContext,
                               closeContext,
                               synchronize,
                               allocate,
                               release,
                               copyToDevice,
                               copyToHost,
                               copyOnDevice,
                               startTimer,
                               stopTimer,
                               gemm,
                               swigluForward,
                               permuteForward};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PiperCudaApi* piperCudaApi(
    std::uint32_t wanted_interface) {
    return wanted_interface == PIPER_CUDA_INTERFACE ? &kApi : nullptr;
}
