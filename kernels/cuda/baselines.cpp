// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/baselines.h"

#include "kernels/cuda/blas_shapes.h"

namespace piper::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;

/// The product of a group with `rows` rows as BLAS takes it.
ColumnMajorGemm groupShape(GroupedKind kind, std::int64_t rows, int in, int out) {
    switch (kind) {
        case GroupedKind::Forward:
            return columnMajor(rows, out, in, false, true);
        case GroupedKind::InputGrad:
            return columnMajor(rows, in, out, false, false);
        default:
            return columnMajor(out, in, rows, true, false);
    }
}

struct Operands {
    const void* first;   ///< BLAS's a
    const void* second;  ///< BLAS's b
    void* result;
};

Operands operandsOf(GroupedKind kind, const GroupedArguments& a, int group, std::int64_t row) {
    const std::int64_t weights = std::int64_t{group} * a.out * a.in;
    auto* bf16 = static_cast<Bf16*>(a.result);
    switch (kind) {
        case GroupedKind::Forward:
            return {a.w + weights, a.x + row * a.in, bf16 + row * a.out};
        case GroupedKind::InputGrad:
            return {a.w + weights, a.dy + row * a.out, bf16 + row * a.in};
        default:
            return {a.x + row * a.in, a.dy + row * a.out, static_cast<float*>(a.result) + weights};
    }
}

cublasOperation_t operation(bool transpose) {
    return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// What cublasGemmGroupedBatchedEx reads on the host, one entry for each group with rows.
struct HostArrays {
    std::vector<cublasOperation_t> transpose_a, transpose_b;
    std::vector<int> m, n, k, lda, ldb, ldc, size;
    std::vector<float> alpha, beta;

    void add(const ColumnMajorGemm& shape) {
        transpose_a.push_back(operation(shape.transpose_a));
        transpose_b.push_back(operation(shape.transpose_b));
        m.push_back(static_cast<int>(shape.m));
        n.push_back(static_cast<int>(shape.n));
        k.push_back(static_cast<int>(shape.k));
        lda.push_back(static_cast<int>(shape.lda));
        ldb.push_back(static_cast<int>(shape.ldb));
        ldc.push_back(static_cast<int>(shape.ldc));
        size.push_back(1);
        alpha.push_back(1.0F);
        beta.push_back(0.0F);
    }
};

cublasStatus_t blasStatus(cudaError_t error) {
    if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
    return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

GroupedBaselines::~GroupedBaselines() {
    for (auto& [key, plan] : m_plans) destroy(plan);
    if (m_lt != nullptr) (void)cublasLtDestroy(m_lt);
    (void)cudaFree(m_workspace);
    (void)cudaFree(m_pointers);
}

void GroupedBaselines::destroy(Plan& plan) {
    if (plan.operation != nullptr) (void)cublasLtMatmulDescDestroy(plan.operation);
    for (const cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
        if (layout != nullptr) (void)cublasLtMatrixLayoutDestroy(layout);
    }
}

cublasStatus_t GroupedBaselines::open() {
    if (m_lt != nullptr) return CUBLAS_STATUS_SUCCESS;
    if (m_workspace == nullptr) {
        const cublasStatus_t status = blasStatus(cudaMalloc(&m_workspace, kWorkspaceBytes));
        if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    return cublasLtCreate(&m_lt);
}

cublasStatus_t GroupedBaselines::grouped(cublasHandle_t blas, GroupedKind kind,
                                         const GroupedArguments& a,
                                         const std::int64_t* host_offsets, cudaStream_t stream) {
    if (kind == GroupedKind::WeightGrad) return CUBLAS_STATUS_NOT_SUPPORTED;
    HostArrays arrays;
    std::vector<void*> pointers(3 * kMaxGroups, nullptr);
    std::size_t count = 0;
    for (int g = 0; g < a.groups; ++g) {
        const std::int64_t rows = host_offsets[g + 1] - host_offsets[g];
        if (rows == 0) continue;
        arrays.add(groupShape(kind, rows, a.in, a.out));
        const Operands operands = operandsOf(kind, a, g, host_offsets[g]);
        pointers[count] = const_cast<void*>(operands.first);
        pointers[kMaxGroups + count] = const_cast<void*>(operands.second);
        pointers[2 * kMaxGroups + count] = operands.result;
        ++count;
    }
    if (count == 0) return CUBLAS_STATUS_SUCCESS;
    const std::size_t bytes = pointers.size() * sizeof(void*);
    if (m_pointers == nullptr) {
        const cublasStatus_t status =
            blasStatus(cudaMalloc(reinterpret_cast<void**>(&m_pointers), bytes));
        if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    if (pointers != m_host_pointers) {
        m_host_pointers = pointers;
        const cublasStatus_t status = blasStatus(cudaMemcpyAsync(
            m_pointers, m_host_pointers.data(), bytes, cudaMemcpyHostToDevice, stream));
        if (status != CUBLAS_STATUS_SUCCESS) {
            m_host_pointers.clear();  // not what the device holds
            return status;
        }
    }
#if CUDART_VERSION < 12050
    return CUBLAS_STATUS_NOT_SUPPORTED;
#else
    return cublasGemmGroupedBatchedEx(
        blas, arrays.transpose_a.data(), arrays.transpose_b.data(), arrays.m.data(),
        arrays.n.data(), arrays.k.data(), arrays.alpha.data(), m_pointers, CUDA_R_16BF,
        arrays.lda.data(), m_pointers + kMaxGroups, CUDA_R_16BF, arrays.ldb.data(),
        arrays.beta.data(), m_pointers + 2 * kMaxGroups, CUDA_R_16BF, arrays.ldc.data(),
        static_cast<int>(count), arrays.size.data(), CUBLAS_COMPUTE_32F);
#endif
}

cublasStatus_t GroupedBaselines::makePlan(GroupedKind kind, std::int64_t rows, int in, int out,
                                          Plan& made) const {
    const ColumnMajorGemm shape = groupShape(kind, rows, in, out);
    const cudaDataType result = kind == GroupedKind::WeightGrad ? CUDA_R_32F : CUDA_R_16BF;
    const auto layout = [](cublasLtMatrixLayout_t& made_layout, cudaDataType type, std::int64_t m,
                           std::int64_t n, std::int64_t ld) {
        return cublasLtMatrixLayoutCreate(&made_layout, type, static_cast<std::uint64_t>(m),
                                          static_cast<std::uint64_t>(n), ld);
    };
    cublasStatus_t status =
        cublasLtMatmulDescCreate(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const cublasOperation_t a = operation(shape.transpose_a);
    const cublasOperation_t b = operation(shape.transpose_b);
    (void)cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    (void)cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    status = shape.transpose_a ? layout(made.a, CUDA_R_16BF, shape.k, shape.m, shape.lda)
                               : layout(made.a, CUDA_R_16BF, shape.m, shape.k, shape.lda);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    status = shape.transpose_b ? layout(made.b, CUDA_R_16BF, shape.n, shape.k, shape.ldb)
                               : layout(made.b, CUDA_R_16BF, shape.k, shape.n, shape.ldb);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    status = layout(made.c, result, shape.m, shape.n, shape.ldc);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    cublasLtMatmulPreference_t preference = nullptr;
    status = cublasLtMatmulPreferenceCreate(&preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    (void)cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspaceBytes, sizeof kWorkspaceBytes);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    status = cublasLtMatmulAlgoGetHeuristic(m_lt, made.operation, made.a, made.b, made.c, made.c,
                                            preference, 1, &found, &count);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    made.algorithm = found.algo;
    return status == CUBLAS_STATUS_SUCCESS && count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

cublasStatus_t GroupedBaselines::plan(GroupedKind kind, std::int64_t rows, int in, int out,
                                      const Plan*& found) {
    const Key key{static_cast<int>(kind), rows, in, out};
    auto place = m_plans.find(key);
    if (place == m_plans.end()) {
        Plan made;
        const cublasStatus_t status = makePlan(kind, rows, in, out, made);
        if (status != CUBLAS_STATUS_SUCCESS) {
            destroy(made);
            return status;
        }
        place = m_plans.emplace(key, made).first;
    }
    found = &place->second;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t GroupedBaselines::loop(GroupedKind kind, const GroupedArguments& a,
                                      const std::int64_t* host_offsets, cudaStream_t stream) {
    cublasStatus_t status = open();
    const float alpha = 1.0F;
    const float beta = kind == GroupedKind::WeightGrad ? 1.0F : 0.0F;
    for (int g = 0; g < a.groups && status == CUBLAS_STATUS_SUCCESS; ++g) {
        const std::int64_t rows = host_offsets[g + 1] - host_offsets[g];
        if (rows == 0) continue;
        const Plan* found = nullptr;
        status = plan(kind, rows, a.in, a.out, found);
        if (status != CUBLAS_STATUS_SUCCESS) return status;
        const Operands operands = operandsOf(kind, a, g, host_offsets[g]);
        status = cublasLtMatmul(m_lt, found->operation, &alpha, operands.first, found->a,
                                operands.second, found->b, &beta, operands.result, found->c,
                                operands.result, found->c, &found->algorithm, m_workspace,
                                kWorkspaceBytes, stream);
    }
    return status;
}

}  // namespace piper::cuda
