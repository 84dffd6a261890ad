// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/cast.h"
#include "core/cost/cost.h"
#include "core/plan/pipeline_shape.h"
#include "core/search/expert_placement.h"

namespace piper {
namespace {

/// Of each stage its MoE layers, as numbers among the model's MoE layers.
std::vector<std::vector<std::size_t>> moeLayersByStage(const Plan& plan) {
    std::vector<std::size_t> number(at(plan.model.num_layers), 0);
    std::size_t count = 0;
    for (std::size_t l = 0; l < number.size(); ++l) {
        number[l] = count;
        if (plan.model.isMoe(LayerId(l))) ++count;
    }
    std::vector<std::vector<std::size_t>> out(at(plan.layout.pp));
    for (std::size_t s = 0; s < out.size(); ++s)
        for (std::int64_t v = 0; v < pipelineShape(plan).chunks(); ++v) {
            const LayerRange range =
                stageLayers(plan, StageId(s), ModelChunkId(static_cast<std::int32_t>(v)));
            for (std::int64_t l = range.begin; l < range.end; ++l)
                if (plan.model.isMoe(LayerId(at(l)))) out[s].push_back(number[at(l)]);
        }
    return out;
}

/// One entry for all layers, or one a layer.
template <class T>
const T& ofLayer(const std::vector<T>& entries, std::size_t moe_layer) {
    return entries[entries.size() == 1 ? 0 : moe_layer];
}

/// Copies sent and received by each rank of one ep group.
struct Traffic {
    std::vector<std::int64_t> sent, received;
    std::int64_t transfers = 0;

    explicit Traffic(std::int64_t ep) : sent(at(ep), 0), received(at(ep), 0) {}
    void add(const std::vector<ExpertTransfer>& moves) {
        for (const ExpertTransfer& move : moves) {
            ++sent[at(move.from)];
            ++received[at(move.to)];
            ++transfers;
        }
    }
    [[nodiscard]] std::int64_t busiest() const {
        return std::max(std::ranges::max(sent), std::ranges::max(received));
    }
};

/// An exchange in the ep group by the device's own library: rows play no part in it.
Cost exchangeCost(Plan plan, Bytes mean, Bytes busiest) {
    plan.all_to_all = {};
    plan.all_to_all.algorithm = AllToAllAlgorithm::Vendor;
    CommunicationWork work;
    work.kind = CollectiveKind::AllToAll;
    work.dimension = "ep";
    work.group_size = plan.layout.ep;
    work.bytes = mean;
    work.hottest_bytes = busiest;
    return CostModel(plan).communication(work);
}

}  // namespace

Bytes expertStateBytes(const Plan& plan, bool with_gradients) {
    const StateBytes state = stateBytes(plan);
    const double elements =
        static_cast<double>(expertParameters(plan.model)) / static_cast<double>(plan.layout.etp);
    const auto shards = [&](int from) {
        return plan.zero_stage >= from ? static_cast<double>(plan.layout.edp()) : 1.0;
    };
    double each = state.weights / shards(3) + (state.master + state.optimizer) / shards(1);
    if (with_gradients) each += state.gradients / shards(2);
    return Bytes(elements * each);
}

std::vector<ExpertTransfer> expertTransfers(const ExpertLayout& before, const ExpertLayout& after,
                                            std::int64_t ep) {
    std::vector<std::int64_t> sent(at(ep), 0);
    std::vector<ExpertTransfer> out;
    for (std::size_t e = 0; e < after.ranks.size(); ++e)
        for (const std::int64_t to : after.ranks[e]) {
            if (before.holds(e, to)) continue;
            const std::int64_t from = *std::ranges::min_element(
                before.ranks[e], {}, [&sent](std::int64_t rank) { return sent[at(rank)]; });
            ++sent[at(from)];
            out.push_back({static_cast<std::int64_t>(e), from, to});
        }
    return out;
}

MigrationCost migrationCost(const Plan& plan,
                            const std::vector<std::vector<ExpertTransfer>>& transfers,
                            bool with_gradients) {
    MigrationCost out;
    out.expert = expertStateBytes(plan, with_gradients);
    const double groups = static_cast<double>(plan.layout.world()) /
                          static_cast<double>(plan.layout.pp * plan.layout.ep);
    std::int64_t all = 0;
    Traffic worst(plan.layout.ep);
    for (const std::vector<std::size_t>& layers : moeLayersByStage(plan)) {
        Traffic stage(plan.layout.ep);
        for (const std::size_t layer : layers) stage.add(ofLayer(transfers, layer));
        all += stage.transfers;
        if (stage.busiest() > worst.busiest()) worst = stage;
    }
    out.transfers = all;
    out.total = out.expert * (static_cast<double>(all) * groups);
    out.busiest = out.expert * static_cast<double>(worst.busiest());
    if (worst.transfers == 0) return out;
    const Bytes mean =
        out.expert * (static_cast<double>(worst.transfers) / static_cast<double>(plan.layout.ep));
    out.time = exchangeCost(plan, mean, out.busiest);
    return out;
}

ReplicaCost replicaCost(const Plan& plan, const std::vector<ExpertLayout>& layouts) {
    ReplicaCost out;
    const auto ep = plan.layout.ep;
    const double own = static_cast<double>(plan.model.moe->num_experts) / static_cast<double>(ep);
    double most_copies = 0.0, most_sent = 0.0;  // of one rank, in experts
    for (const std::vector<std::size_t>& layers : moeLayersByStage(plan)) {
        std::vector<double> more(at(ep), 0.0), sent(at(ep), 0.0);
        for (const std::size_t layer : layers) {
            const ExpertLayout& layout = ofLayer(layouts, layer);
            const std::vector<std::int64_t> counts = layout.counts(ep);
            for (std::size_t r = 0; r < more.size(); ++r)
                more[r] += static_cast<double>(counts[r]) - own;
            for (const std::vector<std::int64_t>& holders : layout.ranks) {
                const auto copies = static_cast<double>(holders.size());
                for (const std::int64_t rank : holders)
                    sent[at(rank)] += 2.0 * (copies - 1.0) / copies;
            }
        }
        most_copies = std::max(most_copies, std::ranges::max(more));
        most_sent = std::max(most_sent, std::ranges::max(sent));
    }
    const double elements =
        static_cast<double>(expertParameters(plan.model)) / static_cast<double>(plan.layout.etp);
    out.memory = expertStateBytes(plan, true) * most_copies;
    out.sync_payload = Bytes(elements * stateBytes(plan).gradients * most_sent);
    if (most_sent > 0.0) out.sync = exchangeCost(plan, out.sync_payload, out.sync_payload);
    return out;
}

}  // namespace piper
