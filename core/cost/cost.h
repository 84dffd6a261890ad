// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/evidence.h"
#include "core/base/units.h"
#include "core/cluster/cluster.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"

namespace piper {

/// A time with where it comes from.
struct Cost {
    Seconds time;
    Evidence evidence;  ///< low and high in seconds
};

/// Turns work into seconds on one cluster: measured curves where there are, else published
/// efficiency by shape, else data-sheet peaks; never a silent fallback (evidence says which).
class CostModel {
public:
    /// The cluster and rank placement of `plan`; the plan must outlive the model.
    explicit CostModel(const Plan& plan);

    [[nodiscard]] Cost gemm(const GemmWork& work) const;
    [[nodiscard]] Cost attention(const AttentionWork& work) const;
    /// bytes read + written.
    [[nodiscard]] Cost memoryBound(Bytes traffic) const;
    [[nodiscard]] Cost communication(const CommunicationWork& work) const;
    /// Sum of an operation's parts; `phase` selects a measured overhead where one exists.
    [[nodiscard]] Cost operation(const OperationWork& work, Phase phase) const;

private:
    struct Spread {
        std::int64_t nodes = 1;           ///< nodes one group of the dimension spans
        std::int64_t ranks_per_node = 1;  ///< of that group on one node
    };
    [[nodiscard]] Spread spreadOf(const std::string& dimension) const;

    const Plan& m_plan;
};

}  // namespace piper
