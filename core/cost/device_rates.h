// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/evidence.h"
#include "core/cluster/cluster.h"
#include "core/cost/kernel_tables.h"
#include "core/resources/work.h"

namespace piper {

/// A kernel's time with where it comes from; `spread` is the log2 standard deviation that leaving
/// published rows out shows, or that carrying them to another device showed.
struct RatedTime {
    double seconds = 0.0;
    EvidenceKind kind = EvidenceKind::Assumed;
    double spread = 0.0;
    bool extrapolated = false;

    /// The band that holds four of five published rows.
    [[nodiscard]] Evidence evidence() const;
};

/// What the matrix kernels of one device at one precision go by.
struct MatrixRates {
    KernelSite site;
    const KernelTable* gemm = nullptr;          ///< published on this die; not owned
    const KernelTable* grouped = nullptr;       ///< the same for loops over groups
    bool exact = false;                         ///< the tables are this very device's
    EvidenceKind kind = EvidenceKind::Assumed;  ///< of a time from the constants alone
    double spread = 0.0;                        ///< of such a time
    double sustained_rate = 0.0;                ///< FLOP/s kept over long runs; 0: not known
    bool peak_known = true;                     ///< false: another precision's peak stands in
    std::int64_t row_padding = 1;
    bool quantises = false;  ///< operands are cast before the GEMM
};
[[nodiscard]] MatrixRates matrixRates(const DeviceSpec& device, Precision precision);

/// `gradient_bytes`: of one element that a weight gradient is added to.
/// Repeated shapes are remembered per thread: search asks for few shapes very often.
[[nodiscard]] RatedTime gemmTime(const MatrixRates& rates, const GemmWork& work,
                                 double gradient_bytes);

/// `table`: of fused MoE layers on this die, or nullptr.
[[nodiscard]] RatedTime fusedMoeTime(const MatrixRates& rates, const KernelTable* table,
                                     const KernelShape& shape);

/// Fused attention of one device. Low precisions keep their attention in BF16.
struct AttentionRates {
    KernelSite site;
    const KernelTable* table = nullptr;
    EvidenceKind kind = EvidenceKind::Assumed;
    double spread = 0.0;
    bool peak_known = true;
};
[[nodiscard]] AttentionRates attentionRates(const DeviceSpec& device, Precision precision);
[[nodiscard]] RatedTime attentionTime(const AttentionRates& rates, const AttentionWork& work);

/// Weighted attention by batched GEMMs with the scores in memory; `queries` a rank holds of each
/// sequence. Adds the GEMMs only: the softmax is memory-bound work of softmaxBytes.
[[nodiscard]] RatedTime unfusedAttentionTime(const MatrixRates& rates, const AttentionWork& work,
                                             double queries);
[[nodiscard]] Bytes softmaxBytes(const AttentionWork& work, double queries, double element_bytes);

}  // namespace piper
