// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/index_math.h"

namespace piper::cuda {

/// Queue the kernel on the stream; the answer is that of the launch.
cudaError_t launchSwiglu(const SwigluArguments& arguments, int multiprocessors,
                         cudaStream_t stream);
cudaError_t launchPermute(const PermuteArguments& arguments, int multiprocessors,
                          cudaStream_t stream);

}  // namespace piper::cuda
