// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "core/base/evidence.h"
#include "core/base/units.h"
#include "core/cluster/cluster.h"
#include "core/cost/communication.h"
#include "core/cost/device_rates.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"

namespace piper {

/// Router and head stay in BF16 when the layers run lower.
[[nodiscard]] Precision headPrecision(Precision p);

/// Sum of two: times and ranges add, the weaker evidence stays.
[[nodiscard]] Cost operator+(const Cost& a, const Cost& b);
[[nodiscard]] Cost operator*(const Cost& a, double factor);

/// A whole MoE layer's forward pass in one fused call on one rank: both matrices of its experts
/// with sorting, permuting and activation. `tokens` of all ep ranks together.
struct FusedMoeWork {
    std::int64_t tokens = 0, topk = 1, experts = 1, ep = 1;
    std::int64_t hidden = 0, ffn = 0;
};

/// Turns work into seconds on one cluster: measured curves where there are, else published times
/// by shape, else data-sheet peaks; never a silent fallback (evidence says which, with the range
/// that left-out rows show).
///
/// Points are not interpolated as they are: each is divided by a simple model of the same call
/// (tiles in waves, roofline, alpha-beta), the ratios are interpolated over the logarithms of the
/// sizes and multiplied back. So a point is reproduced exactly, and far from all points the simple
/// model takes over, flagged `extrapolated`. Source: docs/formulas.md, "Time of a kernel".
class CostModel {
public:
    /// The cluster and rank placement of `plan`; the plan must outlive the model.
    explicit CostModel(const Plan& plan);
    /// Tells that layout, rank order or exchange of the plan are others now; its model, cluster and
    /// precision are the same.
    void layoutChanged() { m_communication.layoutChanged(); }

    [[nodiscard]] Cost gemm(const GemmWork& work) const;
    /// Fused, or by batched GEMMs with a softmax between them where the work says so.
    [[nodiscard]] Cost attention(const AttentionWork& work) const;
    [[nodiscard]] Cost fusedMoe(const FusedMoeWork& work) const;
    /// bytes read + written, by `kernels` launches.
    [[nodiscard]] Cost memoryBound(Bytes traffic, double kernels = 1.0,
                                   MemoryKind kind = MemoryKind::Elementwise) const;
    /// What the memory-bound part of a phase's operations does.
    [[nodiscard]] MemoryKind memoryKind(Phase phase) const;
    [[nodiscard]] Cost communication(const CommunicationWork& work) const {
        return m_communication.cost(work);
    }
    /// Sum of an operation's parts; `phase` selects a measured overhead where one exists.
    /// Compute of an imbalanced operation is that of the hottest rank.
    [[nodiscard]] Cost operation(const OperationWork& work, Phase phase) const;

    /// Placement of the group of a dimension: "tp", "cp", "dp" (with cp), "pp", "ep", "etp", "edp".
    [[nodiscard]] GroupSpread spreadOf(std::string_view dimension) const {
        return m_communication.spreadOf(dimension);
    }

private:
    struct SizeRatio {
        double log_size = 0.0;
        double ratio = 1.0;
    };
    void indexCurves();
    [[nodiscard]] Seconds gemmModel(double groups, double m, double n, double k) const;
    double& inStep(Phase phase, OperationKind kind) {
        return m_in_step[static_cast<std::size_t>(phase)][static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] double inStep(Phase phase, OperationKind kind) const {
        return m_in_step[static_cast<std::size_t>(phase)][static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] Seconds memoryModel(Bytes traffic, double kernels) const;
    [[nodiscard]] Cost measuredGemm(const GemmWork& work) const;
    [[nodiscard]] Cost gemmAt(const MatrixRates& rates, const GemmWork& work) const;
    [[nodiscard]] Cost unfusedAttention(const AttentionWork& work) const;

    const Plan& m_plan;
    MatrixRates m_rates;       ///< of the plan's precision
    MatrixRates m_head_rates;  ///< of router and head, which stay in BF16 under lower precisions
    AttentionRates m_attention_rates;
    Die m_die = Die::Unknown;
    double m_gradient_bytes = 4.0;
    double m_best_rate = 0.0;                 ///< best measured GEMM rate
    RatioField m_gemm;                        ///< measured ratios over log2 of m, n, k, groups
    std::vector<AttentionPoint> m_attention;  ///< of the plan's precision
    std::vector<SizeRatio> m_memory;
    std::array<std::vector<SizeRatio>, kNumPhases> m_overhead;
    /// Ratio of an operation in a step to its calls alone, measured; 1 where it was not.
    std::array<std::array<double, kNumOperationKinds>, kNumPhases> m_in_step;
    CommunicationModel m_communication;
};

}  // namespace piper
