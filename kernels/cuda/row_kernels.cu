// SPDX-License-Identifier: Apache-2.0
// Memory-bound kernels over rows; their bodies are in row_kernels.h and loss_kernels.h.
#include "kernels/cuda/launches.h"
#include "kernels/cuda/portable_machine.cuh"

namespace piper::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;  // 2048 threads: full occupancy

#define PIPER_ROW_KERNEL(kernel, body, Arguments)                                \
    template <int Width, class T>                                                \
    __global__ void __launch_bounds__(kThreads) kernel(Arguments<T> arguments) { \
        PortableMachine machine;                                                 \
        body<Width>(machine, arguments);                                         \
    }
PIPER_ROW_KERNEL(permuteKernel, permuteBody, PermuteArguments)
PIPER_ROW_KERNEL(combineKernel, combineBody, CombineArguments)
PIPER_ROW_KERNEL(combineGradKernel, combineGradBody, CombineGradArguments)
PIPER_ROW_KERNEL(swigluKernel, swigluBody, SwigluArguments)
PIPER_ROW_KERNEL(swigluGradKernel, swigluGradBody, SwigluArguments)
PIPER_ROW_KERNEL(crossEntropyKernel, crossEntropyBody, CrossEntropyArguments)
#undef PIPER_ROW_KERNEL

/// Starts kernel<16 bytes> where the widths and addresses allow it, else kernel<1>.
template <class Arguments>
cudaError_t start(void (*wide)(Arguments), void (*narrow)(Arguments), bool fits,
                  const Arguments& arguments, int blocks, int shared, cudaStream_t stream) {
    (fits ? wide : narrow)<<<static_cast<unsigned>(blocks), kThreads,
                             static_cast<std::size_t>(shared), stream>>>(arguments);
    return cudaGetLastError();
}

int warpBlocks(std::int64_t rows, int multiprocessors) {
    return rowBlocks(rows, kThreads / 32, multiprocessors * kBlocksPerMultiprocessor);
}

template <class T, class... Addresses>
bool widePacks(std::int64_t columns, Addresses... addresses) {
    return (packsFit<T, kPackWidth<T>>(columns, addresses) && ...);
}

}  // namespace

template <class T>
cudaError_t launchPermute(const PermuteArguments<T>& a, int multiprocessors, cudaStream_t stream) {
    return start(permuteKernel<kPackWidth<T>, T>, permuteKernel<1, T>,
                 widePacks<T>(a.hidden, a.x, a.rows), a, warpBlocks(a.num_rows, multiprocessors), 0,
                 stream);
}
template <class T>
cudaError_t launchCombine(const CombineArguments<T>& a, int multiprocessors, cudaStream_t stream) {
    return start(combineKernel<kPackWidth<T>, T>, combineKernel<1, T>,
                 widePacks<T>(a.hidden, a.rows, a.y), a, warpBlocks(a.tokens, multiprocessors), 0,
                 stream);
}
template <class T>
cudaError_t launchCombineGrad(const CombineGradArguments<T>& a, int multiprocessors,
                              cudaStream_t stream) {
    return start(combineGradKernel<kPackWidth<T>, T>, combineGradKernel<1, T>,
                 widePacks<T>(a.hidden, a.dy, a.rows, a.drows), a,
                 warpBlocks(a.tokens * a.router_topk, multiprocessors), 0, stream);
}
template <class T>
cudaError_t launchSwiglu(const SwigluArguments<T>& a, int multiprocessors, cudaStream_t stream) {
    const int blocks = warpBlocks(a.rows, multiprocessors);
    if (a.dout == nullptr) {
        return start(swigluKernel<kPackWidth<T>, T>, swigluKernel<1, T>,
                     widePacks<T>(a.ffn, a.gate_up, a.result), a, blocks, 0, stream);
    }
    return start(swigluGradKernel<kPackWidth<T>, T>, swigluGradKernel<1, T>,
                 widePacks<T>(a.ffn, a.gate_up, a.result, a.dout), a, blocks, 0, stream);
}
template <class T>
cudaError_t launchCrossEntropy(const CrossEntropyArguments<T>& a, int multiprocessors,
                               cudaStream_t stream) {
    const int blocks = rowBlocks(a.rows, 1, multiprocessors * kBlocksPerMultiprocessor);
    return start(crossEntropyKernel<kPackWidth<T>, T>, crossEntropyKernel<1, T>,
                 widePacks<T>(a.vocab, a.logits), a, blocks, kThreads / 32 * 8, stream);
}

#define PIPER_FOR_TYPE(T)                                                                      \
    template cudaError_t launchPermute(const PermuteArguments<T>&, int, cudaStream_t);         \
    template cudaError_t launchCombine(const CombineArguments<T>&, int, cudaStream_t);         \
    template cudaError_t launchCombineGrad(const CombineGradArguments<T>&, int, cudaStream_t); \
    template cudaError_t launchSwiglu(const SwigluArguments<T>&, int, cudaStream_t);           \
    template cudaError_t launchCrossEntropy(const CrossEntropyArguments<T>&, int, cudaStream_t);
PIPER_FOR_TYPE(float)
PIPER_FOR_TYPE(Bf16)
#undef PIPER_FOR_TYPE

}  // namespace piper::cuda
