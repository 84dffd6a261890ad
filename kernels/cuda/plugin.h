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

#define PIPER_CUDA_INTERFACE 2
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

/* A product for each group (local expert) of rows of bf16, sums in f32; group g has the rows
 * offsets[g] to offsets[g + 1]. The counts are read on the device; the host knows only the room.
 *   FORWARD      result [rows, out] = x w^T
 *   INPUT_GRAD   result [rows, in]  = dy w
 *   WEIGHT_GRAD  result [groups * out, in], f32, += dy^T x
 * x [rows, in], dy [rows, out], w [groups * out, in]; in and out are multiples of 8, addresses of
 * 16 bytes. Rows from offsets[groups] to `rows` may be read, but do not count and are not
 * written. */
enum PiperCudaGroupedKind {
    PIPER_CUDA_FORWARD = 0,
    PIPER_CUDA_INPUT_GRAD = 1,
    PIPER_CUDA_WEIGHT_GRAD = 2
};
/* PORTABLE: mma.sync, compute 8.0 and newer. HOPPER: TMA and WGMMA, compute 9.0. */
enum PiperCudaPath { PIPER_CUDA_AUTOMATIC = 0, PIPER_CUDA_PORTABLE = 1, PIPER_CUDA_HOPPER = 2 };

typedef struct PiperCudaGrouped {
    int32_t kind, path;
    int64_t rows; /* room for rows; at least offsets[groups] */
    int32_t groups;
    int64_t in, out;
    const void* x;
    const void* dy;
    const void* w;
    void* result;
    const int64_t* offsets; /* [groups + 1] on the device */
} PiperCudaGrouped;

enum PiperCudaBaseline { PIPER_CUDA_BASELINE_GROUPED = 0, PIPER_CUDA_BASELINE_LOOP = 1 };

/* y[token] (+)= sum over its slots, in order, of weights[slot] * rows[row_of_slot[slot]]; without
 * weights the gradient of permute. A negative row_of_slot is a dropped slot. */
typedef struct PiperCudaCombine {
    int32_t type, accumulate;
    int64_t tokens, router_topk, hidden;
    const void* rows;           /* [num_rows, hidden] */
    const int32_t* row_of_slot; /* [tokens, router_topk] */
    const float* weights;       /* [tokens, router_topk] or NULL */
    void* y;                    /* [tokens, hidden] */
} PiperCudaCombine;

/* drows[row] = weights[slot] * dy[token]; dweights[slot] = dy[token] . rows[row], 0 if dropped. */
typedef struct PiperCudaCombineGrad {
    int32_t type;
    int64_t tokens, router_topk, hidden;
    const void* dy;             /* [tokens, hidden] */
    const void* rows;           /* [num_rows, hidden] */
    const int32_t* row_of_slot; /* [tokens, router_topk] */
    const float* weights;       /* [tokens, router_topk] */
    void* drows;                /* [num_rows, hidden] */
    float* dweights;            /* [tokens, router_topk] */
} PiperCudaCombineGrad;

/* Slots (token * router_topk + choice) sorted by expert, stable, without padding. */
typedef struct PiperCudaPermutation {
    int64_t slots, num_experts;
    const int32_t* experts; /* [slots] */
    int64_t* offsets;       /* [num_experts + 1] */
    int32_t* slot_of_row;   /* [slots] */
    int32_t* row_of_slot;   /* [slots], -1 for an expert out of range */
    int32_t* bad_slot;      /* [1]: set to a slot whose expert is out of range, else left */
    int32_t* scratch;       /* [PIPER_CUDA_PERMUTATION_CHUNKS * num_experts] */
} PiperCudaPermutation;
/* Chunks of the scratch memory: at most this many for any number of slots. */
#define PIPER_CUDA_PERMUTATION_CHUNKS 1025

/* Scoring and selection as the CPU's router does it; ties go to the lower expert. */
typedef struct PiperCudaRouter {
    int64_t tokens, num_experts, router_topk;
    int64_t num_groups, topk_groups; /* 1, 1: no group limit */
    int64_t nodes, node_limit;       /* node_limit 0: none */
    int32_t sigmoid, normalize, replay;
    float scale;
    const float* logits;           /* [tokens, num_experts] */
    const float* bias;             /* [num_experts] or NULL */
    const int32_t* node_of_expert; /* [num_experts] or NULL */
    float* scores;                 /* [tokens, num_experts] */
    int32_t* experts;              /* [tokens, router_topk]; read when replay is set */
    float* weights;                /* [tokens, router_topk] */
    int32_t* bad_row;              /* [1]: set to a row whose logits are not finite, else left */
} PiperCudaRouter;

typedef struct PiperCudaRouterGrad {
    int64_t tokens, num_experts, router_topk;
    int32_t sigmoid, normalize;
    float scale;
    const float* scores;    /* [tokens, num_experts] */
    const int32_t* experts; /* [tokens, router_topk] */
    const float* dweights;  /* [tokens, router_topk] */
    const float* dscore;    /* [num_experts], added to every row's, or NULL */
    float* dlogits;         /* [tokens, num_experts] */
} PiperCudaRouterGrad;

/* forward: lse [rows] and row_loss = lse - logit of the target. gradient: logits become scale *
 * (softmax - onehot) in place, of the lse that forward found or, without forward, of the given one
 * (of all ranks' parts of the vocabulary). Targets below 0 do not count, but PIPER_CUDA_ELSEWHERE:
 * the target is in another rank's part. */
#define PIPER_CUDA_ELSEWHERE (-(1 << 30))
typedef struct PiperCudaCrossEntropy {
    int32_t type, forward, gradient;
    int64_t rows, vocab;
    float scale;
    void* logits;           /* [rows, vocab] */
    const int32_t* targets; /* [rows] */
    float* lse;             /* [rows] */
    float* row_loss;        /* [rows] or NULL */
    int32_t* bad_row;       /* [1]: set to a row whose target is beyond the vocabulary, else left */
} PiperCudaCrossEntropy;

/* Memory of another process on the same host; a process cannot import its own. A handle stands for
 * a whole allocation, the memory lies `offset` bytes into it. */
#define PIPER_CUDA_IPC_BYTES 64
typedef struct PiperCudaIpcMemory {
    unsigned char handle[PIPER_CUDA_IPC_BYTES];
    int64_t offset;
} PiperCudaIpcMemory;
typedef struct PiperCudaEvent PiperCudaEvent;

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
    int (*groupedGemm)(PiperCudaContext* context, const PiperCudaGrouped* grouped);
    /* The same by cuBLAS, for comparison: offsets on the host too. GROUPED: one call of
     * cublasGemmGroupedBatchedEx (no weight gradient: it has no f32 result of bf16); LOOP: a
     * cublasLtMatmul for each group that has rows. Copies pointers to the device: not for a step.
     */
    int (*groupedBaseline)(PiperCudaContext* context, int32_t baseline,
                           const PiperCudaGrouped* grouped, const int64_t* host_offsets);

    /* gate_up [rows, 2 * ffn]: gate in the first columns, up in the last.
     * out [rows, ffn] = silu(gate) * up. */
    int (*swigluForward)(PiperCudaContext* context, int32_t type, const void* gate_up, void* out,
                         int64_t rows, int64_t ffn);
    int (*swigluInputGrad)(PiperCudaContext* context, int32_t type, const void* dout,
                           const void* gate_up, void* dgate_up, int64_t rows, int64_t ffn);
    /* rows[r] = x[slot_of_row[r] / router_topk], zeros for a negative slot; x [tokens, hidden],
     * rows [num_rows, hidden]. */
    int (*permuteForward)(PiperCudaContext* context, int32_t type, const void* x,
                          const int32_t* slot_of_row, void* rows, int64_t num_rows,
                          int64_t router_topk, int64_t hidden);
    int (*combineForward)(PiperCudaContext* context, const PiperCudaCombine* combine);
    int (*combineInputGrad)(PiperCudaContext* context, const PiperCudaCombineGrad* combine);
    int (*makePermutation)(PiperCudaContext* context, const PiperCudaPermutation* permutation);
    int (*routerForward)(PiperCudaContext* context, const PiperCudaRouter* router);
    int (*routerInputGrad)(PiperCudaContext* context, const PiperCudaRouterGrad* router);
    int (*crossEntropy)(PiperCudaContext* context, const PiperCudaCrossEntropy* loss);

    /* Ranks on one host. Keep exported memory until every importer has closed it. */
    int (*exportMemory)(PiperCudaContext* context, const void* data, PiperCudaIpcMemory* memory);
    int (*importMemory)(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void** data);
    int (*closeMemory)(PiperCudaContext* context, const PiperCudaIpcMemory* memory, void* data);
    /* An event that another process may import; `handle` takes PIPER_CUDA_IPC_BYTES. Record it
     * before the other process waits for it: a wait for an event never recorded does not wait. */
    int (*createEvent)(PiperCudaContext* context, PiperCudaEvent** event, unsigned char* handle);
    int (*importEvent)(PiperCudaContext* context, const unsigned char* handle,
                       PiperCudaEvent** event);
    int (*destroyEvent)(PiperCudaContext* context, PiperCudaEvent* event);
    int (*recordEvent)(PiperCudaContext* context, PiperCudaEvent* event);
    int (*waitEvent)(PiperCudaContext* context, PiperCudaEvent* event); /* the stream waits */
} PiperCudaApi;

/* The one exported symbol. NULL when the plugin does not know the wanted interface. */
typedef const PiperCudaApi* (*PiperCudaEntry)(uint32_t wanted_interface);

#ifdef __cplusplus
}
#endif
#endif
