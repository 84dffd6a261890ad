// SPDX-License-Identifier: Apache-2.0
#include "core/resources/traffic.h"

#include <algorithm>

#include "core/resources/work.h"

namespace piper {

TokenTraffic tokenTraffic(const Plan& plan) {
    TokenTraffic out;
    const Layout& l = plan.layout;
    const Bytes row =
        activationElementBytes(plan.precision) * static_cast<double>(plan.model.hidden_size);
    out.stage_boundary = row * static_cast<double>(l.pp * l.vpp - 1);
    if (!plan.model.moe || l.ep == 1) return out;
    const ProcessGrid grid(l, plan.rank_order);
    const std::vector<RankId> group = grid.group(RankId(0), "ep");
    const auto inside = std::ranges::count_if(group, [&](RankId rank) {
        return rank.value < plan.cluster.devices_per_node;  // rank 0's node
    });
    const double ep = static_cast<double>(l.ep);
    const Bytes rows =
        row * static_cast<double>(plan.model.moe->router_topk * plan.model.numMoeLayers());
    out.dispatch = rows * ((ep - 1.0) / ep);
    out.combine = out.dispatch;
    out.between_nodes = rows * (2.0 * (ep - static_cast<double>(inside)) / ep);
    return out;
}

}  // namespace piper
