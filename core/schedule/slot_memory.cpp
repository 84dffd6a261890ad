// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "core/resources/memory.h"
#include "core/schedule/slot_builder.h"

// Concept: the memory table (core/resources/memory.h) says how many bytes of each term one
// micro-batch keeps of one layer, the embedding and the head. Here each term is spread over the
// operations that make it, so that over a whole forward slot exactly the table's bytes are gained
// and over the backward slot all of them are lost; the order of the operations gives the moments.

namespace piper {
namespace {

std::size_t at(MemoryTerm term) {
    return static_cast<std::size_t>(term);
}

constexpr std::array kKeptTerms{MemoryTerm::EmbeddingActivation, MemoryTerm::AttentionActivation,
                                MemoryTerm::RouterActivation,    MemoryTerm::DispatchedRows,
                                MemoryTerm::ExpertIntermediate,  MemoryTerm::CombineActivation,
                                MemoryTerm::HeadActivation};

/// The phase whose forward operation makes a term.
Phase makerPhase(MemoryTerm term) {
    switch (term) {
        case MemoryTerm::EmbeddingActivation:
            return Phase::Embedding;
        case MemoryTerm::AttentionActivation:
            return Phase::Attention;
        case MemoryTerm::RouterActivation:
            return Phase::Router;
        case MemoryTerm::DispatchedRows:
            return Phase::Dispatch;
        case MemoryTerm::ExpertIntermediate:
            return Phase::Expert;
        case MemoryTerm::CombineActivation:
            return Phase::Combine;
        case MemoryTerm::HeadActivation:
            return Phase::HeadLoss;
        default:
            return Phase::Idle;
    }
}

bool isMaker(const Operation& op, MemoryTerm term) {
    if (op.key.phase != makerPhase(term)) return false;
    switch (op.key.kind) {
        case OperationKind::Forward:
        case OperationKind::Recompute:
            return true;
        case OperationKind::Dispatch:
        case OperationKind::Combine:
            return op.key.pass != Pass::Backward;
        default:
            return false;
    }
}

/// The operation that uses a term last: the weight gradient reads it; a combine's rows are read by
/// the gradient of the combine weights; received rows by the experts' weight gradient.
bool isLastUser(const Operation& op, MemoryTerm term) {
    const OperationKey& key = op.key;
    if (term == MemoryTerm::CombineActivation)
        return key.kind == OperationKind::Combine && key.pass == Pass::Backward;
    if (key.kind != OperationKind::WeightGrad) return false;
    if (term == MemoryTerm::DispatchedRows)
        return key.phase == Phase::Expert && key.layer == LayerKind::Moe && !key.shared_expert;
    return key.phase == makerPhase(term);
}

/// Bytes by term of some entries.
ActivationShares::Table tableOf(const std::vector<MemoryEntry>& entries) {
    ActivationShares::Table table{};
    for (const MemoryEntry& entry : entries) table[at(entry.term)] += entry.bytes;
    return table;
}

ActivationShares::Table operator+(ActivationShares::Table a, const ActivationShares::Table& b) {
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t) a[t] += b[t];
    return a;
}

}  // namespace

ActivationShares::ActivationShares(WorkTable& work, StageId stage) {
    const Plan& plan = work.plan();
    Plan whole = plan;
    whole.recompute = {};
    const double imbalance = plan.model.moe ? memoryImbalance(plan, stage) : 1.0;
    if (plan.framework == Framework::Plain)
        m_worker.emplace(plan, plan.model.moe ? exchangeImbalance(plan, stage) : 1.0);
    const bool full = plan.recompute.granularity == RecomputeGranularity::Full;
    for (LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
        if (kind == LayerKind::Moe && !plan.model.moe) continue;
        LayerTables& tables = m_layers[static_cast<std::size_t>(kind)];
        tables.full = tableOf(layerActivations(whole, kind, imbalance));
        tables.kept =
            tableOf(full ? layerCheckpoint(plan) : layerActivations(plan, kind, imbalance));
        tables.backward = tableOf(gatheredLayer(plan, kind));
        if (!m_worker)
            tables.backward = tables.backward + tableOf(layerTransients(plan, kind, imbalance));
        const double on_device = activationsOnDevice(plan, stage);
        for (Table* table : {&tables.full, &tables.kept})
            for (Bytes& bytes : *table) bytes *= on_device;
    }
    m_embedding_backward = tableOf(embeddingTransients(plan));
    m_ends = tableOf(embeddingActivations(plan)) + tableOf(headActivations(plan));
    if (!m_worker) m_head_backward = tableOf(headTransients(plan));
    // The layers of multi-token prediction run inside the head.
    const LayerTables& mtp = m_layers[static_cast<std::size_t>(plan.model.layers.back())];
    for (Bytes b : mtp.full)
        m_ends[at(MemoryTerm::HeadActivation)] +=
            b * static_cast<double>(plan.model.mtp_num_layers);
    const auto chunks = static_cast<double>(std::max<std::int64_t>(1, plan.all_to_all.chunks));
    m_chunk_share = 1.0 / chunks;
    if (!plan.model.moe || plan.model.moe->shared_ffn_hidden_size == 0) return;
    const OperationKey routed{OperationKind::Forward, Phase::Expert};
    const OperationKey shared{OperationKind::Forward, Phase::Expert, Pass::Forward, LayerKind::Moe,
                              true};
    const double routed_flops = chunks * work.of(routed, stage).flops().value;
    const double shared_flops = work.of(shared, stage).flops().value;
    m_shared_share = shared_flops / std::max(1.0, routed_flops + shared_flops);
}

Bytes ActivationShares::share(const Table& layer, const Operation& op, MemoryTerm term) const {
    if (!op.layer.valid()) return m_ends[at(term)];
    if (op.key.layer == LayerKind::Dense || !op.chunk.valid()) {
        const bool shared = op.key.shared_expert && term == MemoryTerm::ExpertIntermediate;
        return layer[at(term)] * (shared ? m_shared_share : 1.0);
    }
    const bool expert = term == MemoryTerm::ExpertIntermediate;
    return layer[at(term)] * m_chunk_share * (expert ? 1.0 - m_shared_share : 1.0);
}

namespace {

/// Writes the changes of one slot.
class MemoryWriter {
public:
    MemoryWriter(const ActivationShares& shares, const LayerRange& layers, const Plan& plan,
                 const std::vector<Operation>& operations)
        : m_shares(shares), m_layers(layers), m_plan(plan), m_operations(operations) {}

    std::vector<MemoryChange> write() {
        for (const Operation& op : m_operations) {
            if (op.key.kind == OperationKind::InputGrad && recomputed(op)) makeTheRest(op);
            for (MemoryTerm term : kKeptTerms) {
                if (isMaker(op, term)) make(op, term);
                if (isLastUser(op, term)) release(op, term);
            }
        }
        passingMoments();
        return std::move(m_changes);
    }

private:
    bool recomputed(const Operation& op) const {
        return op.layer.valid() && isRecomputed(m_plan, m_layers, op.layer.value);
    }
    void change(std::int32_t operation, bool at_end, MemoryTerm term, Bytes delta) {
        if (delta.value != 0.0) m_changes.push_back({operation, at_end, term, delta});
    }

    /// Layers follow one another; between the operations of one there may be messages.
    static bool isOfAnother(const Operation& other, const Operation& op) {
        return op.layer.valid() && other.layer.valid() && other.layer != op.layer;
    }

    /// The last operation of this one's layer in the slot's forward part: what is not kept goes.
    std::int32_t layerEnd(const Operation& op) const {
        std::int32_t last = op.id;
        for (std::size_t i = static_cast<std::size_t>(op.id); i < m_operations.size(); ++i) {
            const Operation& other = m_operations[i];
            if (other.layer == op.layer && other.key.pass == op.key.pass) last = other.id;
            if (isOfAnother(other, op)) break;
        }
        return last;
    }

    void make(const Operation& op, MemoryTerm term) {
        const Bytes full = m_shares.full(op, term);
        if (!recomputed(op)) return change(op.id, false, term, full);
        const Bytes kept = m_shares.kept(op, term);
        if (op.key.pass == Pass::Recompute) {
            change(op.id, false, term, full - kept);
            again(op.layer)[at(term)] += full - kept;
            return;
        }
        change(op.id, false, term, full);
        change(layerEnd(op), true, term, kept - full);
    }

    ActivationShares::Table& again(LayerId layer) {
        if (m_again_layer != layer) m_again = {};
        m_again_layer = layer;
        return m_again;
    }

    /// What a recomputed layer did not keep and no operation of its own makes again (norms, shared
    /// experts under a selective recompute of others) is there when its gradients begin.
    void makeTheRest(const Operation& first) {
        if (m_settled == first.layer) return;
        m_settled = first.layer;
        const ActivationShares::Table& made = again(first.layer);
        for (MemoryTerm term : kKeptTerms) {
            const Bytes dropped = m_shares.layerFull(first, term) - m_shares.layerKept(first, term);
            change(first.id, false, term, dropped - made[at(term)]);
        }
    }

    void release(const Operation& op, MemoryTerm term) {
        change(op.id, true, term, m_shares.full(op, term) * -1.0);
    }

    static bool isBackwardCompute(const Operation& op) {
        return op.key.kind == OperationKind::InputGrad ||
               (op.key.kind == OperationKind::Combine && op.key.pass == Pass::Backward) ||
               op.key.kind == OperationKind::WeightGrad;
    }

    /// Of one layer's backward pass; head and embedding, which have no layer, each for itself.
    static bool sameBlock(const Operation& op, const Operation& first) {
        return op.layer == first.layer && op.key.pass == Pass::Backward &&
               (first.layer.valid() || op.key.phase == first.key.phase);
    }

    /// What the backward pass of a layer (or of the head) needs while it runs.
    void passingMoments() {
        for (std::size_t i = 0; i < m_operations.size();) {
            const Operation& first = m_operations[i];
            std::size_t last = i;
            if (!isBackwardCompute(first)) {
                ++i;
                continue;
            }
            for (std::size_t j = i; j < m_operations.size(); ++j) {
                if (sameBlock(m_operations[j], first) && m_operations[j].lane != Lane::Pp) last = j;
                if (isOfAnother(m_operations[j], first)) break;
            }
            hold(first, static_cast<std::int32_t>(last));
            i = last + 1;
        }
    }
    void hold(const Operation& first, std::int32_t last) {
        const ActivationShares::Table& moment = m_shares.backwardMoment(first);
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
            change(first.id, false, static_cast<MemoryTerm>(t), moment[t]);
            change(last, true, static_cast<MemoryTerm>(t), moment[t] * -1.0);
        }
    }

    const ActivationShares& m_shares;
    LayerRange m_layers;
    const Plan& m_plan;
    const std::vector<Operation>& m_operations;
    std::vector<MemoryChange> m_changes;
    LayerId m_again_layer, m_settled;   ///< layers come one after the other
    ActivationShares::Table m_again{};  ///< made by that layer's recompute
};

/// The end of the step keeps no activation; the optimizer may need its gradients in fp32.
std::vector<MemoryChange> optimizerMemory(const Plan& plan, StageId stage,
                                          const std::vector<Operation>& operations) {
    std::vector<MemoryChange> changes;
    const Bytes bytes = sumOf(optimizerTransients(plan, stage));
    if (bytes.value <= 0.0) return changes;
    for (const Operation& op : operations) {
        if (op.key.kind != OperationKind::Optimizer) continue;
        changes.push_back({op.id, false, MemoryTerm::Gradients, bytes});
        changes.push_back({op.id, true, MemoryTerm::Gradients, bytes * -1.0});
    }
    return changes;
}

}  // namespace

std::vector<MemoryChange> slotMemory(WorkTable& work, StageId stage, ModelChunkId chunk,
                                     const LayerRange& layers,
                                     const std::vector<Operation>& operations) {
    const Plan& plan = work.plan();
    std::vector<MemoryChange> changes, kept;
    // First: what an operation takes over is no longer on its way when it counts as kept.
    if (chunk.valid()) {
        const ActivationShares& shares = work.activations(stage);
        if (const WorkerTensors* tensors = shares.worker())
            changes = workerChanges(plan, *tensors, layers, operations);
        kept = MemoryWriter(shares, layers, plan, operations).write();
    } else {
        if (plan.framework == Framework::Plain)
            changes = workerTailChanges(work, stage, operations);
        kept = optimizerMemory(plan, stage, operations);
    }
    changes.insert(changes.end(), kept.begin(), kept.end());
    std::ranges::stable_sort(changes, [](const MemoryChange& a, const MemoryChange& b) {
        return std::pair(a.operation, a.at_end) < std::pair(b.operation, b.at_end);
    });
    return changes;
}

const ActivationShares& WorkTable::activations(StageId stage) {
    auto& known = m_activations[stage.value];
    if (!known) known = std::make_unique<ActivationShares>(*this, stage);
    return *known;
}

WorkTable::WorkTable(const Plan& plan) : m_plan(plan) {}
WorkTable::~WorkTable() = default;

}  // namespace piper
