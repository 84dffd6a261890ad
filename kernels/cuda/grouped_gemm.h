// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/grouped_plan.h"

namespace piper::cuda {

/// Queues the portable grouped product on the stream; the answer is that of the launch. The caller
/// has checked unusableSizes and that the addresses are 16-byte aligned.
cudaError_t launchGroupedPortable(GroupedKind kind, const GroupedArguments& arguments,
                                  std::int64_t rows, int multiprocessors, cudaStream_t stream);

/// cuTensorMapEncodeTiled of the driver; the plugin does not link it.
using EncodeTensorMap = void*;

/// The same by TMA and WGMMA on a device of compute 9.0.
cudaError_t launchGroupedHopper(GroupedKind kind, EncodeTensorMap encoder,
                                const GroupedArguments& arguments, std::int64_t rows,
                                int multiprocessors, cudaStream_t stream);

}  // namespace piper::cuda
