// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM by TMA and WGMMA: the kernels of hopper_kernel.h and their tensor maps.
#include "kernels/cuda/grouped_gemm.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PIPER_WITHOUT_WGMMA
#endif
#include "kernels/cuda/hopper_machine.cuh"

namespace piper::cuda {
namespace {

template <class Config>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopperKernel(const __grid_constant__ GroupedArguments arguments,
                 const __grid_constant__ TensorMaps maps) {
#ifdef PIPER_WITHOUT_WGMMA
    __trap();  // chosen only on compute 9.0
#else
    HopperMachine machine;
    hopperBody<Config>(machine, arguments, maps);
#endif
}

/// A row-major matrix of bf16, or one for each group, read in boxes of 64 columns by `box_rows`
/// rows with the 128-byte swizzle; what lies outside is zero.
cudaError_t encode(EncodeTensorMap encoder, CUtensorMap& map, const void* data,
                   std::int64_t columns, std::int64_t rows, std::int64_t groups, int box_rows) {
    const auto size = [](std::int64_t value) { return static_cast<cuuint64_t>(value); };
    const cuuint64_t sizes[3] = {size(columns), size(rows), size(groups)};
    const cuuint64_t strides[2] = {size(columns * 2), size(rows * columns * 2)};
    const cuuint32_t box[3] = {kPanel, static_cast<cuuint32_t>(box_rows), 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encoder)(
        &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(data), sizes, strides, box,
        every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <class Config>
cudaError_t encodeMaps(EncodeTensorMap encoder, const GroupedArguments& a, std::int64_t rows,
                       TensorMaps& maps) {
    cudaError_t error = cudaSuccess;
    if constexpr (Config::kKind == GroupedKind::Forward) {
        error = encode(encoder, maps.a, a.w, a.in, a.out, a.groups, kHopperFeatures);
        if (error != cudaSuccess) return error;
        return encode(encoder, maps.b, a.x, a.in, rows, 1, Config::kColumns);
    } else if constexpr (Config::kKind == GroupedKind::InputGrad) {
        error = encode(encoder, maps.a, a.w, a.in, a.out, a.groups, kTileR);
        if (error != cudaSuccess) return error;
        return encode(encoder, maps.b, a.dy, a.out, rows, 1, Config::kColumns);
    } else {
        error = encode(encoder, maps.a, a.dy, a.out, rows, 1, kTileR);
        if (error != cudaSuccess) return error;
        return encode(encoder, maps.b, a.x, a.in, rows, 1, kTileR);
    }
}

template <class Config>
cudaError_t launch(EncodeTensorMap encoder, const GroupedArguments& arguments, std::int64_t rows,
                   int multiprocessors, cudaStream_t stream) {
    TensorMaps maps;
    cudaError_t error = encodeMaps<Config>(encoder, arguments, rows, maps);
    if (error != cudaSuccess) return error;
    const int shared = hopperSharedBytes<Config>(arguments.groups);
    error = cudaFuncSetAttribute(hopperKernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 shared);
    if (error != cudaSuccess) return error;
    int resident = 0;
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, hopperKernel<Config>, kHopperThreads, static_cast<std::size_t>(shared));
    if (error != cudaSuccess) return error;
    const GroupedSizes sizes{Config::kKind, rows, arguments.groups, arguments.in, arguments.out};
    const int blocks = persistentBlocks(mostTiles(sizes, Config::kTile), multiprocessors, resident);
    hopperKernel<Config><<<static_cast<unsigned>(blocks), kHopperThreads,
                           static_cast<std::size_t>(shared), stream>>>(arguments, maps);
    return cudaGetLastError();
}

template <GroupedKind Kind>
cudaError_t launchTokens(int tokens, EncodeTensorMap encoder, const GroupedArguments& arguments,
                         std::int64_t rows, int multiprocessors, cudaStream_t stream) {
    switch (tokens) {
        case 16:
            return launch<HopperConfig<Kind, 16, 5>>(encoder, arguments, rows, multiprocessors,
                                                     stream);
        case 32:
            return launch<HopperConfig<Kind, 32, 4>>(encoder, arguments, rows, multiprocessors,
                                                     stream);
        case 64:
            return launch<HopperConfig<Kind, 64, 6>>(encoder, arguments, rows, multiprocessors,
                                                     stream);
        case 128:
            return launch<HopperConfig<Kind, 128, 5>>(encoder, arguments, rows, multiprocessors,
                                                      stream);
        default:
            return launch<HopperConfig<Kind, 256, 3>>(encoder, arguments, rows, multiprocessors,
                                                      stream);
    }
}

}  // namespace

cudaError_t launchGroupedHopper(GroupedKind kind, EncodeTensorMap encoder,
                                const GroupedArguments& arguments, std::int64_t rows,
                                int multiprocessors, cudaStream_t stream) {
    if (rows == 0) return cudaSuccess;
    const int tokens =
        chooseHopperTokens({kind, rows, arguments.groups, arguments.in, arguments.out});
    switch (kind) {
        case GroupedKind::Forward:
            return launchTokens<GroupedKind::Forward>(tokens, encoder, arguments, rows,
                                                      multiprocessors, stream);
        case GroupedKind::InputGrad:
            return launchTokens<GroupedKind::InputGrad>(tokens, encoder, arguments, rows,
                                                        multiprocessors, stream);
        default:
            return launch<HopperConfig<GroupedKind::WeightGrad, 256, 4>>(encoder, arguments, rows,
                                                                         multiprocessors, stream);
    }
}

}  // namespace piper::cuda
