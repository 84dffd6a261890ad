/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface of libpiper_cuda.so, the only module that links CUDA. Plain C types, no exception
 * and no C++ object crosses it, so that plugin and program may be built apart.
 *
 * The table only grows at its end; PIPER_CUDA_INTERFACE changes when a field changes its meaning.
 * Buffers are device memory unless said; matrices are row-major and contiguous. Kernels are queued
 * on the context's stream and are done after synchronize(). A context is used by one thread at a
 * time.
 */
#ifndef PIPER_KERNELS_CUDA_PLUGIN_H
#define PIPER_KERNELS_CUDA_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PIPER_CUDA_INTERFACE 1
#define PIPER_CUDA_ENTRY "piperCudaApi"

enum PiperCudaStatus {
    PIPER_CUDA_OK = 0,
    PIPER_CUDA_NO_DRIVER = 1, /* libcuda.so.1 absent, or older than the toolkit */
    PIPER_CUDA_NO_DEVICE = 2, /* a driver, but no device that it shows */
    PIPER_CUDA_OUT_OF_MEMORY = 3,
    PIPER_CUDA_INVALID = 4, /* arguments; lastError() names them */
    PIPER_CUDA_FAILED = 5   /* the device or a library of it; lastError() says what */
};

enum PiperCudaType { PIPER_CUDA_F32 = 0, PIPER_CUDA_BF16 = 1 };

typedef struct PiperCudaDevice {
    char name[256];
    int64_t total_bytes;
    int64_t free_bytes;
    int32_t compute_major, compute_minor;
    int32_t multiprocessors;
    int32_t l2_bytes;
} PiperCudaDevice;

/* c [m, n] = alpha * op(a) op(b) + beta * c; op(a) is [m, k], op(b) is [k, n].
 * Stored shapes: a [m, k] or, with transpose_a, [k, m]; b [k, n] or, with transpose_b, [n, k].
 * a, b and c have the type; sums are f32 (no TF32). */
typedef struct PiperCudaGemm {
    int64_t m, n, k;
    int32_t transpose_a, transpose_b;
    int32_t type;
    float alpha, beta;
    const void* a;
    const void* b;
    void* c;
} PiperCudaGemm;

typedef struct PiperCudaContext PiperCudaContext;

typedef struct PiperCudaApi {
    uint32_t interface_version; /* PIPER_CUDA_INTERFACE */
    uint32_t table_bytes;       /* sizeof(PiperCudaApi) of the plugin */
    int32_t toolkit_version;    /* CUDART_VERSION it was built with, e.g. 13000 */

    /* Why this thread's latest call did not answer OK: one line, valid until its next call. */
    const char* (*lastError)(void);
    int (*deviceCount)(int32_t* count);
    int (*deviceInfo)(int32_t device, PiperCudaDevice* info);

    int (*openContext)(int32_t device, PiperCudaContext** context);
    void (*closeContext)(PiperCudaContext* context);
    int (*synchronize)(PiperCudaContext* context);

    int (*allocate)(PiperCudaContext* context, int64_t bytes, void** data);
    int (*release)(PiperCudaContext* context, void* data);
    int (*copyToDevice)(PiperCudaContext* context, const void* host, void* device, int64_t bytes);
    int (*copyToHost)(PiperCudaContext* context, const void* device, void* host, int64_t bytes);
    int (*copyOnDevice)(PiperCudaContext* context, const void* from, void* to, int64_t bytes);

    /* Seconds the device spent between the two calls, by events on the stream; stop waits. */
    int (*startTimer)(PiperCudaContext* context);
    int (*stopTimer)(PiperCudaContext* context, double* seconds);

    int (*gemm)(PiperCudaContext* context, const PiperCudaGemm* gemm);
    /* gate_up [rows, 2 * ffn]: gate in the first columns, up in the last.
     * out [rows, ffn] = silu(gate) * up. f32. */
    int (*swigluForward)(PiperCudaContext* context, const float* gate_up, float* out, int64_t rows,
                         int64_t ffn);
    /* rows[r] = x[slot_of_row[r] / router_topk]; x [tokens, hidden], rows [num_rows, hidden]. f32.
     */
    int (*permuteForward)(PiperCudaContext* context, const float* x, const int32_t* slot_of_row,
                          float* rows, int64_t num_rows, int64_t router_topk, int64_t hidden);
} PiperCudaApi;

/* The one exported symbol. NULL when the plugin does not know the wanted interface. */
typedef const PiperCudaApi* (*PiperCudaEntry)(uint32_t wanted_interface);

#ifdef __cplusplus
}
#endif
#endif
