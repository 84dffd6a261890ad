/* SPDX-License-Identifier: Apache-2.0 */
/* cc moe_layer.c $(pkg-config --cflags --libs piper_alltoall) -lm
 * One MoE layer's exchanges, there and back and their gradients, through the C interface.
 * usage: mpirun -np 4 alltoall-example [ALGORITHM [WIRE]]
 * Every token goes to two experts; expert e multiplies by e + 1. Results are checked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <piper_alltoall.h>

enum { kTokens = 5, kTopk = 2, kHidden = 8, kLocal = 2 };

static void stop(const char* what) {
    fprintf(stderr, "%s: %s\n", what, piper_a2a_error());
    exit(1);
}

static void finish(piper_a2a_transfer* transfer, const char* what) {
    if (transfer == NULL || piper_a2a_wait(transfer) < 0) stop(what);
}

/* Local expert e of this rank multiplies its rows by its number + 1. */
static void runExperts(const piper_a2a_routed* routed, int64_t rank, float* rows) {
    const int64_t* offsets = piper_a2a_offsets(routed);
    for (int64_t e = 0; e < kLocal; ++e)
        for (int64_t i = offsets[e] * kHidden; i < offsets[e + 1] * kHidden; ++i)
            rows[i] *= (float)(rank * kLocal + e + 1);
}

int main(int argc, char** argv) {
    piper_a2a_world* world = piper_a2a_open();
    if (world == NULL) stop("open");
    const int64_t rank = piper_a2a_rank(world), experts = kLocal * piper_a2a_size(world);
    piper_a2a_options options = {argc > 1 ? argv[1] : "node_dedup", argc > 2 ? argv[2] : "fp32",
                                 kHidden, kLocal, NULL};
    piper_a2a_exchange* exchange = piper_a2a_make(world, &options);
    if (exchange == NULL) stop("make");

    int32_t chosen[kTokens * kTopk];
    float weights[kTokens * kTopk], x[kTokens * kHidden], out[kTokens * kHidden];
    float dx[kTokens * kHidden], d_weights[kTokens * kTopk];
    for (int t = 0; t < kTokens; ++t) {
        for (int k = 0; k < kTopk; ++k) {
            chosen[t * kTopk + k] = (int32_t)((rank + t + k * (experts / 2)) % experts);
            weights[t * kTopk + k] = 0.25f * (float)(k + 1);
        }
        for (int i = 0; i < kHidden; ++i) x[t * kHidden + i] = (float)(t - i);
    }
    piper_a2a_routed* routed = piper_a2a_route(exchange, kTokens, kTopk, chosen, weights);
    if (routed == NULL) stop("route");
    const int64_t rows = piper_a2a_rows(routed);
    float* y = malloc(sizeof(float) * (size_t)(rows * kHidden + 1));
    float* d_y = malloc(sizeof(float) * (size_t)(rows * kHidden + 1));
    if (y == NULL || d_y == NULL) return 1;

    finish(piper_a2a_dispatch(routed, x, y), "dispatch");
    runExperts(routed, rank, y);
    finish(piper_a2a_combine(routed, y, out), "combine");
    /* The loss is the sum of out: d_out is one everywhere. */
    float ones[kTokens * kHidden];
    for (int i = 0; i < kTokens * kHidden; ++i) ones[i] = 1.0f;
    finish(piper_a2a_combine_grad(routed, ones, y, d_y), "combine_grad");
    runExperts(routed, rank, d_y);
    finish(piper_a2a_dispatch_grad(routed, d_y, dx, d_weights), "dispatch_grad");

    int wrong = 0;
    for (int t = 0; t < kTokens; ++t) {
        float factor = 0.0f, sum = 0.0f;
        for (int k = 0; k < kTopk; ++k)
            factor += weights[t * kTopk + k] * (float)(chosen[t * kTopk + k] + 1);
        for (int i = 0; i < kHidden; ++i) {
            sum += x[t * kHidden + i];
            wrong += fabsf(out[t * kHidden + i] - factor * x[t * kHidden + i]) > 1e-4f;
            wrong += fabsf(dx[t * kHidden + i] - factor) > 1e-4f;
        }
        for (int k = 0; k < kTopk; ++k)
            wrong +=
                fabsf(d_weights[t * kTopk + k] - sum * (float)(chosen[t * kTopk + k] + 1)) > 1e-3f;
    }
    printf("rank %d: %d rows here, %d values wrong\n", (int)rank, (int)rows, wrong);
    free(y);
    free(d_y);
    piper_a2a_routed_free(routed);
    piper_a2a_free(exchange);
    piper_a2a_close(world);
    return wrong == 0 ? 0 : 1;
}
