// SPDX-License-Identifier: Apache-2.0
// Router and permutation; their bodies are in router_kernels.h.
#include "kernels/cuda/launches.h"
#include "kernels/cuda/portable_machine.cuh"

namespace piper::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kScanThreads = 1024;

__global__ void __launch_bounds__(kThreads) routerKernel(RouterArguments arguments) {
    PortableMachine machine;
    routerBody(machine, arguments);
}
__global__ void __launch_bounds__(kThreads) routerGradKernel(RouterGradArguments arguments) {
    PortableMachine machine;
    routerGradBody(machine, arguments);
}
__global__ void __launch_bounds__(kThreads) countKernel(PermutationArguments arguments) {
    PortableMachine machine;
    permutationCountBody(machine, arguments);
}
__global__ void __launch_bounds__(kScanThreads) scanKernel(PermutationArguments arguments) {
    PortableMachine machine;
    permutationScanBody(machine, arguments);
}
__global__ void __launch_bounds__(kThreads) placeKernel(PermutationArguments arguments) {
    PortableMachine machine;
    permutationPlaceBody(machine, arguments);
}

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
