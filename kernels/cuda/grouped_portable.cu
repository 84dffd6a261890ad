// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM by mma.sync: the kernels of grouped_kernel.h, one for each tile and kind.
#include "kernels/cuda/grouped_gemm.h"
#include "kernels/cuda/grouped_kernel.h"
#include "kernels/cuda/portable_machine.cuh"

namespace piper::cuda {
namespace {

template <class Config>
__global__ void __launch_bounds__(Config::kThreads)
    groupedKernel(const __grid_constant__ GroupedArguments arguments) {
    PortableMachine machine;
    groupedBody<Config>(machine, arguments);
}

template <class Config>
cudaError_t launch(const GroupedArguments& arguments, std::int64_t rows, int multiprocessors,
                   cudaStream_t stream) {
    const int shared = groupedSharedBytes<Config>(arguments.groups);
    cudaError_t error = cudaFuncSetAttribute(groupedKernel<Config>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error != cudaSuccess) return error;
    int resident = 0;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, groupedKernel<Config>,
                                                          Config::kThreads, shared);
    if (error != cudaSuccess) return error;
    const GroupedSizes sizes{Config::kKind, rows, arguments.groups, arguments.in, arguments.out};
    const int blocks = persistentBlocks(mostTiles(sizes, {Config::kTileM, Config::kTileN}),
                                        multiprocessors, resident);
    groupedKernel<Config><<<static_cast<unsigned>(blocks), Config::kThreads,
                            static_cast<std::size_t>(shared), stream>>>(arguments);
    return cudaGetLastError();
}

template <GroupedKind Kind>
cudaError_t launchTokens(int tile, const GroupedArguments& arguments, std::int64_t rows,
                         int multiprocessors, cudaStream_t stream) {
    switch (tile) {
        case 0:
            return launch<GroupedConfig<Kind, 16, 128, 1, 4, 4>>(arguments, rows, multiprocessors,
                                                                 stream);
        case 1:
            return launch<GroupedConfig<Kind, 32, 128, 1, 4, 4>>(arguments, rows, multiprocessors,
                                                                 stream);
        case 2:
            return launch<GroupedConfig<Kind, 64, 128, 2, 2, 3>>(arguments, rows, multiprocessors,
                                                                 stream);
        default:
            return launch<GroupedConfig<Kind, 128, 128, 2, 2, 3>>(arguments, rows, multiprocessors,
                                                                  stream);
    }
}

}  // namespace

cudaError_t launchGroupedPortable(GroupedKind kind, const GroupedArguments& arguments,
                                  std::int64_t rows, int multiprocessors, cudaStream_t stream) {
    if (rows == 0) return cudaSuccess;
    const int tile =
        choosePortableTile({kind, rows, arguments.groups, arguments.in, arguments.out});
    switch (kind) {
        case GroupedKind::Forward:
            return launchTokens<GroupedKind::Forward>(tile, arguments, rows, multiprocessors,
                                                      stream);
        case GroupedKind::InputGrad:
            return launchTokens<GroupedKind::InputGrad>(tile, arguments, rows, multiprocessors,
                                                        stream);
        default:
            return launch<GroupedConfig<GroupedKind::WeightGrad, 128, 128, 2, 2, 3>>(
                arguments, rows, multiprocessors, stream);
    }
}

}  // namespace piper::cuda
