// SPDX-License-Identifier: Apache-2.0
#include "core/resources/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/resources/shard.h"

namespace piper {

namespace {

/// Static texts: equal names are the same line.
void append(std::vector<MemoryEntry>& to, const std::vector<MemoryEntry>& from, double layers) {
    for (const MemoryEntry& e : from) {
        const auto same = std::find_if(to.begin(), to.end(), [&](const MemoryEntry& t) {
            return t.term == e.term && t.name == e.name;
        });
        if (same != to.end()) {
            same->bytes += e.bytes * layers;
            same->layers += layers;
            continue;
        }
        to.push_back(e);
        to.back().bytes *= layers;
        to.back().layers = layers;
    }
}

struct LayerCount {
    double dense = 0.0, moe = 0.0;                        ///< that keep their activations
    double recomputed_dense = 0.0, recomputed_moe = 0.0;  ///< that keep their input
};

LayerCount countLayers(const Plan& plan, StageId stage) {
    LayerCount count;
    for (std::int64_t v = 0; v < plan.layout.vpp; ++v) {
        const LayerRange range =
            stageLayers(plan, stage, ModelChunkId(static_cast<std::int32_t>(v)));
        const std::int64_t again = recomputedLayers(plan, range.size());
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            const bool moe = plan.model.isMoe(LayerId(static_cast<std::int32_t>(i)));
            if (i - range.begin < again)
                (moe ? count.recomputed_moe : count.recomputed_dense) += 1.0;
            else
                (moe ? count.moe : count.dense) += 1.0;
        }
    }
    if (stage.value + 1 == plan.layout.pp) {
        const double mtp = static_cast<double>(plan.model.mtp_num_layers);
        (lastLayerKind(plan.model) == LayerKind::Moe ? count.moe : count.dense) += mtp;
    }
    return count;
}

std::vector<MemoryEntry> keptPerMicroBatch(const Plan& plan, StageId stage, const LayerCount& count,
                                           double imbalance) {
    std::vector<MemoryEntry> kept;
    if (stage.value == 0) append(kept, embeddingActivations(plan), 1.0);
    const double recomputed = count.recomputed_dense + count.recomputed_moe;
    if (recomputed > 0.0) append(kept, layerCheckpoint(plan), recomputed);
    if (count.dense > 0.0) append(kept, layerActivations(plan, LayerKind::Dense), count.dense);
    if (count.moe > 0.0) append(kept, layerActivations(plan, LayerKind::Moe, imbalance), count.moe);
    if (stage.value + 1 == plan.layout.pp) append(kept, headActivations(plan), 1.0);
    return kept;
}

/// Gathered weights of the largest layer under ZeRO 3.
void addGatheredLayer(std::vector<MemoryEntry>& moment, const Plan& plan, LayerKind kind) {
    if (plan.zero_stage < 3) return;
    const DenseAndExpert layer = layerElements(plan, kind);
    const double element = activationElementBytes(plan.precision).value;
    const double elements = layer.dense + layer.expert;
    moment.push_back({.term = MemoryTerm::CommunicationBuffer,
                      .name = "gathered weights of one layer",
                      .bytes = Bytes(elements * element),
                      .lifetime = Lifetime::PerOperation,
                      .shape = "parameters",
                      .rows = elements,
                      .element_bytes = element});
}

/// The largest moment of the backward pass of a stage.
std::vector<MemoryEntry> largestMoment(const Plan& plan, StageId stage, const LayerCount& count,
                                       double imbalance) {
    std::vector<MemoryEntry> best;
    const auto consider = [&](LayerKind kind, double layers, bool recomputed) {
        if (layers <= 0.0) return;
        std::vector<MemoryEntry> moment = layerTransients(plan, kind, imbalance);
        addGatheredLayer(moment, plan, kind);
        if (recomputed) {
            for (MemoryEntry e : layerActivations(plan, kind, imbalance)) {
                e.lifetime = Lifetime::PerOperation;
                e.recomputed = true;
                moment.push_back(e);
            }
        }
        if (sumOf(moment) > sumOf(best)) best = std::move(moment);
    };
    consider(LayerKind::Dense, count.dense, false);
    consider(LayerKind::Moe, count.moe, false);
    consider(LayerKind::Dense, count.recomputed_dense, true);
    consider(LayerKind::Moe, count.recomputed_moe, true);
    if (stage.value + 1 == plan.layout.pp) {
        std::vector<MemoryEntry> head = headTransients(plan);
        if (sumOf(head) > sumOf(best)) best = std::move(head);
    }
    if (plan.layout.pp > 1) {
        const Shard s = shardOf(plan);
        const double rows = static_cast<double>(s.local_tokens);
        const double width = static_cast<double>(s.hidden);
        best.push_back({.term = MemoryTerm::StageBoundary,
                        .name = "hidden state or its gradient on the way",
                        .bytes = Bytes(rows * width * s.element),
                        .lifetime = Lifetime::PerOperation,
                        .shape = "[T, H]",
                        .rows = rows,
                        .width = width,
                        .element_bytes = s.element});
    }
    return best;
}

}  // namespace

std::string MemoryEntry::formula() const {
    std::string out =
        shape == "parameters"
            ? fmt::format("{:.0f} parameters x {:g} B", rows, element_bytes)
            : fmt::format("{} = [{:.0f}, {:.0f}] x {:g} B", shape, rows, width, element_bytes);
    if (layers != 1.0) out += fmt::format(" x {:.0f} layers", layers);
    if (shards != 1.0) out += fmt::format(" / {:.0f} ranks", shards);
    if (recomputed) out += ", computed again";
    return out;
}

std::vector<MemoryEntry> persistentMemory(const Plan& plan, StageId stage) {
    const StageParameters p = stageParameters(plan, stage);
    const StateBytes b = stateBytes(plan.framework, plan.precision);
    const double dense_group = static_cast<double>(plan.layout.dp * plan.layout.cp);
    const double expert_group = static_cast<double>(plan.layout.edp());
    const double on_device = plan.offload.optimizer ? 1.0 - plan.offload.fraction : 1.0;
    std::vector<MemoryEntry> out;
    out.reserve(16);
    const auto part = [&](MemoryTerm term, std::string_view name, double elements,
                          double bytes_each, double shards) {
        if (elements <= 0.0 || bytes_each <= 0.0) return;
        out.push_back({.term = term,
                       .name = name,
                       .bytes = Bytes(elements * bytes_each / shards),
                       .shape = "parameters",
                       .rows = elements,
                       .element_bytes = bytes_each,
                       .shards = shards});
    };
    struct Names {
        std::string_view layer, embedding, head, expert;
    };
    const auto add = [&](MemoryTerm term, const Names& names, double bytes_each, int shard_from) {
        const double dense = plan.zero_stage >= shard_from ? dense_group : 1.0;
        const double expert = plan.zero_stage >= shard_from ? expert_group : 1.0;
        part(term, names.layer, p.dense - p.embedding - p.head, bytes_each, dense);
        part(term, names.embedding, p.embedding, bytes_each, dense);
        part(term, names.head, p.head, bytes_each, dense);
        part(term, names.expert, p.expert, bytes_each, expert);
    };
    add(MemoryTerm::Weights,
        {"layer weights", "embedding weights", "head weights", "expert weights"}, b.weights, 3);
    add(MemoryTerm::Gradients,
        {"layer gradients", "embedding gradients", "head gradients", "expert gradients"},
        b.gradients, 2);
    add(MemoryTerm::MasterWeights,
        {"layer master weights", "embedding master weights", "head master weights",
         "expert master weights"},
        b.master * on_device, 1);
    add(MemoryTerm::OptimizerState,
        {"layer optimizer state", "embedding optimizer state", "head optimizer state",
         "expert optimizer state"},
        b.optimizer * on_device, 1);
    return out;
}

std::int64_t recomputedLayers(const Plan& plan, std::int64_t layers) {
    if (plan.recompute.granularity != RecomputeGranularity::Full) return 0;
    const std::int64_t asked = plan.recompute.num_layers;
    return asked <= 0 ? layers : std::min(asked, layers);
}

std::int64_t inFlightMicroBatches(const Plan& plan, StageId stage) {
    const std::int64_t m = std::max<std::int64_t>(1, plan.numMicroBatches());
    const std::int64_t pp = plan.layout.pp, vpp = plan.layout.vpp, i = stage.value;
    switch (plan.schedule) {
        case ScheduleKind::GPipe:
            return m * vpp;
        case ScheduleKind::OneF1B:
        case ScheduleKind::ZbH1:
            return std::min(m, pp - i) * vpp;
        case ScheduleKind::InterleavedOneF1B:
            if (vpp <= 1) return std::min(m, pp - i);
            return std::min(m * vpp, 2 * (pp - i - 1) + (vpp - 1) * pp + 1);
        case ScheduleKind::ZbH2:
            return std::min(m, std::max<std::int64_t>(1, 2 * (pp - i) - 1)) * vpp;
        case ScheduleKind::ZbV:
            return std::min(m * vpp, vpp * pp);
        case ScheduleKind::DualPipe:
        case ScheduleKind::DualPipeV:
            return std::min(m, pp + 1) * vpp;
    }
    return m;
}

std::vector<StageMemory> stageMemory(const Plan& plan) {
    std::vector<StageMemory> stages;
    for (std::int64_t i = 0; i < plan.layout.pp; ++i) {
        StageMemory s;
        s.stage = StageId(static_cast<std::int32_t>(i));
        const LayerCount count = countLayers(plan, s.stage);
        const double imbalance = stageImbalance(plan, s.stage);
        s.in_flight = inFlightMicroBatches(plan, s.stage);
        const double copies =
            static_cast<double>(s.in_flight) / static_cast<double>(plan.layout.vpp);
        const auto take = [&](std::vector<MemoryEntry> entries, double times) {
            const Bytes sum = sumOf(entries);
            for (const MemoryEntry& e : entries)
                s.at_peak[static_cast<std::size_t>(e.term)] += e.bytes * times;
            std::move(entries.begin(), entries.end(), std::back_inserter(s.entries));
            return sum;
        };
        s.persistent = take(persistentMemory(plan, s.stage), 1.0);
        s.per_micro_batch = take(keptPerMicroBatch(plan, s.stage, count, imbalance), copies);
        s.transient = take(largestMoment(plan, s.stage, count, imbalance), 1.0);
        s.peak = s.persistent + s.per_micro_batch * copies + s.transient;
        stages.push_back(std::move(s));
    }
    return stages;
}

}  // namespace piper
