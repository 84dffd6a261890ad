// SPDX-License-Identifier: Apache-2.0
// Concept: predict() takes one placement for all layers, and of it only what every rank gets. So a
// layout of each layer, or one with replicas, is predicted as a plan in order whose histogram gives
// the ranks those same loads.
#include "core/search/expert_placement.h"

#include <algorithm>
#include <cmath>

#include "core/base/cast.h"
#include "core/resources/work.h"

namespace piper {
namespace {

Status checkInput(const Plan& plan, const PlacementOptions& options) {
    if (!plan.model.moe || plan.model.numMoeLayers() == 0)
        return fail(ErrorCode::InvalidInput, "{} has no experts to place", plan.model.name);
    if (plan.layout.ep < 2)
        return fail(ErrorCode::InvalidInput,
                    "ep {} keeps every expert on every rank: set ep to 2 or more", plan.layout.ep);
    if (options.replicas < 0 || options.max_swaps < 0)
        return fail(ErrorCode::InvalidInput, "replicas {} and swaps {} must not be negative",
                    options.replicas, options.max_swaps);
    const std::int64_t most = plan.model.moe->num_experts * (plan.layout.ep - 1);
    if (options.replicas > most)
        return fail(ErrorCode::InvalidInput,
                    "{} replicas: {} experts have room for {} more copies on {} ep ranks",
                    options.replicas, plan.model.moe->num_experts, most, plan.layout.ep);
    return {};
}

/// The plan with one expert a rank: its ranks' shares are those of the experts.
Plan oneExpertARank(Plan plan) {
    plan.layout.ep = plan.model.moe->num_experts;
    plan.expert_placement.clear();
    return plan;
}

bool differsByLayer(const Plan& plan) {
    return plan.routing_load.kind == RoutingLoadKind::Histogram &&
           plan.routing_load.histogram.size() > 1;
}

class Balancer {
public:
    Balancer(const Plan& plan, const PlacementOptions& options)
        : m_plan(plan),
          m_options(options),
          m_ep(plan.layout.ep),
          m_start(ExpertLayout::of(plan.expert_placement, plan.model.moe->num_experts, m_ep)) {
        const Plan single = oneExpertARank(plan);
        for (std::int64_t l = 0; l < plan.model.num_layers; ++l) {
            const LayerId layer(at(l));
            if (!plan.model.isMoe(layer)) continue;
            m_out.moe_layers.push_back(layer);
            if (m_loads.empty() || differsByLayer(plan))
                m_loads.push_back(routedShares(single, layer));
        }
    }

    Result<ExpertPlacement> run(Prediction before) {
        layOut();
        m_out.before = std::move(before);
        m_out.imbalance_before = meanImbalance([this](std::size_t) { return m_start; });
        m_out.imbalance_after = meanImbalance([this](std::size_t i) { return layoutOf(i); });
        m_out.plan = placedPlan();
        PIPER_ASSIGN(m_out.after,
                     predict(m_out.plan, PredictMode::Simulated, PredictDetail::StepOnly));
        m_out.migration = migrationCost(m_plan, m_out.transfers);
        m_out.replicas = replicaCost(m_plan, m_out.layouts);
        m_out.fits =
            m_out.after.memory.device_total + m_out.replicas.memory <= m_out.after.memory.capacity;
        return std::move(m_out);
    }

private:
    void layOut() {
        const bool shared = m_options.scope == PlacementScope::Plan || m_loads.size() == 1;
        const std::size_t layouts = shared ? 1 : m_loads.size();
        for (std::size_t i = 0; i < layouts; ++i) {
            const std::vector<ExpertLoads> rows =
                shared ? m_loads : std::vector<ExpertLoads>{m_loads[i]};
            ClimbResult climbed =
                climbWithReplicas(rows, m_start, m_ep, m_options.replicas, m_options.max_swaps);
            m_out.swaps += climbed.swaps;
            m_out.transfers.push_back(expertTransfers(m_start, climbed.layout, m_ep));
            m_out.layouts.push_back(std::move(climbed.layout));
        }
        m_out.launchable =
            shared && std::ranges::all_of(m_out.layouts[0].ranks,
                                          [](const auto& holders) { return holders.size() == 1; });
    }

    [[nodiscard]] const ExpertLayout& layoutOf(std::size_t moe_layer) const {
        return m_out.layouts[m_out.layouts.size() == 1 ? 0 : moe_layer];
    }
    [[nodiscard]] const ExpertLoads& loadsOf(std::size_t moe_layer) const {
        return m_loads[m_loads.size() == 1 ? 0 : moe_layer];
    }
    template <class LayoutOf>
    [[nodiscard]] double meanImbalance(const LayoutOf& layout_of) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < m_out.moe_layers.size(); ++i)
            sum += loadImbalance(loadsOf(i), layout_of(i), m_ep);
        return sum / asDouble(static_cast<std::int64_t>(m_out.moe_layers.size()));
    }

    [[nodiscard]] Plan placedPlan() const {
        Plan plan = m_plan;
        if (m_out.launchable) {
            plan.expert_placement.clear();
            for (const std::vector<std::int64_t>& holders : m_out.layouts[0].ranks)
                plan.expert_placement.push_back(holders.front());
            return plan;
        }
        const std::int64_t experts = plan.model.moe->num_experts, each = experts / m_ep;
        plan.expert_placement.clear();
        plan.routing_load.kind = RoutingLoadKind::Histogram;
        plan.routing_load.histogram.assign(at(plan.model.num_layers),
                                           std::vector<double>(at(experts), 1.0));
        for (std::size_t i = 0; i < m_out.moe_layers.size(); ++i) {
            const std::vector<double> loads = rankLoads(loadsOf(i), layoutOf(i), m_ep);
            std::vector<double>& row = plan.routing_load.histogram[m_out.moe_layers[i].index()];
            for (std::size_t e = 0; e < row.size(); ++e)
                row[e] = loads[e * at(m_ep) / row.size()] / asDouble(each);
        }
        return plan;
    }

    const Plan& m_plan;
    PlacementOptions m_options;
    std::int64_t m_ep;
    ExpertLayout m_start;
    std::vector<ExpertLoads> m_loads;  ///< [1], or [MoE layers]
    ExpertPlacement m_out;
};

}  // namespace

std::optional<double> ExpertPlacement::stepsToPay() const {
    if (gain().value <= 0.0) return std::nullopt;
    return std::ceil(migration.time.time / gain());
}

Result<ExpertPlacement> balanceExperts(const Plan& plan, const PlacementOptions& options) {
    PIPER_TRY(checkInput(plan, options));
    PIPER_ASSIGN(Prediction before, predict(plan, PredictMode::Simulated, PredictDetail::StepOnly));
    return Balancer(plan, options).run(std::move(before));
}

}  // namespace piper
