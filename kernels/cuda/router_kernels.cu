// SPDX-License-Identifier: Apache-2.0
// Router and permutation; their bodies are in router_kernels.h.
#include "kernels/cuda/launches.h"
#include "kernels/cuda/portable_machine.cuh"

namespace piper::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kScanThreads = 1024;

#define PIPER_ROUTER_KERNEL(kernel, body, Arguments, threads)                \
    __global__ void __launch_bounds__(threads) kernel(Arguments arguments) { \
        PortableMachine machine;                                             \
        body(machine, arguments);                                            \
    }
PIPER_ROUTER_KERNEL(routerKernel, routerBody, RouterArguments, kThreads)
PIPER_ROUTER_KERNEL(routerGradKernel, routerGradBody, RouterGradArguments, kThreads)
PIPER_ROUTER_KERNEL(countKernel, permutationCountBody, PermutationArguments, kThreads)
PIPER_ROUTER_KERNEL(scanKernel, permutationScanBody, PermutationArguments, kScanThreads)
PIPER_ROUTER_KERNEL(placeKernel, permutationPlaceBody, PermutationArguments, kThreads)
#undef PIPER_ROUTER_KERNEL

unsigned warpBlocks(std::int64_t warps, int limit) {
    return static_cast<unsigned>(rowBlocks(warps, kWarps, limit));
}

}  // namespace

cudaError_t launchRouter(const RouterArguments& a, int multiprocessors, cudaStream_t stream) {
    const auto shared = static_cast<std::size_t>(kWarps * routerWarpBytes(a.num_experts));
    routerKernel<<<warpBlocks(a.tokens, multiprocessors * 16), kThreads, shared, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t launchRouterGrad(const RouterGradArguments& a, int multiprocessors,
                             cudaStream_t stream) {
    routerGradKernel<<<warpBlocks(a.tokens, multiprocessors * 16), kThreads, 0, stream>>>(a);
    return cudaGetLastError();
}

cudaError_t launchPermutation(const PermutationArguments& a, cudaStream_t stream) {
    const unsigned blocks = warpBlocks(a.chunks, a.chunks);
    const auto shared = static_cast<std::size_t>(kWarps * a.num_experts * 4);
    countKernel<<<blocks, kThreads, shared, stream>>>(a);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    scanKernel<<<1, kScanThreads, static_cast<std::size_t>(a.num_experts * 4), stream>>>(a);
    error = cudaGetLastError();
    if (error != cudaSuccess) return error;
    placeKernel<<<blocks, kThreads, shared, stream>>>(a);
    return cudaGetLastError();
}

}  // namespace piper::cuda
