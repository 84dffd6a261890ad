// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/cuda/grouped_tiles.h"

namespace piper::cuda {

/// The grouped product by cuBLAS, from counts on the host: what ours is compared with. Plans and
/// pointer tables are kept from call to call, so that a timed call does only what it must.
class GroupedBaselines {
public:
    GroupedBaselines() = default;
    ~GroupedBaselines();
    GroupedBaselines(const GroupedBaselines&) = delete;
    GroupedBaselines& operator=(const GroupedBaselines&) = delete;

    /// One cublasGemmGroupedBatchedEx; not for weight gradients.
    cublasStatus_t grouped(cublasHandle_t blas, GroupedKind kind, const GroupedArguments& arguments,
                           const std::int64_t* host_offsets, cudaStream_t stream);
    /// One cublasLtMatmul for each group that has rows.
    cublasStatus_t loop(GroupedKind kind, const GroupedArguments& arguments,
                        const std::int64_t* host_offsets, cudaStream_t stream);

private:
    struct Plan {
        cublasLtMatmulDesc_t operation = nullptr;
        cublasLtMatrixLayout_t a = nullptr;
        cublasLtMatrixLayout_t b = nullptr;
        cublasLtMatrixLayout_t c = nullptr;
        cublasLtMatmulAlgo_t algorithm{};
    };
    using Key = std::tuple<int, std::int64_t, int, int>;  // kind, rows, in, out

    cublasStatus_t open();
    cublasStatus_t plan(GroupedKind kind, std::int64_t rows, int in, int out, const Plan*& found);
    cublasStatus_t makePlan(GroupedKind kind, std::int64_t rows, int in, int out, Plan& made) const;
    static void destroy(Plan& plan);

    cublasLtHandle_t m_lt = nullptr;
    void* m_workspace = nullptr;
    std::map<Key, Plan> m_plans;
    void** m_pointers = nullptr;  ///< on the device: first operands, second ones, results
    std::vector<void*> m_host_pointers;
};

}  // namespace piper::cuda
