// SPDX-License-Identifier: Apache-2.0
#include "core/resources/measured_routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/cast.h"
#include "core/plan/own_worker.h"
#include "core/resources/work.h"

namespace piper {
namespace {

using Rows = std::vector<double>;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// [layer][expert] rows of the whole run; empty for a layer nobody recorded.
std::vector<Rows> rowsOfRun(const Run& run, const ModelSpec& model) {
    const auto experts = static_cast<std::size_t>(model.moe->num_experts);
    std::vector<Rows> out(model.layers.size());
    for (const RankTimeline& rank : run.ranks)
        for (const ExpertLoad& record : rank.expert_load) {
            const std::size_t layer = record.layer.index();
            if (layer >= out.size() || record.tokens.size() != experts) continue;
            out[layer].resize(experts);
            for (std::size_t e = 0; e < experts; ++e) out[layer][e] += asDouble(record.tokens[e]);
        }
    return out;
}

/// One exchange of one group of ep ranks.
struct ExchangeKey {
    std::int32_t layer = 0, step = 0, micro_batch = 0;
    std::int64_t group = 0;  ///< pp and edp coordinates of its ranks
    auto operator<=>(const ExchangeKey&) const = default;
};

/// [layer] -> mean shares of the ep ranks of its exchanges, the largest first; empty where fewer
/// than all ranks of a group recorded their experts' work.
std::vector<Rows> sharesOfExchanges(const Run& run, const Plan& plan) {
    const auto ep = static_cast<std::size_t>(plan.layout.ep);
    const double shared =
        operationWork(plan,
                      {OperationKind::Forward, Phase::Expert, Pass::Forward, LayerKind::Moe, true},
                      StageId(0))
            .flops()
            .value;
    const ProcessGrid grid(plan.layout, plan.rank_order);
    std::map<ExchangeKey, Rows> exchanges;
    for (const RankTimeline& rank : run.ranks) {
        if (rank.rank.value < 0 || rank.rank.value >= grid.world()) continue;
        const RankCoordinates at = grid.coordinates(rank.rank);
        if (at.etp != 0) continue;  // holds slices of the same rows
        for (const Event& e : rank.events) {
            if (e.phase != Phase::Expert || e.kind != OperationKind::Forward) continue;
            if (!e.layer.valid() || !plan.model.isMoe(e.layer)) continue;
            Rows& flops = exchanges[{e.layer.value, e.step, e.micro_batch.value,
                                     at.pp * plan.layout.edp() + at.edp}];
            if (flops.empty()) flops.assign(ep, kMissing);
            double& own = flops[static_cast<std::size_t>(at.ep)];
            own = (std::isnan(own) ? -shared : own) + e.flops;
        }
    }
    std::vector<Rows> out(plan.model.layers.size());
    std::vector<double> counts(out.size());
    for (auto& [key, flops] : exchanges) {
        const double sum = std::accumulate(flops.begin(), flops.end(), 0.0);
        if (!(sum > 0.0)) continue;  // also where a rank is missing
        std::sort(flops.begin(), flops.end(), std::greater<>());
        const auto layer = static_cast<std::size_t>(key.layer);
        out[layer].resize(ep);
        for (std::size_t r = 0; r < ep; ++r) out[layer][r] += flops[r] / sum;
        counts[layer] += 1.0;
    }
    for (std::size_t layer = 0; layer < out.size(); ++layer)
        for (double& share : out[layer]) share /= counts[layer];
    return out;
}

/// `rows` of the experts, scaled so that ranks have `shares`, the largest where most rows are.
void shareOut(const Rows& shares, const std::vector<std::int64_t>& owners, Rows& rows) {
    Rows of_rank(shares.size());
    for (std::size_t e = 0; e < rows.size(); ++e)
        of_rank[static_cast<std::size_t>(owners[e])] += rows[e];
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return of_rank[a] > of_rank[b]; });
    Rows scale(shares.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        if (of_rank[order[i]] > 0.0) scale[order[i]] = shares[i] / of_rank[order[i]];
    for (std::size_t e = 0; e < rows.size(); ++e)
        rows[e] *= scale[static_cast<std::size_t>(owners[e])];
}

}  // namespace

std::optional<RoutingLoad> measuredRouting(const Run& run, const Plan& plan) {
    if (!plan.model.moe) return std::nullopt;
    RoutingLoad load;
    load.kind = RoutingLoadKind::Histogram;
    load.histogram = rowsOfRun(run, plan.model);
    const auto recorded = [](const Rows& rows) {
        return std::any_of(rows.begin(), rows.end(), [](double r) { return r > 0.0; });
    };
    if (std::none_of(load.histogram.begin(), load.histogram.end(), recorded)) return std::nullopt;
    const std::vector<Rows> shares = sharesOfExchanges(run, plan);
    const std::vector<std::int64_t> owners = expertOwners(plan);
    for (std::size_t layer = 0; layer < load.histogram.size(); ++layer) {
        Rows& rows = load.histogram[layer];
        if (!recorded(rows))
            rows.assign(static_cast<std::size_t>(plan.model.moe->num_experts), 1.0);
        else if (!shares[layer].empty())
            shareOut(shares[layer], owners, rows);
    }
    return load;
}

}  // namespace piper
