// SPDX-License-Identifier: Apache-2.0
#include "core/resources/traffic.h"

#include "core/resources/exchange.h"
#include "core/resources/routing.h"
#include "core/resources/work.h"

namespace piper {

TokenTraffic tokenTraffic(const Plan& plan) {
    TokenTraffic out;
    const Layout& l = plan.layout;
    const Bytes row =
        activationElementBytes(plan.precision) * static_cast<double>(plan.model.hidden_size);
    out.stage_boundary = row * static_cast<double>(l.pp * l.vpp - 1);
    if (!plan.model.moe || l.ep == 1) return out;
    const AllToAllAlgorithm algorithm =
        movesTokens(plan) ? AllToAllAlgorithm::Flat : exchangeAlgorithm(plan);
    const auto add = [&](LayerId layer, std::int64_t layers) {
        const ExchangeRows rows = exchangeRows(plan, algorithm, layer);
        out.dispatch += row * (rows.total() * static_cast<double>(layers));
        out.between_nodes += row * (2.0 * rows.between_nodes * static_cast<double>(layers));
    };
    if (!loadVaries(plan))
        add(LayerId(0), plan.model.numMoeLayers());
    else
        for (std::int64_t i = 0; i < plan.model.num_layers; ++i)
            if (const LayerId layer(static_cast<std::int32_t>(i)); plan.model.isMoe(layer))
                add(layer, 1);
    out.combine = out.dispatch;
    return out;
}

}  // namespace piper
