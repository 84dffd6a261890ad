/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch and combine of mixture-of-experts rows over MPI ranks, for C and for what can call C.
 * Link with -lpiper_alltoall. docs/alltoall.md describes the algorithms, their message
 * counts and bytes; packaging/examples/alltoall/moe_layer.c is a whole program.
 *
 * All ranks make the same calls in the same order. Pointers belong to the caller and live until the
 * transfer that reads or writes them is waited for. A function that returns a pointer returns NULL,
 * and one that returns int a value below 0, when it failed: piper_a2a_error() says why. */
#ifndef PIPER_ALLTOALL_H
#define PIPER_ALLTOALL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct piper_a2a_world piper_a2a_world;
typedef struct piper_a2a_exchange piper_a2a_exchange;
typedef struct piper_a2a_routed piper_a2a_routed;
typedef struct piper_a2a_transfer piper_a2a_transfer;

/* What the last failed call of this thread could not do. */
const char* piper_a2a_error(void);

/* The ranks that mpirun or srun started; MPI is initialised where it is not yet, and finalised by
 * close only then. The launcher's node ids tell which ranks share a node. */
piper_a2a_world* piper_a2a_open(void);
void piper_a2a_close(piper_a2a_world* world);
int64_t piper_a2a_rank(const piper_a2a_world* world);
int64_t piper_a2a_size(const piper_a2a_world* world);

/* Plain all-to-allv: send_bytes and recv_bytes [size], blocks grouped by rank in rank order.
 * algorithm: "flat", "node", "rail", "node_pair", "auto". */
int piper_a2a_alltoallv(piper_a2a_world* world, const char* algorithm, const void* send,
                        const int64_t* send_bytes, void* recv, const int64_t* recv_bytes);

typedef struct piper_a2a_options {
    const char* algorithm; /* "vendor", "flat", "node", "rail", "node_pair", "rank_dedup",
                              "node_dedup", "rack_dedup" */
    const char* wire;      /* "fp32", "bf16", "fp8" */
    int64_t hidden;        /* floats of a row */
    int64_t local_experts; /* of each rank; expert e lies on rank e / local_experts */
    const int64_t* racks;  /* [size] for "rack_dedup", else NULL */
} piper_a2a_options;

piper_a2a_exchange* piper_a2a_make(piper_a2a_world* world, const piper_a2a_options* options);
void piper_a2a_free(piper_a2a_exchange* exchange);

/* experts and weights [tokens * topk]; both live as long as the result. Blocks. */
piper_a2a_routed* piper_a2a_route(piper_a2a_exchange* exchange, int64_t tokens, int64_t topk,
                                  const int32_t* experts, const float* weights);
void piper_a2a_routed_free(piper_a2a_routed* routed);
/* Rows for this rank's experts, sorted by expert, source rank, token. */
int64_t piper_a2a_rows(const piper_a2a_routed* routed);
/* [local_experts + 1]: the rows of local expert e are offsets[e] .. offsets[e + 1] - 1. */
const int64_t* piper_a2a_offsets(const piper_a2a_routed* routed);

/* x [tokens, hidden] -> rows [rows, hidden]. */
piper_a2a_transfer* piper_a2a_dispatch(piper_a2a_routed* routed, const float* x, float* rows);
/* y [rows, hidden] -> out [tokens, hidden] = sum of weight * row over a token's experts. */
piper_a2a_transfer* piper_a2a_combine(piper_a2a_routed* routed, const float* y, float* out);
/* d_out [tokens, hidden], y as combined -> d_y [rows, hidden]. */
piper_a2a_transfer* piper_a2a_combine_grad(piper_a2a_routed* routed, const float* d_out,
                                           const float* y, float* d_y);
/* d_rows [rows, hidden] -> dx [tokens, hidden], d_weights [tokens * topk]; after combine_grad. */
piper_a2a_transfer* piper_a2a_dispatch_grad(piper_a2a_routed* routed, const float* d_rows,
                                            float* dx, float* d_weights);

/* 1 when done, 0 when not; gives relays a chance to pass on what has come. */
int piper_a2a_test(piper_a2a_transfer* transfer);
/* Waits and frees; 0 or below 0. */
int piper_a2a_wait(piper_a2a_transfer* transfer);

#ifdef __cplusplus
}
#endif

#endif
