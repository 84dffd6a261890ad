// SPDX-License-Identifier: Apache-2.0
// The table of libpiper_cuda.so. Every function answers a PiperCudaStatus and leaves its reason in
// a text of the calling thread; nothing throws out of here.
#include "kernels/cuda/plugin.h"

#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/cuda/context.h"
#include "kernels/cuda/operations.h"

namespace {

using piper::cuda::answer;
using piper::cuda::refuse;
using piper::cuda::selectDevice;

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

int readTraits(PiperCudaContext& context) {
    const auto read = [&](int* value, cudaDeviceAttr attribute) {
        return answer(cudaDeviceGetAttribute(value, attribute, context.device),
                      "cudaDeviceGetAttribute");
    };
    const int status = read(&context.traits.compute_major, cudaDevAttrComputeCapabilityMajor);
    if (status != PIPER_CUDA_OK) return status;
#if PIPER_CUDA_WGMMA  // else no kernel uses it
    context.encode_tensor_map = piper::cuda::driverFunction("cuTensorMapEncodeTiled");
#endif
    context.traits.tensor_maps = context.encode_tensor_map != nullptr;
    return read(&context.traits.multiprocessors, cudaDevAttrMultiProcessorCount);
}

int fillContext(PiperCudaContext& context) {
    int status = answer(cudaSetDevice(context.device), "cudaSetDevice");
    if (status != PIPER_CUDA_OK) return status;
    status = readTraits(context);
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

constexpr PiperCudaApi kApi = {PIPER_CUDA_INTERFACE,
                               sizeof(PiperCudaApi),
                               CUDART_VERSION,
                               piper::cuda::lastError,
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
                               piper::cuda::gemm,
                               piper::cuda::groupedGemm,
                               piper::cuda::groupedBaseline,
                               piper::cuda::swigluForward,
                               piper::cuda::swigluInputGrad,
                               piper::cuda::permuteForward,
                               piper::cuda::combineForward,
                               piper::cuda::combineInputGrad,
                               piper::cuda::makePermutation,
                               piper::cuda::routerForward,
                               piper::cuda::routerInputGrad,
                               piper::cuda::crossEntropy,
                               piper::cuda::exportMemory,
                               piper::cuda::importMemory,
                               piper::cuda::closeMemory,
                               piper::cuda::createEvent,
                               piper::cuda::importEvent,
                               piper::cuda::destroyEvent,
                               piper::cuda::recordEvent,
                               piper::cuda::waitEvent};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PiperCudaApi* piperCudaApi(
    std::uint32_t wanted_interface) {
    return wanted_interface == PIPER_CUDA_INTERFACE ? &kApi : nullptr;
}
