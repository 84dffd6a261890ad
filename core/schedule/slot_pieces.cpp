// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_pieces.h"

#include <algorithm>

#include "core/run/run.h"
#include "core/schedule/exposure.h"

namespace piper {

/// Prices parts of one plan.
class SlotPieces::Builder {
public:
    Builder(const Plan& plan, const CostModel& cost, bool split)
        : m_plan(plan),
          m_cost(cost),
          m_split(split),
          m_work(plan),
          m_exposure(m_work, cost),
          m_expander(m_work, kHere) {}

    [[nodiscard]] Part part(ChunkPlace place) {
        Part out;
        for (std::size_t k = 0; k < (m_split ? kSlotKinds : 2); ++k) {
            const auto kind = static_cast<Slot::Kind>(k);
            SlotTemplate slot = m_expander.part(kind, ModelChunkId(0), place);
            slot.blocking_messages = true;  // only the layers that send have one to wait for
            out.push_back(price(slot));
        }
        return out;
    }

    /// The layer between others of its own rank; `sends`: its gradient leaves the rank, and compute
    /// waits for that.
    [[nodiscard]] Part layer(std::int64_t layer, bool sends) {
        ChunkPlace place = between();
        place.layers = {layer, layer + 1};
        if (sends) place.before = StageId(1);
        return part(place);
    }
    [[nodiscard]] Part embedding() {
        ChunkPlace place = between();
        place.first = true;
        return part(place);
    }
    [[nodiscard]] Part head() {
        ChunkPlace place = between();
        place.last = true;
        return part(place);
    }

    [[nodiscard]] std::vector<Known> takeDurations() { return std::move(m_known); }

private:
    static constexpr StageId kHere = StageId(0);

    [[nodiscard]] static ChunkPlace between() {
        ChunkPlace place;
        place.before = place.after = kHere;
        place.chunk_before = place.chunk_after = ModelChunkId(0);
        return place;
    }

    [[nodiscard]] std::int64_t duration(const OperationKey& key) {
        const Cost cost = m_cost.operation(m_work.of(key, kHere), key.phase);
        return inNs(cost.time * m_exposure.share(key, kHere));
    }

    [[nodiscard]] SlotPiece price(const SlotTemplate& slot) {
        SlotPiece piece;
        std::vector<std::int64_t> times;
        times.reserve(slot.operations.size());
        for (const Operation& op : slot.operations) {
            const bool message = op.key.kind == OperationKind::Receive || isHandOver(op);
            times.push_back(message ? 0 : known(op.key));
            if (op.lane == Lane::Compute) piece.busy_ns += times.back();
            if (op.lane == Lane::Ep) piece.exchange_ns += times.back();
        }
        piece.matrix = laneMatrix(slot, times);
        for (const MemoryChange& change : slot.memory) {
            piece.net += change.delta;
            piece.peak = std::max(piece.peak, piece.net);
        }
        return piece;
    }

    /// Few keys: a layer has about twenty.
    [[nodiscard]] std::int64_t known(const OperationKey& key) {
        const auto at = std::ranges::find(m_known, key, &Known::key);
        if (at != m_known.end()) return at->ns;
        m_known.push_back({key, duration(key)});
        return m_known.back().ns;
    }

    const Plan& m_plan;
    const CostModel& m_cost;
    bool m_split;
    WorkTable m_work;
    Exposure m_exposure;
    StageExpander m_expander;
    std::vector<Known> m_known;
};

namespace {

/// A layer of that kind, to be expanded for all of its kind; -1 without one.
std::int64_t layerOfKind(const ModelSpec& model, LayerKind kind) {
    const auto at = std::ranges::find(model.layers, kind);
    return at == model.layers.end() ? -1 : at - model.layers.begin();
}

std::int64_t& at(PortTimes& times, Port port) {
    return times[static_cast<std::size_t>(port)];
}

}  // namespace

SlotPieces::SlotPieces(const Plan& plan, const CostModel& cost, bool split) : m_split(split) {
    Builder builder(plan, cost, split);
    for (LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
        const std::int64_t layer = layerOfKind(plan.model, kind);
        if (layer < 0) continue;
        const auto k = static_cast<std::size_t>(kind);
        m_layers[k] = builder.layer(layer, false);
        if (plan.layout.pp > 1) m_sending[k] = builder.layer(layer, true);
    }
    m_embedding = builder.embedding();
    m_head = builder.head();
    m_durations = builder.takeDurations();
}

std::int64_t SlotPieces::durationOf(const OperationKey& key) const {
    const auto at = std::ranges::find(m_durations, key, &Known::key);
    return at == m_durations.end() ? -1 : at->ns;
}

template <class Visit>
void SlotPieces::walk(Slot::Kind kind, std::span<const LayerUse> layers, const ChunkEnds& ends,
                      const SlotPieces& plain, const Visit& visit) const {
    const auto layer = [&](const LayerUse& use, bool sends) -> const Part& {
        const SlotPieces& of = use.recomputed ? *this : plain;
        return (sends ? of.m_sending : of.m_layers)[static_cast<std::size_t>(use.kind)];
    };
    if (kind == Slot::Kind::Forward) {
        if (ends.first) visit(m_embedding);
        for (const LayerUse& use : layers) visit(layer(use, false));
        if (ends.last) visit(m_head);
        return;
    }
    if (ends.last) visit(m_head);
    for (std::size_t i = layers.size(); i-- > 0;)
        visit(layer(layers[i], i == 0 && ends.waits_for_send));
    if (ends.first) visit(m_embedding);
}

ChunkSlots SlotPieces::chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                             const SlotPieces& plain) const {
    ChunkSlots out;
    for (std::size_t k = 0; k < (m_split ? kSlotKinds : 2); ++k) {
        const auto kind = static_cast<Slot::Kind>(k);
        PortTimes lanes{}, compute, hidden;
        compute.fill(kNever);
        hidden.fill(kNever);
        at(compute, Port::Compute) = 0;
        at(hidden, Port::Arrival) = 0;
        walk(kind, layers, ends, plain, [&](const Part& part) {
            const SlotPiece& piece = part[k];
            lanes = piece.matrix.apply(lanes);
            compute = piece.matrix.apply(compute);
            hidden = piece.matrix.apply(hidden);
            out.peak[k] = std::max(out.peak[k], out.net[k] + piece.peak);
            out.net[k] += piece.net;
            out.busy_ns[k] += piece.busy_ns;
            out.exchange_ns[k] += piece.exchange_ns;
        });
        for (Port port : {Port::Compute, Port::Ep, Port::TpCp, Port::Dp})
            out.span_ns[k] = std::max(out.span_ns[k], at(lanes, port));
        out.lane_ns[k] = std::max<std::int64_t>(0, at(compute, Port::Compute));
        out.pass_ns[k] = std::max<std::int64_t>(0, at(hidden, Port::Arrival));
        if (kind == Slot::Kind::Backward)
            out.after_pass_ns =
                std::max<std::int64_t>(0, at(lanes, Port::Compute) - at(lanes, Port::Arrival));
    }
    return out;
}

}  // namespace piper
