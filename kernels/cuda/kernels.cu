// SPDX-License-Identifier: Apache-2.0
// Memory-bound kernels: a grid-stride loop over packs of four floats, or single ones where width or
// address do not allow packs. The body of each is in index_math.h and tested on the host.
#include "kernels/cuda/kernels.h"

namespace piper::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;  // 2048 threads: full occupancy

__device__ std::int64_t threadNumber() {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t threadCount() {
    return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

template <int Width>
__global__ void __launch_bounds__(kThreads) swigluKernel(SwigluArguments arguments) {
    swigluThread<Width>(arguments, threadNumber(), threadCount());
}

template <int Width>
__global__ void __launch_bounds__(kThreads) permuteKernel(PermuteArguments arguments) {
    permuteThread<Width>(arguments, threadNumber(), threadCount());
}

unsigned blocksFor(std::int64_t items, int multiprocessors) {
    return static_cast<unsigned>(
        gridBlocks(items, kThreads, std::int64_t{multiprocessors} * kBlocksPerMultiprocessor));
}

}  // namespace

cudaError_t launchSwiglu(const SwigluArguments& a, int multiprocessors, cudaStream_t stream) {
    const std::int64_t items = a.rows * a.ffn;
    if (packsFit<4>(a.ffn, a.gate_up) && packsFit<4>(a.ffn, a.out)) {
        swigluKernel<4><<<blocksFor(items / 4, multiprocessors), kThreads, 0, stream>>>(a);
    } else {
        swigluKernel<1><<<blocksFor(items, multiprocessors), kThreads, 0, stream>>>(a);
    }
    return cudaGetLastError();
}

cudaError_t launchPermute(const PermuteArguments& a, int multiprocessors, cudaStream_t stream) {
    const std::int64_t items = a.num_rows * a.hidden;
    if (packsFit<4>(a.hidden, a.x) && packsFit<4>(a.hidden, a.rows)) {
        permuteKernel<4><<<blocksFor(items / 4, multiprocessors), kThreads, 0, stream>>>(a);
    } else {
        permuteKernel<1><<<blocksFor(items, multiprocessors), kThreads, 0, stream>>>(a);
    }
    return cudaGetLastError();
}

}  // namespace piper::cuda
