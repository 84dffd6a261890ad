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
#include "core/plan/pipeline_shape.h"
#include "core/resources/memory.h"
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

using Exchanges = std::map<ExchangeKey, Rows>;

/// FLOPs of every ep rank's routed experts in every exchange; NaN for a rank that recorded none.
Exchanges exchangesOf(const Run& run, const Plan& plan) {
    const auto ep = static_cast<std::size_t>(plan.layout.ep);
    const double shared =
        operationWork(plan,
                      {OperationKind::Forward, Phase::Expert, Pass::Forward, LayerKind::Moe, true},
                      StageId(0))
            .flops()
            .value;
    const ProcessGrid grid(plan.layout, plan.rank_order);
    Exchanges exchanges;
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
    return exchanges;
}

double sumOf(const Rows& rows) {
    return std::accumulate(rows.begin(), rows.end(), 0.0);
}

/// [layer] -> mean shares of the ep ranks of its exchanges, the largest first; empty where fewer
/// than all ranks of a group recorded their experts' work.
std::vector<Rows> sharesOfExchanges(const Exchanges& exchanges, const Plan& plan) {
    std::vector<Rows> out(plan.model.layers.size());
    std::vector<double> counts(out.size());
    for (const auto& [key, recorded] : exchanges) {
        const double sum = sumOf(recorded);
        if (!(sum > 0.0)) continue;  // also where a rank is missing
        Rows flops = recorded;
        std::sort(flops.begin(), flops.end(), std::greater<>());
        const auto layer = static_cast<std::size_t>(key.layer);
        out[layer].resize(flops.size());
        for (std::size_t r = 0; r < flops.size(); ++r) out[layer][r] += flops[r] / sum;
        counts[layer] += 1.0;
    }
    for (std::size_t layer = 0; layer < out.size(); ++layer)
        for (double& share : out[layer]) share /= counts[layer];
    return out;
}

/// A rank's rows over the mean of its group, added up over the layers of a micro-batch.
struct HeldRows {
    double sum = 0.0, layers = 0.0;
};
/// [group and ep rank][step, micro-batch]
using HeldByRank = std::map<std::pair<std::int64_t, std::size_t>,
                            std::map<std::pair<std::int32_t, std::int32_t>, HeldRows>>;

/// Most rows that `together` micro-batches after one another have, over the mean.
double fullest(const std::map<std::pair<std::int32_t, std::int32_t>, HeldRows>& by_micro_batch,
               std::size_t together) {
    Rows ratios;
    for (const auto& [at, held] : by_micro_batch) ratios.push_back(held.sum / held.layers);
    double most = 0.0, window = 0.0;
    for (std::size_t i = 0; i < ratios.size(); ++i) {
        window += ratios[i];
        if (i >= together) window -= ratios[i - together];
        const std::size_t full = std::min(ratios.size(), together);
        if (i + 1 >= full) most = std::max(most, window / static_cast<double>(full));
    }
    return most;
}

/// Of every stage; nothing where a rank is missing.
std::vector<RowPeak> peaksOfExchanges(const Exchanges& exchanges, const Plan& plan) {
    const double ep = asDouble(plan.layout.ep);
    std::vector<RowPeak> out(static_cast<std::size_t>(plan.layout.pp));
    HeldByRank held;
    for (const auto& [key, flops] : exchanges) {
        const double sum = sumOf(flops);
        if (!(sum > 0.0)) return {};
        double& exchange = out[static_cast<std::size_t>(key.group / plan.layout.edp())].exchange;
        for (std::size_t r = 0; r < flops.size(); ++r) {
            const double ratio = flops[r] * ep / sum;
            exchange = std::max(exchange, ratio);
            HeldRows& rows = held[{key.group, r}][{key.step, key.micro_batch}];
            rows.sum += ratio;
            rows.layers += 1.0;
        }
    }
    for (const auto& [rank, by_micro_batch] : held) {
        const auto stage = static_cast<std::size_t>(rank.first / plan.layout.edp());
        const std::int64_t chunks = pipelineShape(plan).chunks();
        const std::int64_t in_flight = inFlightMicroBatches(plan, StageId(stage));
        const auto together = static_cast<std::size_t>((in_flight + chunks - 1) / chunks);
        out[stage].held = std::max(out[stage].held, fullest(by_micro_batch, together));
    }
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
    const Exchanges exchanges = exchangesOf(run, plan);
    const std::vector<Rows> shares = sharesOfExchanges(exchanges, plan);
    load.peaks = peaksOfExchanges(exchanges, plan);
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
