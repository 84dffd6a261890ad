// SPDX-License-Identifier: Apache-2.0
#include "core/resources/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/resources/memory_table.h"
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

StageLayerCount countLayers(const Plan& plan, StageId stage) {
    StageLayerCount count;
    for (std::int64_t v = 0; v < pipelineShape(plan).chunks(); ++v) {
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
    if (holdsHead(pipelineShape(plan), stage)) {
        const double mtp = static_cast<double>(plan.model.mtp_num_layers);
        (lastLayerKind(plan.model) == LayerKind::Moe ? count.moe : count.dense) += mtp;
    }
    return count;
}

std::vector<MemoryEntry> keptPerMicroBatch(const Plan& plan, StageId stage,
                                           const StageLayerCount& count, double imbalance) {
    std::vector<MemoryEntry> kept;
    if (holdsEmbedding(pipelineShape(plan), stage)) append(kept, embeddingActivations(plan), 1.0);
    const double recomputed = count.recomputed_dense + count.recomputed_moe;
    if (recomputed > 0.0) append(kept, layerCheckpoint(plan), recomputed);
    if (count.dense > 0.0) append(kept, layerActivations(plan, LayerKind::Dense), count.dense);
    if (count.moe > 0.0) append(kept, layerActivations(plan, LayerKind::Moe, imbalance), count.moe);
    if (holdsHead(pipelineShape(plan), stage)) append(kept, headActivations(plan), 1.0);
    return kept;
}

/// What waits in host memory is not on the device.
void offloadActivations(std::vector<MemoryEntry>& kept, double on_device) {
    if (on_device >= 1.0) return;
    for (MemoryEntry& e : kept) {
        if (e.term == MemoryTerm::HeadActivation || e.term == MemoryTerm::EmbeddingActivation)
            continue;
        e.bytes *= on_device;
        e.element_bytes *= on_device;
    }
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

double activationsOnDevice(const Plan& plan, StageId stage) {
    if (plan.offload.activations <= 0.0) return 1.0;
    const StageLayerCount count = countLayers(plan, stage);
    const double layers = count.dense + count.moe + count.recomputed_dense + count.recomputed_moe;
    return layers <= 2.0 ? 1.0 : 1.0 - plan.offload.activations * (layers - 2.0) / layers;
}

std::int64_t recomputedLayers(const Plan& plan, std::int64_t layers) {
    if (plan.recompute.granularity != RecomputeGranularity::Full) return 0;
    if (plan.recompute.method == RecomputeMethod::Uniform) return layers;
    const std::int64_t asked = plan.recompute.num_layers;
    return asked <= 0 ? layers : std::min(asked, layers);
}

std::int64_t inFlightMicroBatches(const Plan& plan, StageId stage) {
    return inFlightUntilInputGrad(pipelineShape(plan), stage);
}

namespace {

/// Fills the sums and the peak: the moment that holds most.
class StagePeak {
public:
    StagePeak(StageMemory& stage, double copies) : m_stage(stage), m_copies(copies) {}

    void consider(Moment moment) {
        const Bytes transient = sumOf(moment.entries);
        const double kept = std::max(0.0, m_copies - moment.released);
        const Bytes peak = m_stage.persistent + m_stage.per_micro_batch * kept + transient;
        if (!m_stage.peak_moment.empty() && peak <= m_stage.peak) return;
        m_stage.peak = peak;
        m_stage.transient = transient;
        m_stage.peak_moment = moment.name;
        m_stage.micro_batches_at_peak = kept;
        m_best = std::move(moment.entries);
    }

    void finish() {
        for (const MemoryEntry& e : m_stage.entries)
            m_stage.at_peak[static_cast<std::size_t>(e.term)] +=
                e.bytes *
                (e.lifetime == Lifetime::PerMicroBatch ? m_stage.micro_batches_at_peak : 1.0);
        for (const MemoryEntry& e : m_best)
            m_stage.at_peak[static_cast<std::size_t>(e.term)] += e.bytes;
        std::move(m_best.begin(), m_best.end(), std::back_inserter(m_stage.entries));
    }

private:
    StageMemory& m_stage;
    double m_copies;
    std::vector<MemoryEntry> m_best;
};

StageMemory oneStage(const Plan& plan, StageId stage) {
    StageMemory s;
    s.stage = stage;
    const StageLayerCount count = countLayers(plan, stage);
    const double imbalance = memoryImbalance(plan, stage);
    s.in_flight = inFlightMicroBatches(plan, stage);
    const double copies = asDouble(s.in_flight) / asDouble(pipelineShape(plan).chunks());
    s.entries = persistentMemory(plan, stage);
    s.persistent = sumOf(s.entries);
    std::vector<MemoryEntry> kept = keptPerMicroBatch(plan, stage, count, imbalance);
    offloadActivations(kept, activationsOnDevice(plan, stage));
    s.per_micro_batch = sumOf(kept);
    std::move(kept.begin(), kept.end(), std::back_inserter(s.entries));
    StagePeak peak(s, copies);
    for (Moment& moment : stageMoments(plan, stage, imbalance, count))
        peak.consider(std::move(moment));
    peak.consider({.name = "optimizer step",
                   .entries = optimizerTransients(plan, stage),
                   .released = copies});
    peak.finish();
    s.device_total = deviceReserve(plan).total(s.peak);
    return s;
}

}  // namespace

std::vector<StageMemory> stageMemory(const Plan& plan) {
    std::vector<StageMemory> stages;
    stages.reserve(static_cast<std::size_t>(plan.layout.pp));
    for (std::int64_t i = 0; i < plan.layout.pp; ++i)
        stages.push_back(oneStage(plan, StageId(static_cast<std::int32_t>(i))));
    return stages;
}

}  // namespace piper
