// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/operations.h"

#include "kernels/cuda/blas_shapes.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/grouped_gemm.h"

namespace piper::cuda {
namespace {

bool validGemm(const PiperCudaGemm& g) {
    constexpr std::int64_t kLimit = INT32_MAX;  // cublasGemmEx takes int
    return g.m >= 0 && g.n >= 0 && g.k >= 0 && g.m <= kLimit && g.n <= kLimit && g.k <= kLimit &&
           (g.type == PIPER_CUDA_F32 || g.type == PIPER_CUDA_BF16) && g.a != nullptr &&
           g.b != nullptr && g.c != nullptr;
}

bool aligned(const void* data) {
    return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

GroupedSizes sizesOf(const PiperCudaGrouped& g) {
    const auto narrow = [](std::int64_t value) {
        return value < 0 || value > INT32_MAX ? -1 : static_cast<int>(value);
    };
    return {static_cast<GroupedKind>(g.kind), g.rows, g.groups, narrow(g.in), narrow(g.out)};
}

}  // namespace

const char* unusableGrouped(const PiperCudaGrouped* g) {
    if (g == nullptr) return "no arguments";
    if (g->kind < PIPER_CUDA_FORWARD || g->kind > PIPER_CUDA_WEIGHT_GRAD) return "kind";
    if (g->path < PIPER_CUDA_AUTOMATIC || g->path > PIPER_CUDA_HOPPER) return "path";
    if (const char* why = unusableSizes(sizesOf(*g)); why != nullptr) return why;
    const bool needs_x = g->kind != PIPER_CUDA_INPUT_GRAD;
    const bool needs_dy = g->kind != PIPER_CUDA_FORWARD;
    const bool needs_w = g->kind != PIPER_CUDA_WEIGHT_GRAD;
    if (g->rows == 0) return nullptr;
    if ((needs_x && !aligned(g->x)) || (needs_dy && !aligned(g->dy)) ||
        (needs_w && !aligned(g->w)) || !aligned(g->result) || g->offsets == nullptr) {
        return "an address is null or not 16-byte aligned";
    }
    return nullptr;
}

GroupedArguments groupedArguments(const PiperCudaGrouped& g) {
    return {static_cast<const Bf16*>(g.x),
            static_cast<const Bf16*>(g.dy),
            static_cast<const Bf16*>(g.w),
            g.result,
            g.offsets,
            g.groups,
            static_cast<int>(g.in),
            static_cast<int>(g.out)};
}

int groupedGemm(PiperCudaContext* context, const PiperCudaGrouped* g) {
    const int status = selectDevice(context, "groupedGemm");
    if (status != PIPER_CUDA_OK) return status;
    if (const char* why = unusableGrouped(g); why != nullptr) {
        return refuse(PIPER_CUDA_INVALID, "groupedGemm", why);
    }
    if (g->rows == 0) return PIPER_CUDA_OK;
    const GroupedPath path = choosePath(static_cast<GroupedPath>(g->path), context->traits);
    if (path == GroupedPath::Automatic) {
        return refuse(PIPER_CUDA_INVALID, "groupedGemm",
                      "the device has no such path (Ampere or newer; Hopper)");
    }
    const auto kind = static_cast<GroupedKind>(g->kind);
    const GroupedArguments arguments = groupedArguments(*g);
    const int multiprocessors = context->traits.multiprocessors;
    if (path == GroupedPath::Hopper) {
        return answer(launchGroupedHopper(kind, context->encode_tensor_map, arguments, g->rows,
                                          multiprocessors, context->stream),
                      "groupedGemm");
    }
    return answer(launchGroupedPortable(kind, arguments, g->rows, multiprocessors, context->stream),
                  "groupedGemm");
}

int groupedBaseline(PiperCudaContext* context, std::int32_t baseline, const PiperCudaGrouped* g,
                    const std::int64_t* host_offsets) {
    const int status = selectDevice(context, "groupedBaseline");
    if (status != PIPER_CUDA_OK) return status;
    const char* why = unusableGrouped(g);
    if (why == nullptr && host_offsets == nullptr) why = "no offsets on the host";
    if (why == nullptr && baseline != PIPER_CUDA_BASELINE_GROUPED &&
        baseline != PIPER_CUDA_BASELINE_LOOP) {
        why = "baseline";
    }
    if (why != nullptr) return refuse(PIPER_CUDA_INVALID, "groupedBaseline", why);
    const auto kind = static_cast<GroupedKind>(g->kind);
    if (baseline == PIPER_CUDA_BASELINE_LOOP) {
        return answer(
            context->baselines.loop(kind, groupedArguments(*g), host_offsets, context->stream),
            "cublasLtMatmul");
    }
    return answer(context->baselines.grouped(context->blas, kind, groupedArguments(*g),
                                             host_offsets, context->stream),
                  "cublasGemmGroupedBatchedEx");
}

int gemm(PiperCudaContext* context, const PiperCudaGemm* g) {
    const int status = selectDevice(context, "gemm");
    if (status != PIPER_CUDA_OK) return status;
    if (g == nullptr || !validGemm(*g)) {
        return refuse(PIPER_CUDA_INVALID, "gemm", "a size, a type or an address");
    }
    if (g->m == 0 || g->n == 0) return PIPER_CUDA_OK;
    const auto blas = columnMajor(g->m, g->n, g->k, g->transpose_a != 0, g->transpose_b != 0);
    const cudaDataType type = g->type == PIPER_CUDA_F32 ? CUDA_R_32F : CUDA_R_16BF;
    return answer(
        cublasGemmEx(context->blas, blas.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                     blas.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(blas.m),
                     static_cast<int>(blas.n), static_cast<int>(blas.k), &g->alpha, g->b, type,
                     static_cast<int>(blas.lda), g->a, type, static_cast<int>(blas.ldb), &g->beta,
                     g->c, type, static_cast<int>(blas.ldc), CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

}  // namespace piper::cuda
