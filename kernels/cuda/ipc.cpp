// SPDX-License-Identifier: Apache-2.0
// Device memory and events of another process on the same host (CUDA IPC).
#include <cuda.h>

#include <cstring>
#include <new>

#include "kernels/cuda/context.h"
#include "kernels/cuda/operations.h"

struct PiperCudaEvent {
    cudaEvent_t event = nullptr;
};

namespace piper::cuda {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == PIPER_CUDA_IPC_BYTES);
static_assert(sizeof(cudaIpcEventHandle_t) == PIPER_CUDA_IPC_BYTES);

/// First address of the allocation that holds `data`; a handle stands for the whole of it.
cudaError_t allocationStart(const void* data, const unsigned char*& start) {
    void* function = driverFunction("cuMemGetAddressRange");
    if (function == nullptr) return cudaErrorNotSupported;
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const CUresult result = reinterpret_cast<decltype(&cuMemGetAddressRange)>(function)(
        &base, &bytes, reinterpret_cast<CUdeviceptr>(data));
    start = reinterpret_cast<const unsigned char*>(base);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

int makeEvent(PiperCudaEvent** event) {
    if (event == nullptr) return refuse(PIPER_CUDA_INVALID, "event", "no place for it");
    *event = new (std::nothrow) PiperCudaEvent;
    return *event != nullptr ? PIPER_CUDA_OK
                             : refuse(PIPER_CUDA_OUT_OF_MEMORY, "event", "host memory");
}

/// Answers `error`, and drops the event when it is one.
int keepEvent(PiperCudaEvent** event, cudaError_t error, const char* what) {
    if (error != cudaSuccess) {
        if ((*event)->event != nullptr) (void)cudaEventDestroy((*event)->event);
        delete *event;
        *event = nullptr;
    }
    return answer(error, what);
}

}  // namespace

int exportMemory(PiperCudaContext* context, const void* data, PiperCudaIpcMemory* memory) {
    const int status = selectDevice(context, "exportMemory");
    if (status != PIPER_CUDA_OK) return status;
    if (data == nullptr || memory == nullptr) {
        return refuse(PIPER_CUDA_INVALID, "exportMemory", "a null address");
    }
    const unsigned char* start = nullptr;
    cudaError_t error = allocationStart(data, start);
    if (error != cudaSuccess) return answer(error, "cuMemGetAddressRange");
    cudaIpcMemHandle_t handle{};
    error = cudaIpcGetMemHandle(&handle, const_cast<unsigned char*>(start));
    std::memcpy(memory->handle, &handle, sizeof handle);
    memory->offset = static_cast<const unsigned char*>(data) - start;
    return answer(error, "cudaIpcGetMemHandle");
}

int importMemory(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void** data) {
    const int status = selectDevice(context, "importMemory");
    if (status != PIPER_CUDA_OK) return status;
    if (data == nullptr || memory == nullptr) {
        return refuse(PIPER_CUDA_INVALID, "importMemory", "a null address");
    }
    cudaIpcMemHandle_t handle{};
    std::memcpy(&handle, memory->handle, sizeof handle);
    void* start = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&start, handle, cudaIpcMemLazyEnablePeerAccess);
    *data = error == cudaSuccess ? static_cast<unsigned char*>(start) + memory->offset : nullptr;
    return answer(error, "cudaIpcOpenMemHandle");
}

int closeMemory(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void* data) {
    const int status = selectDevice(context, "closeMemory");
    if (status != PIPER_CUDA_OK) return status;
    if (data == nullptr || memory == nullptr) {
        return refuse(PIPER_CUDA_INVALID, "closeMemory", "a null address");
    }
    return answer(cudaIpcCloseMemHandle(static_cast<unsigned char*>(data) - memory->offset),
                  "cudaIpcCloseMemHandle");
}

int createEvent(PiperCudaContext* context, PiperCudaEvent** event, unsigned char* handle) {
    int status = selectDevice(context, "createEvent");
    if (status != PIPER_CUDA_OK) return status;
    if (handle == nullptr) return refuse(PIPER_CUDA_INVALID, "createEvent", "no place for it");
    status = makeEvent(event);
    if (status != PIPER_CUDA_OK) return status;
    cudaError_t error =
        cudaEventCreateWithFlags(&(*event)->event, cudaEventDisableTiming | cudaEventInterprocess);
    cudaIpcEventHandle_t exported{};
    if (error == cudaSuccess) error = cudaIpcGetEventHandle(&exported, (*event)->event);
    std::memcpy(handle, &exported, sizeof exported);
    return keepEvent(event, error, "cudaIpcGetEventHandle");
}

int importEvent(PiperCudaContext* context, const unsigned char* handle, PiperCudaEvent** event) {
    int status = selectDevice(context, "importEvent");
    if (status != PIPER_CUDA_OK) return status;
    if (handle == nullptr) return refuse(PIPER_CUDA_INVALID, "importEvent", "no handle");
    status = makeEvent(event);
    if (status != PIPER_CUDA_OK) return status;
    cudaIpcEventHandle_t exported{};
    std::memcpy(&exported, handle, sizeof exported);
    return keepEvent(event, cudaIpcOpenEventHandle(&(*event)->event, exported),
                     "cudaIpcOpenEventHandle");
}

int destroyEvent(PiperCudaContext* context, PiperCudaEvent* event) {
    const int status = selectDevice(context, "destroyEvent");
    if (status != PIPER_CUDA_OK || event == nullptr) return status;
    const cudaError_t error = cudaEventDestroy(event->event);
    delete event;
    return answer(error, "cudaEventDestroy");
}

int recordEvent(PiperCudaContext* context, PiperCudaEvent* event) {
    const int status = selectDevice(context, "recordEvent");
    if (status != PIPER_CUDA_OK) return status;
    if (event == nullptr) return refuse(PIPER_CUDA_INVALID, "recordEvent", "no event");
    return answer(cudaEventRecord(event->event, context->stream), "cudaEventRecord");
}

int waitEvent(PiperCudaContext* context, PiperCudaEvent* event) {
    const int status = selectDevice(context, "waitEvent");
    if (status != PIPER_CUDA_OK) return status;
    if (event == nullptr) return refuse(PIPER_CUDA_INVALID, "waitEvent", "no event");
    return answer(cudaStreamWaitEvent(context->stream, event->event, 0), "cudaStreamWaitEvent");
}

}  // namespace piper::cuda
