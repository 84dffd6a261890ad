// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "core/resources/memory.h"
#include "core/schedule/slot_builder.h"

// Concept: the memory table of a stage (core/resources/memory.h) says how many bytes of each term
// one micro-batch keeps there. Here each term is spread over the operations that make it, so that
// over a whole forward slot exactly the table's bytes are gained and over the backward slot all of
// them are lost; the order of the operations gives the moments.

namespace piper {
namespace {

std::size_t at(MemoryTerm term) {
    return static_cast<std::size_t>(term);
}

constexpr std::array kKeptTerms{MemoryTerm::EmbeddingActivation, MemoryTerm::AttentionActivation,
                                MemoryTerm::RouterActivation,    MemoryTerm::DispatchedRows,
                                MemoryTerm::ExpertIntermediate,  MemoryTerm::CombineActivation,
                                MemoryTerm::HeadActivation,      MemoryTerm::StageBoundary};

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
            return Phase::PpComm;
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
        case OperationKind::Receive:
            return op.key.pass == Pass::Forward;
        default:
            return false;
    }
}

/// The operation that uses a term last: the weight gradient reads it; a combine's rows are read by
/// the gradient of the combine weights; received rows by the experts' weight gradient.
bool isLastUser(const Operation& op, MemoryTerm term, bool first_layer) {
    const OperationKey& key = op.key;
    if (term == MemoryTerm::CombineActivation)
        return key.kind == OperationKind::Combine && key.pass == Pass::Backward;
    if (key.kind != OperationKind::WeightGrad) return false;
    if (term == MemoryTerm::DispatchedRows)
        return key.phase == Phase::Expert && key.layer == LayerKind::Moe && !key.shared_expert;
    if (term == MemoryTerm::StageBoundary) return key.phase == Phase::Attention && first_layer;
    return key.phase == makerPhase(term);
}

/// Share of one operation in its term: expert intermediates follow the work, others are equal.
double weightOf(const OperationKey& key, const OperationWork& work, MemoryTerm term) {
    if (term != MemoryTerm::ExpertIntermediate || key.phase != Phase::Expert) return 1.0;
    return std::max(1.0, work.flops().value);
}

}  // namespace

ActivationShares::ActivationShares(WorkTable& work, StageId stage) : m_work(work), m_stage(stage) {
    const Plan& plan = work.plan();
    addWeights();
    readTable(plan, stage, m_kept, &m_transient);
    if (plan.recompute.granularity == RecomputeGranularity::None) {
        m_full = m_kept;
        return;
    }
    Plan whole = plan;
    whole.recompute = {};
    readTable(whole, stage, m_full, nullptr);
    if (plan.recompute.num_layers == 0) return;
    whole.recompute = plan.recompute;
    whole.recompute.num_layers = 0;
    readTable(whole, stage, m_kept, nullptr);
}

void ActivationShares::readTable(const Plan& plan, StageId stage, Table& table, Table* transient) {
    const std::vector<StageMemory> memory = stageMemory(plan);
    for (const MemoryEntry& entry : memory[stage.index()].entries) {
        if (entry.lifetime == Lifetime::PerMicroBatch) table[at(entry.term)] += entry.bytes;
        if (entry.lifetime == Lifetime::PerOperation && transient)
            (*transient)[at(entry.term)] = std::max((*transient)[at(entry.term)], entry.bytes);
    }
}

void ActivationShares::addWeight(const OperationKey& key, double count) {
    const OperationWork& work = m_work.of(key, m_stage);
    for (MemoryTerm term : kKeptTerms)
        if (makerPhase(term) == key.phase) m_weights[at(term)] += count * weightOf(key, work, term);
}

void ActivationShares::addWeights() {
    const Plan& plan = m_work.plan();
    const auto chunks = static_cast<double>(std::max<std::int64_t>(1, plan.all_to_all.chunks));
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(plan.layout.vpp); ++v) {
        const ChunkPlace place = chunkPlace(plan, m_stage, ModelChunkId(v));
        addWeight(place.first ? OperationKey{OperationKind::Forward, Phase::Embedding}
                              : OperationKey{OperationKind::Receive, Phase::PpComm},
                  1.0);
        if (place.last) addWeight({OperationKind::Forward, Phase::HeadLoss}, 1.0);
        for (std::int64_t l = place.layers.begin; l < place.layers.end; ++l) {
            const LayerKind kind = plan.model.layers[static_cast<std::size_t>(l)];
            addWeight({OperationKind::Forward, Phase::Attention, Pass::Forward, kind}, 1.0);
            if (kind == LayerKind::Dense) {
                addWeight({OperationKind::Forward, Phase::Expert, Pass::Forward, kind}, 1.0);
                continue;
            }
            addWeight({OperationKind::Forward, Phase::Router}, 1.0);
            addWeight({OperationKind::Dispatch, Phase::Dispatch}, chunks);
            addWeight({OperationKind::Forward, Phase::Expert}, chunks);
            addWeight({OperationKind::Combine, Phase::Combine}, chunks);
            if (plan.model.moe->shared_ffn_hidden_size > 0)
                addWeight({OperationKind::Forward, Phase::Expert, Pass::Forward, kind, true}, 1.0);
        }
    }
}

Bytes ActivationShares::share(const Table& table, const Operation& op, MemoryTerm term) const {
    const double sum = m_weights[at(term)];
    if (sum <= 0.0 || table[at(term)].value == 0.0) return Bytes();
    OperationKey forward = op.key;
    forward.pass = Pass::Forward;
    forward.kind = forward.phase == Phase::Dispatch  ? OperationKind::Dispatch
                   : forward.phase == Phase::Combine ? OperationKind::Combine
                                                     : OperationKind::Forward;
    return table[at(term)] * (weightOf(forward, m_work.of(forward, m_stage), term) / sum);
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
            for (MemoryTerm term : kKeptTerms) {
                if (isMaker(op, term)) make(op, term);
                if (isLastUser(op, term, op.layer.value == m_layers.begin)) release(op, term);
            }
            transients(op);
        }
        std::ranges::stable_sort(m_changes, [](const MemoryChange& a, const MemoryChange& b) {
            return std::pair(a.operation, a.at_end) < std::pair(b.operation, b.at_end);
        });
        return std::move(m_changes);
    }

private:
    bool recomputed(const Operation& op) const {
        return op.layer.valid() && isRecomputed(m_plan, m_layers, op.layer.value);
    }
    void change(std::int32_t operation, bool at_end, MemoryTerm term, Bytes delta) {
        if (delta.value != 0.0) m_changes.push_back({operation, at_end, term, delta});
    }

    /// The last operation of this one's layer in the slot's forward part: what is not kept goes.
    std::int32_t layerEnd(const Operation& op) const {
        std::int32_t last = op.id;
        for (const Operation& other : m_operations)
            if (other.layer == op.layer && other.key.pass == op.key.pass) last = other.id;
        return last;
    }

    void make(const Operation& op, MemoryTerm term) {
        const Bytes full = m_shares.full(op, term);
        if (!recomputed(op)) return change(op.id, false, term, full);
        const Bytes kept = m_shares.kept(op, term);
        if (op.key.pass == Pass::Recompute) return change(op.id, false, term, full - kept);
        change(op.id, false, term, full);
        change(layerEnd(op), true, term, kept - full);
    }

    /// The maker of what this operation frees, as a key of the same layer and chunk.
    static Operation makerOf(const Operation& op, MemoryTerm term) {
        Operation maker = op;
        maker.key.phase = makerPhase(term);
        if (maker.key.phase == Phase::PpComm) maker.key.layer = LayerKind::Moe;
        return maker;
    }

    void release(const Operation& op, MemoryTerm term) {
        change(op.id, true, term, m_shares.full(makerOf(op, term), term) * -1.0);
    }

    /// What an operation needs only while it runs.
    void transients(const Operation& op) {
        const bool exchange = op.lane == Lane::Ep;
        const bool backward = op.key.kind == OperationKind::InputGrad ||
                              op.key.kind == OperationKind::WeightGrad ||
                              op.key.pass == Pass::Backward;
        if (exchange) passing(op, MemoryTerm::CommunicationBuffer);
        if (op.lane == Lane::Compute) passing(op, MemoryTerm::Workspace);
        if (backward && op.lane == Lane::Compute && op.key.phase != Phase::Optimizer)
            passing(op, MemoryTerm::GradientActivation);
    }
    void passing(const Operation& op, MemoryTerm term) {
        const Bytes held = m_shares.transient(term);
        change(op.id, false, term, held);
        change(op.id, true, term, held * -1.0);
    }

    const ActivationShares& m_shares;
    LayerRange m_layers;
    const Plan& m_plan;
    const std::vector<Operation>& m_operations;
    std::vector<MemoryChange> m_changes;
};

}  // namespace

std::vector<MemoryChange> slotMemory(WorkTable& work, StageId stage, ModelChunkId chunk,
                                     const std::vector<Operation>& operations) {
    if (!chunk.valid()) return {};  // the end of the step keeps no activation
    return MemoryWriter(work.activations(stage), stageLayers(work.plan(), stage, chunk),
                        work.plan(), operations)
        .write();
}

const ActivationShares& WorkTable::activations(StageId stage) {
    auto& known = m_activations[stage.value];
    if (!known) known = std::make_unique<ActivationShares>(*this, stage);
    return *known;
}

WorkTable::WorkTable(const Plan& plan) : m_plan(plan) {}
WorkTable::~WorkTable() = default;

}  // namespace piper
