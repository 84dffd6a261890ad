// SPDX-License-Identifier: Apache-2.0
#include "core/resources/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/resources/shard.h"

namespace piper {

namespace {

void append(std::vector<MemoryEntry>& to, const std::vector<MemoryEntry>& from, double times) {
    for (const MemoryEntry& e : from) {
        const auto same = std::find_if(to.begin(), to.end(), [&](const MemoryEntry& t) {
            return t.term == e.term && t.name == e.name;
        });
        if (same != to.end()) {
            same->bytes += e.bytes * times;
            continue;
        }
        MemoryEntry scaled = e;
        scaled.bytes *= times;
        if (times != 1.0) scaled.formula += fmt::format(" x {:.0f} layers", times);
        to.push_back(std::move(scaled));
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
    moment.push_back(
        {MemoryTerm::CommunicationBuffer, "gathered weights of one layer",
         Bytes((layer.dense + layer.expert) * element), Lifetime::PerOperation,
         fmt::format("({:.0f} + {:.0f}) x {:.0f} B", layer.dense, layer.expert, element)});
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
            for (MemoryEntry& e : moment) e.lifetime = Lifetime::PerOperation;
            for (MemoryEntry e : layerActivations(plan, kind, imbalance)) {
                e.lifetime = Lifetime::PerOperation;
                e.name = "recomputed layer: " + e.name;
                moment.push_back(std::move(e));
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
        const double rows = static_cast<double>(s.local_tokens * s.hidden);
        best.push_back({MemoryTerm::StageBoundary, "hidden state or its gradient on the way",
                        Bytes(rows * s.element), Lifetime::PerOperation,
                        fmt::format("[{}, {}] x {:.0f} B", s.local_tokens, s.hidden, s.element)});
    }
    return best;
}

}  // namespace

std::vector<MemoryEntry> persistentMemory(const Plan& plan, StageId stage) {
    const StageParameters p = stageParameters(plan, stage);
    const StateBytes b = stateBytes(plan.framework, plan.precision);
    const double dense_group = static_cast<double>(plan.layout.dp * plan.layout.cp);
    const double expert_group = static_cast<double>(plan.layout.edp());
    const double on_device = plan.offload.optimizer ? 1.0 - plan.offload.fraction : 1.0;
    std::vector<MemoryEntry> out;
    const auto add = [&](MemoryTerm term, const char* what, double bytes_each, int shard_from,
                         double scale) {
        const auto part = [&](const char* which, double elements, double group) {
            const double shards = plan.zero_stage >= shard_from ? group : 1.0;
            if (elements <= 0.0 || bytes_each <= 0.0) return;
            out.push_back(
                {term, fmt::format("{} {}", which, what),
                 Bytes(elements * bytes_each / shards * scale), Lifetime::Persistent,
                 fmt::format(
                     "{:.0f} parameters x {:.0f} B / {:.0f} shards{}", elements, bytes_each, shards,
                     scale < 1.0 ? fmt::format(" x {:.2f} on the device", scale) : std::string())});
        };
        part("layer", p.dense - p.embedding - p.head, dense_group);
        part("embedding", p.embedding, dense_group);
        part("head", p.head, dense_group);
        part("expert", p.expert, expert_group);
    };
    add(MemoryTerm::Weights, "weights", b.weights, 3, 1.0);
    add(MemoryTerm::Gradients, "gradients", b.gradients, 2, 1.0);
    add(MemoryTerm::MasterWeights, "master weights", b.master, 1, on_device);
    add(MemoryTerm::OptimizerState, "optimizer state", b.optimizer, 1, on_device);
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
