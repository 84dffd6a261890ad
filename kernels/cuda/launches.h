// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/loss_kernels.h"
#include "kernels/cuda/router_kernels.h"
#include "kernels/cuda/row_kernels.h"

namespace piper::cuda {

// Each queues its kernels on the stream; the answer is that of the launch. T: float or Bf16.

template <class T>
cudaError_t launchPermute(const PermuteArguments<T>& arguments, int multiprocessors,
                          cudaStream_t stream);
template <class T>
cudaError_t launchCombine(const CombineArguments<T>& arguments, int multiprocessors,
                          cudaStream_t stream);
template <class T>
cudaError_t launchCombineGrad(const CombineGradArguments<T>& arguments, int multiprocessors,
                              cudaStream_t stream);
/// The gradient when arguments.dout is given.
template <class T>
cudaError_t launchSwiglu(const SwigluArguments<T>& arguments, int multiprocessors,
                         cudaStream_t stream);
template <class T>
cudaError_t launchCrossEntropy(const CrossEntropyArguments<T>& arguments, int multiprocessors,
                               cudaStream_t stream);

cudaError_t launchRouter(const RouterArguments& arguments, int multiprocessors,
                         cudaStream_t stream);
cudaError_t launchRouterGrad(const RouterGradArguments& arguments, int multiprocessors,
                             cudaStream_t stream);
/// Three kernels: counts of each chunk, their sums, places.
cudaError_t launchPermutation(const PermutationArguments& arguments, cudaStream_t stream);

}  // namespace piper::cuda
