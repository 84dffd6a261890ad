// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/step_model.h"

#include <algorithm>

#include "core/resources/memory.h"
#include "core/run/run.h"
#include "core/schedule/slot_player.h"

namespace piper {
namespace {

/// Length of each communication phase outside the compute lane, in one slot on its own. Sends are
/// left out: who waits for one is another stage.
std::array<std::int64_t, kNumPhases> exposedTimes(const SlotTemplate& slot,
                                                  const IsolatedTimes& times) {
    std::array<std::vector<Interval>, kNumPhases> phases;
    std::vector<Interval> busy;
    for (std::size_t i = 0; i < slot.operations.size(); ++i) {
        const Operation& op = slot.operations[i];
        const Interval interval{times.start_ns[i], times.end_ns[i]};
        if (op.lane == Lane::Compute) busy.push_back(interval);
        if (isCommunication(op.key.phase) && op.lane != Lane::Pp)
            phases[static_cast<std::size_t>(op.key.phase)].push_back(interval);
    }
    busy = mergeIntervals(std::move(busy));
    std::array<std::int64_t, kNumPhases> exposed{};
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        if (phases[p].empty()) continue;
        const std::vector<Interval> merged = mergeIntervals(std::move(phases[p]));
        exposed[p] = unionLength(merged) - intersectionLength(merged, busy);
    }
    return exposed;
}

}  // namespace

StepModel::SlotPointer StepModel::priceSlot(SlotTemplate slot, const CostModel& cost,
                                            Exposure& exposure, StageId stage,
                                            LayerId first_layer) {
    auto out = std::make_shared<PricedSlot>();
    out->slot = std::move(slot);
    out->first_layer = first_layer;
    for (const Operation& op : out->slot.operations) {
        const std::int32_t where = isStageWork(*m_plan, op.key) ? stage.value : -1;
        const OperationWork& work = m_work->of(op.key, stage);
        const auto [at, added] = m_costs.try_emplace(packed(op.key, where));
        if (added) {
            at->second = {cost.operation(work, op.key.phase), exposure.share(op.key, stage)};
            if (exposure.waitsForHostMemory(op.key, stage))
                at->second.cost.evidence.kind = EvidenceKind::Assumed;
        }
        out->work.push_back(&work);
        out->costs.push_back(isHandOver(op) ? Cost{} : at->second.cost);
        out->shares.push_back(at->second.share);
    }
    for (const MemoryChange& change : out->slot.memory) {
        out->net[static_cast<std::size_t>(change.term)] += change.delta;
        out->net_total += change.delta;
        if (out->net_total <= out->peak_total) continue;
        out->peak_total = out->net_total;
        out->at_peak = out->net;
        out->peak_operation = change.operation;
    }
    return out;
}

/// Stage chunks with the same kinds of layers between the same ends do the same, unless a routing
/// load differs by layer: their slot is expanded and priced once.
StepModel::SlotPointer StepModel::slotOf(const StageExpander& expander, const SlotForm& form,
                                         const CostModel& cost, Exposure& exposure, StageId stage) {
    std::string doing;
    const auto member = [&](Slot::Kind kind, ModelChunkId chunk) {
        const ChunkPlace place = chunkPlace(*m_plan, stage, chunk);
        doing += static_cast<char>('0' + static_cast<int>(kind));
        doing += static_cast<char>('0' + (place.first ? 1 : 0) + (place.last ? 2 : 0));
        doing += place.before == stage ? 'b' : place.after == stage ? 'a' : '-';  // hands over
        for (std::int64_t l = place.layers.begin; l < place.layers.end; ++l)
            doing +=
                m_plan->model.layers[static_cast<std::size_t>(l)] == LayerKind::Moe ? 'm' : 'd';
        if (m_plan->routing_load.kind != RoutingLoadKind::Uniform)
            doing += fmt::format("@{}.{}", stage.value, chunk.value);
    };
    member(form.kind, form.chunk);
    // The layers of a pair's second slot are known by the chunk alone.
    if (form.paired) {
        doing += fmt::format("+{}.{}", stage.value, form.chunk.value);
        member(form.second_kind, form.second_chunk);
    }
    SlotPointer& shared = m_shared[doing];
    if (!shared) {
        const LayerRange range = stageLayers(*m_plan, stage, form.chunk);
        shared = priceSlot(expander.slot(form), cost, exposure, stage,
                           LayerId(static_cast<std::int32_t>(range.begin)));
    }
    return shared;
}

void StepModel::priceStage(const CostModel& cost, Exposure& exposure, StageId stage) {
    PricedStage priced;
    const StageExpander expander(*m_work, stage);
    for (const SlotPlayer::FormCount& form : m_player->forms(stage.index())) {
        const LayerRange range = stageLayers(*m_plan, stage, form.form.chunk);
        priced.slots.push_back({slotOf(expander, form.form, cost, exposure, stage), form.count,
                                LayerId(static_cast<std::int32_t>(range.begin))});
    }
    priced.tail = {priceSlot(expander.tail(), cost, exposure, stage, LayerId()), 1, LayerId()};
    for (const MemoryEntry& entry : persistentMemory(*m_plan, stage))
        priced.persistent[static_cast<std::size_t>(entry.term)] += entry.bytes;
    m_stages.push_back(std::move(priced));
}

Result<StepModel> StepModel::make(const Plan& plan, const CostModel& cost) {
    StepModel model(plan);
    const PipelineShape shape = pipelineShape(plan);
    PIPER_ASSIGN(model.m_slots, makeSlots(shape));
    model.m_player.emplace(model.m_slots, shape);
    model.m_work = std::make_shared<WorkTable>(plan);
    Exposure exposure(*model.m_work, cost);
    for (std::size_t s = 0; s < model.m_slots.size(); ++s)
        model.priceStage(cost, exposure, StageId(s));
    return model;
}

std::vector<std::int64_t> StepModel::durations(const PricedSlot& slot, const Adjust& adjust) {
    std::vector<std::int64_t> out(slot.costs.size());
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = inNs((adjust ? adjust(slot.slot.operations[i], *slot.work[i], slot.costs[i])
                              : slot.costs[i].time) *
                      slot.shares[i]);
    return out;
}

StepModel::UseTimes StepModel::timesOf(const PricedSlot& slot, const Adjust& adjust) {
    UseTimes out;
    const std::vector<std::int64_t> times = durations(slot, adjust);
    out.matrix = laneMatrix(slot.slot, times);
    const IsolatedTimes isolated = isolatedTimes(slot.slot, times);
    out.span_ns = isolated.span_ns;
    for (std::size_t i = 0; i < times.size(); ++i) {
        const Operation& op = slot.slot.operations[i];
        if (op.key.kind == OperationKind::Receive) continue;
        if (op.lane == Lane::Compute) out.busy_compute_ns += times[i];
        // What is hidden counts, and so does the device's wait for the host.
        const double whole = static_cast<double>(times[i]) / std::min(1.0, slot.shares[i]);
        out.phase_ns[static_cast<std::size_t>(op.key.phase)] +=
            static_cast<std::int64_t>(whole + 0.5);
        if (op.key.kind == OperationKind::Recompute) out.recompute_flops += op.flops;
    }
    out.exposed_ns = exposedTimes(slot.slot, isolated);
    return out;
}

StepModel::TimesTable StepModel::times(const Adjust& adjust) const {
    TimesTable out;
    const auto add = [&](const SlotUse& use) {
        if (!use.slot) return;
        const auto [at, added] = out.try_emplace(use.slot.get());
        if (added) at->second = timesOf(*use.slot, adjust);
    };
    for (const PricedStage& stage : m_stages) {
        for (const SlotUse& use : stage.slots) add(use);
        add(stage.tail);
    }
    return out;
}

StageEstimate StepModel::stageSums(const PricedStage& stage, const TimesTable& times) {
    StageEstimate out;
    const auto add = [&](const SlotUse& use) {
        if (!use.slot) return;
        const UseTimes& t = times.at(use.slot.get());
        out.span_ns += use.count * t.span_ns;
        out.busy_compute_ns += use.count * t.busy_compute_ns;
        for (std::size_t p = 0; p < kNumPhases; ++p) {
            out.phase_ns[p] += use.count * t.phase_ns[p];
            out.exposed_ns[p] += use.count * t.exposed_ns[p];
        }
        out.recompute_flops += t.recompute_flops * static_cast<double>(use.count);
    };
    for (const SlotUse& use : stage.slots) add(use);
    add(stage.tail);
    return out;
}

void StepModel::findPeak(std::size_t stage, StageEstimate& out) const {
    const PricedStage& priced = m_stages[stage];
    std::array<Bytes, kNumMemoryTerms> held = priced.persistent;
    Bytes total;
    for (Bytes b : held) total += b;
    out.peak = total;
    out.at_peak = held;
    out.peak_operation.id = -1;
    for (const SlotPlayer::Row& row : m_player->rows(stage)) {
        const SlotUse& use = priced.slots[row.form];
        const PricedSlot& kind = *use.slot;
        if (total + kind.peak_total > out.peak) {
            out.peak = total + kind.peak_total;
            for (std::size_t t = 0; t < kNumMemoryTerms; ++t)
                out.at_peak[t] = held[t] + kind.at_peak[t];
            out.peak_operation =
                kind.slot.operations[static_cast<std::size_t>(kind.peak_operation)];
            out.peak_operation.micro_batch = row.micro_batch[memberOf(out.peak_operation)];
            if (LayerId& layer = out.peak_operation.layer; layer.valid())
                layer = LayerId(layer.value + use.first_layer.value - kind.first_layer.value);
        }
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) held[t] += kind.net[t];
        total += kind.net_total;
    }
    const PricedSlot& tail = *priced.tail.slot;
    if (tail.slot.memory.empty() || total + tail.peak_total <= out.peak) return;
    out.peak = total + tail.peak_total;
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t) out.at_peak[t] = held[t] + tail.at_peak[t];
    out.peak_operation = tail.slot.operations[static_cast<std::size_t>(tail.peak_operation)];
}

Result<StepEstimate> StepModel::estimate(const Adjust& adjust) const {
    const TimesTable table = times(adjust);
    std::vector<std::vector<const LaneMatrix*>> matrices;
    for (const PricedStage& stage : m_stages) {
        std::vector<const LaneMatrix*>& row = matrices.emplace_back();
        for (const SlotUse& use : stage.slots) row.push_back(&table.at(use.slot.get()).matrix);
    }
    PIPER_ASSIGN(const SlotPlayer::Times played, m_player->play(matrices));
    StepEstimate out;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
        StageEstimate stage = stageSums(m_stages[s], table);
        stage.end_ns =
            std::ranges::max(table.at(m_stages[s].tail.slot.get()).matrix.apply(played.lanes[s]));
        findPeak(s, stage);
        // Steps that follow one another without a wait for all ranks are apart by the longest
        // rank's own span: the next one is this one, later by so much.
        const std::int64_t begin =
            m_plan->optimizer.post_validation ? played.start_ns[s] : std::int64_t{0};
        out.step_ns = std::max(out.step_ns, stage.end_ns - begin);
        out.stages.push_back(std::move(stage));
    }
    finish(out);
    return out;
}

void StepModel::finish(StepEstimate& out) {
    if (out.step_ns <= 0) return;
    for (const StageEstimate& stage : out.stages)
        out.bubble_fraction += std::max(0.0, 1.0 - static_cast<double>(stage.span_ns) /
                                                       static_cast<double>(out.step_ns)) /
                               static_cast<double>(out.stages.size());
}

RankSlots StepModel::rankSlots(std::size_t s, const StageEstimate& sums,
                               const TimesTable& times) const {
    RankSlots out;
    std::array<std::int64_t, 5> sum{}, count{};
    for (std::size_t f = 0; f < m_stages[s].slots.size(); ++f) {
        const SlotForm& form = m_player->forms(s)[f].form;
        const std::size_t kind = form.paired ? 4 : static_cast<std::size_t>(form.kind);
        sum[kind] += times.at(m_stages[s].slots[f].slot.get()).span_ns;
        ++count[kind];
    }
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] /= std::max<std::int64_t>(1, count[k]);
    const auto of = [&sum](Slot::Kind kind) { return sum[static_cast<std::size_t>(kind)]; };
    out.tail_ns = times.at(m_stages[s].tail.slot.get()).span_ns;
    out.span_ns = sums.span_ns - out.tail_ns;
    out.message_ns = sums.phase_ns[static_cast<std::size_t>(Phase::PpComm)];
    out.forward_ns = of(Slot::Kind::Forward);
    out.input_grad_ns = of(Slot::Kind::InputGrad);
    out.weight_grad_ns = of(Slot::Kind::WeightGrad);
    out.backward_ns = of(Slot::Kind::Backward);
    out.pair_ns = sum[4];
    return out;
}

StepEstimate StepModel::closedForm(const Adjust& adjust) const {
    StepEstimate out;
    const TimesTable table = times(adjust);
    std::vector<RankSlots> ranks;
    for (std::size_t s = 0; s < m_stages.size(); ++s) {
        StageEstimate stage = stageSums(m_stages[s], table);
        ranks.push_back(rankSlots(s, stage, table));
        findPeak(s, stage);
        out.stages.push_back(std::move(stage));
    }
    out.step_ns =
        closedFormStepNs(pipelineShape(*m_plan), ranks, m_plan->optimizer.post_validation);
    for (StageEstimate& stage : out.stages) stage.end_ns = out.step_ns;
    finish(out);
    return out;
}

std::array<Cost, kNumPhases> StepModel::phaseCosts() const {
    std::array<Cost, kNumPhases> out{};
    const double share = 1.0 / static_cast<double>(m_stages.size());
    const auto add = [&](const SlotUse& use) {
        if (!use.slot) return;
        const PricedSlot& slot = *use.slot;
        for (std::size_t i = 0; i < slot.costs.size(); ++i) {
            const Operation& op = slot.slot.operations[i];
            if (op.key.kind == OperationKind::Receive) continue;
            Cost& sum = out[static_cast<std::size_t>(op.key.phase)];
            if (slot.costs[i].time.value <= 0.0) continue;
            const Cost part = slot.costs[i] * (static_cast<double>(use.count) * share);
            sum = sum.time.value > 0.0 ? sum + part : part;
        }
    };
    for (const PricedStage& stage : m_stages) {
        for (const SlotUse& use : stage.slots) add(use);
        add(stage.tail);
    }
    return out;
}

}  // namespace piper
