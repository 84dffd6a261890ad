// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/expand.h"

#include <algorithm>

#include "core/plan/pipeline_shape.h"
#include "core/schedule/slot_builder.h"

namespace piper {

ChunkPlace chunkPlace(const Plan& plan, StageId stage, ModelChunkId chunk) {
    const PipelineShape shape = pipelineShape(plan);
    const ChunkSeat seat{stage, chunk};
    ChunkPlace place;
    place.layers = stageLayers(plan, stage, chunk);
    place.first = true;
    place.last = true;
    if (const auto before = seatBefore(shape, seat)) {
        place.first = false;
        place.before = before->stage;
        place.chunk_before = before->chunk;
    }
    if (const auto after = seatAfter(shape, seat)) {
        place.last = false;
        place.after = after->stage;
        place.chunk_after = after->chunk;
    }
    return place;
}

bool isRecomputed(const Plan& plan, const LayerRange& range, std::int64_t layer) {
    if (plan.recompute.granularity == RecomputeGranularity::None) return false;
    if (plan.recompute.granularity == RecomputeGranularity::Selective) return true;
    if (plan.recompute.method == RecomputeMethod::Uniform) return true;
    return plan.recompute.num_layers == 0 || layer - range.begin < plan.recompute.num_layers;
}

namespace {

/// Emits the operations of one slot of one stage chunk.
class SlotExpansion {
public:
    SlotExpansion(WorkTable& work, StageId stage, ModelChunkId chunk, const ChunkPlace& place)
        : m_plan(work.plan()), m_place(place), m_builder(work, stage, chunk) {
        // A layer and its recompute, whose exchanges come in chunks, and the ends.
        m_builder.reserve((20 + 8 * chunks()) * place.layers.size() + 4);
    }

    SlotTemplate forward() {
        Ids hidden;
        if (m_place.first)
            hidden = {m_builder.add({OperationKind::Forward, Phase::Embedding, Pass::Forward})};
        else
            hidden = {m_builder.receive(Pass::Forward, m_place.before, m_builder.chunk())};
        for (std::int64_t l = m_place.layers.begin; l < m_place.layers.end; ++l)
            hidden = forwardLayer(l, Pass::Forward, hidden);
        if (m_place.last)
            m_builder.add({OperationKind::Forward, Phase::HeadLoss, Pass::Forward}, hidden);
        else
            m_builder.send(Pass::Forward, m_place.after, m_place.chunk_after, hidden);
        return m_builder.take(m_place.layers);
    }

    /// Input and weight gradients together, or one of them for schedules that split them.
    SlotTemplate backward(bool input_grad, bool weight_grad) {
        m_input_grad = input_grad;
        m_weight_grad = weight_grad;
        Ids gradient;
        if (m_place.last)
            gradient = gradients(Phase::HeadLoss, {});
        else if (input_grad)
            gradient = {m_builder.receive(Pass::Backward, m_place.after, m_builder.chunk())};
        for (std::int64_t l = m_place.layers.end; l-- > m_place.layers.begin;)
            gradient = backwardLayer(l, gradient);
        if (m_place.first && weight_grad)
            m_builder.add({OperationKind::WeightGrad, Phase::Embedding, Pass::Backward}, gradient);
        else if (!m_place.first && input_grad && m_place.layers.size() == 0)
            sendGradient(gradient);
        return m_builder.take(m_place.layers);
    }

private:
    using Ids = SlotBuilder::Ids;

    LayerKind kindOf(std::int64_t layer) const {
        return m_plan.model.layers[static_cast<std::size_t>(layer)];
    }
    bool hasShared() const { return m_plan.model.moe->shared_ffn_hidden_size > 0; }
    static OperationKind computeKind(Pass pass) {
        return pass == Pass::Recompute ? OperationKind::Recompute : OperationKind::Forward;
    }

    // --- forward and recompute ---------------------------------------------------------------

    Ids forwardLayer(std::int64_t layer, Pass pass, Ids hidden) {
        m_builder.setLayer(layer);
        const LayerKind kind = kindOf(layer);
        hidden = exchange(OperationKind::AllGather, Phase::TpComm, pass, kind, hidden);
        hidden = exchange(OperationKind::AllGather, Phase::CpComm, pass, kind, hidden);
        hidden = compute(Phase::Attention, pass, kind, hidden);
        if (kind == LayerKind::Dense)
            hidden = compute(Phase::Expert, pass, kind, hidden);
        else
            hidden = runsMoe(pass) ? forwardMoe(pass, hidden) : recomputeExpertParts(hidden);
        hidden = exchange(OperationKind::AllReduce, Phase::TpComm, pass, kind, hidden);
        hidden = exchange(OperationKind::ReduceScatter, Phase::TpComm, pass, kind, hidden);
        m_builder.setLayer(-1);
        return hidden;
    }

    /// A forward or recompute operation; selective recompute leaves out what it keeps.
    Ids compute(Phase phase, Pass pass, LayerKind kind, const Ids& after, bool shared = false,
                std::int64_t chunk = -1) {
        const OperationKey key{computeKind(pass), phase, pass, kind, shared};
        if (isSelective(pass) && !m_builder.hasWork(key)) return after;
        return {m_builder.add(key, after, chunk)};
    }
    bool isSelective(Pass pass) const {
        return pass == Pass::Recompute &&
               m_plan.recompute.granularity == RecomputeGranularity::Selective;
    }
    /// A selective recompute runs router and exchanges again only for the module "moe".
    bool runsMoe(Pass pass) const {
        return !isSelective(pass) ||
               std::ranges::find(m_plan.recompute.modules, "moe") != m_plan.recompute.modules.end();
    }
    Ids recomputeExpertParts(Ids hidden) {
        for (std::int64_t c = 0; c < chunks(); ++c)
            hidden = compute(Phase::Expert, Pass::Recompute, LayerKind::Moe, hidden, false, c);
        return hidden;
    }

    /// Chunk c+1 is on its way while the experts work on chunk c.
    Ids forwardMoe(Pass pass, const Ids& hidden) {
        const OperationKind kind = computeKind(pass);
        const auto router = m_builder.add({kind, Phase::Router, pass}, hidden);
        auto arrived = m_builder.add({OperationKind::Dispatch, Phase::Dispatch, pass}, {router}, 0);
        if (hasShared()) compute(Phase::Expert, pass, LayerKind::Moe, hidden, true);
        std::int32_t combined = -1;
        for (std::int64_t c = 0; c < chunks(); ++c) {
            const auto rows = arrived;
            if (c + 1 < chunks())
                arrived = m_builder.add({OperationKind::Dispatch, Phase::Dispatch, pass}, {router},
                                        c + 1);
            const auto expert = m_builder.add({kind, Phase::Expert, pass}, {rows}, c);
            combined = m_builder.add({OperationKind::Combine, Phase::Combine, pass}, {expert}, c);
        }
        return {combined};
    }

    // --- backward ----------------------------------------------------------------------------

    /// The input and the weight gradient of one block, as the slot asks for them.
    Ids gradients(Phase phase, Ids gradient, LayerKind kind = LayerKind::Moe, bool shared = false,
                  std::int64_t chunk = -1) {
        Ids out = gradient;
        if (m_input_grad)
            out = {m_builder.add({OperationKind::InputGrad, phase, Pass::Backward, kind, shared},
                                 gradient, chunk)};
        if (m_weight_grad)
            m_builder.add({OperationKind::WeightGrad, phase, Pass::Backward, kind, shared},
                          gradient, chunk);
        return out;
    }

    Ids backwardLayer(std::int64_t layer, Ids gradient) {
        const LayerKind kind = kindOf(layer);
        if (m_input_grad && isRecomputed(m_plan, m_place.layers, layer))
            forwardLayer(layer, Pass::Recompute, {});
        m_builder.setLayer(layer);
        gradient = backwardExchange(OperationKind::AllGather, Phase::TpComm, kind, gradient);
        gradient = kind == LayerKind::Moe ? backwardMoe(gradient)
                                          : gradients(Phase::Expert, gradient, LayerKind::Dense);
        gradient = backwardExchange(OperationKind::AllGather, Phase::CpComm, kind, gradient);
        if (m_input_grad)
            gradient = {m_builder.add(
                {OperationKind::InputGrad, Phase::Attention, Pass::Backward, kind}, gradient)};
        gradient = backwardExchange(OperationKind::ReduceScatter, Phase::CpComm, kind, gradient);
        gradient = backwardExchange(OperationKind::AllReduce, Phase::TpComm, kind, gradient);
        gradient = backwardExchange(OperationKind::ReduceScatter, Phase::TpComm, kind, gradient);
        const bool stage_done = layer == m_place.layers.begin && !m_place.first;
        if (stage_done && m_input_grad) sendGradient(gradient);
        if (m_weight_grad)
            m_builder.add({OperationKind::WeightGrad, Phase::Attention, Pass::Backward, kind});
        m_builder.setLayer(-1);
        return gradient;
    }

    Ids backwardMoe(const Ids& gradient) {
        if (!m_input_grad) return moeWeightGradients();
        const OperationKey combine{OperationKind::Combine, Phase::Combine, Pass::Backward};
        auto arrived = m_builder.add(combine, gradient, 0);
        if (hasShared()) gradients(Phase::Expert, gradient, LayerKind::Moe, true);
        std::int32_t returned = -1;
        for (std::int64_t c = 0; c < chunks(); ++c) {
            const auto rows = arrived;
            if (c + 1 < chunks()) arrived = m_builder.add(combine, gradient, c + 1);
            const auto expert =
                m_builder.add({OperationKind::InputGrad, Phase::Expert, Pass::Backward}, {rows}, c);
            returned = m_builder.add({OperationKind::Dispatch, Phase::Dispatch, Pass::Backward},
                                     {expert}, c);
            if (m_weight_grad)
                m_builder.add({OperationKind::WeightGrad, Phase::Expert, Pass::Backward}, {rows},
                              c);
        }
        return gradients(Phase::Router, {returned});
    }

    Ids moeWeightGradients() {
        if (hasShared()) gradients(Phase::Expert, {}, LayerKind::Moe, true);
        for (std::int64_t c = 0; c < chunks(); ++c)
            gradients(Phase::Expert, {}, LayerKind::Moe, false, c);
        return gradients(Phase::Router, {});
    }

    void sendGradient(const Ids& gradient) {
        m_builder.setLayer(-1);
        m_builder.send(Pass::Backward, m_place.before, m_place.chunk_before, gradient);
        m_builder.setLayer(m_place.layers.begin);
    }

    // --- tensor and context parallel exchanges -------------------------------------------------

    /// One operation stands for all exchanges of that kind in the layer and pass
    /// (core/resources/work.h); nothing is emitted where the layout has none.
    Ids exchange(OperationKind kind, Phase phase, Pass pass, LayerKind layer, const Ids& after) {
        const OperationKey key{kind, phase, pass, layer};
        if (isSelective(pass) || !m_builder.hasWork(key)) return after;
        return {m_builder.add(key, after)};
    }
    Ids backwardExchange(OperationKind kind, Phase phase, LayerKind layer, const Ids& gradient) {
        return m_input_grad ? exchange(kind, phase, Pass::Backward, layer, gradient) : gradient;
    }

    std::int64_t chunks() const { return std::max<std::int64_t>(1, m_plan.all_to_all.chunks); }

    const Plan& m_plan;
    ChunkPlace m_place;
    SlotBuilder m_builder;
    bool m_input_grad = true, m_weight_grad = true;
};

}  // namespace

SlotTemplate StageExpander::slot(const SlotForm& form) const {
    SlotTemplate first = single(form.kind, form.chunk);
    if (!form.paired) return first;
    return pairSlots(std::move(first), single(form.second_kind, form.second_chunk));
}

SlotTemplate StageExpander::single(Slot::Kind kind, ModelChunkId chunk) const {
    return part(kind, chunk, chunkPlace(m_work.plan(), m_stage, chunk));
}

SlotTemplate StageExpander::part(Slot::Kind kind, ModelChunkId chunk,
                                 const ChunkPlace& place) const {
    SlotExpansion expansion(m_work, m_stage, chunk, place);
    switch (kind) {
        case Slot::Kind::Forward:
            return expansion.forward();
        case Slot::Kind::Backward:
            return expansion.backward(true, true);
        case Slot::Kind::InputGrad:
            return expansion.backward(true, false);
        case Slot::Kind::WeightGrad:
            return expansion.backward(false, true);
    }
    return {};
}

SlotTemplate StageExpander::tail() const {
    const Plan& plan = m_work.plan();
    SlotBuilder builder(m_work, m_stage, ModelChunkId(-1));
    const bool sharded = plan.zero_stage >= 1;
    const OperationKind reduce = sharded ? OperationKind::ReduceScatter : OperationKind::AllReduce;
    SlotBuilder::Ids reduced;
    std::vector<LayerKind> groups;
    const std::int64_t copies = pipelineShape(plan).modelCopies();
    if (plan.layout.dp * plan.layout.cp * copies > 1) groups.push_back(LayerKind::Dense);
    if (plan.layout.edp() * copies > 1 && plan.model.moe) groups.push_back(LayerKind::Moe);
    for (LayerKind group : groups)
        reduced.push_back(
            builder.add({reduce, Phase::DpComm, Pass::Backward, group}, {kComputeBefore}));
    if (!reduced.empty()) reduced = {reduced.back()};
    const auto optimizer =
        builder.add({OperationKind::Optimizer, Phase::Optimizer, Pass::Backward}, reduced);
    if (sharded)
        for (LayerKind group : groups)
            builder.add({OperationKind::AllGather, Phase::DpComm, Pass::Backward, group},
                        {optimizer});
    return builder.take({});
}

}  // namespace piper
