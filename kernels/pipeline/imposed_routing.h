// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"
#include "kernels/pipeline/expert_source.h"

namespace piper {

// Concept: a prediction under a skewed load is checked by a run under that load, and a router that
// has just been initialised gives none. So a plan whose routing load is not uniform decides which
// experts its tokens take: by systematic sampling an expert of share s is one of a token's k with
// probability k s, exactly. The experts' weights follow from the scores as always.
// Source: Madow, "On the theory of systematic sampling, II", Annals of Mathematical Statistics
// 1949.

/// Experts by the plan's routing load: functions of seed, step, layer, global sample and position
/// alone, so that every layout makes the same tokens choose the same.
class ImposedRouting final : public ExpertSource {
public:
    ImposedRouting(const Plan& plan, std::uint64_t seed);

    [[nodiscard]] Status choose(std::int64_t step, LayerId layer, std::int64_t sample,
                                Indices experts, std::int64_t first_position) const override;

private:
    std::int64_t m_topk;
    std::uint64_t m_seed;
    std::vector<std::vector<double>> m_shares;  ///< [layer][expert], each at most 1 / topk
};

/// Whether the plan's load decides: one that is not uniform, of a model whose tokens may reach the
/// experts of all groups.
[[nodiscard]] bool imposesRouting(const Plan& plan);

}  // namespace piper
